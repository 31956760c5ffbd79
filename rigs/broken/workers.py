"""Sabotage of the worker, each by one name; a worker process calls `sabotage` before it starts."""

from __future__ import annotations

from collections.abc import Callable

from broken import processes
from redrive.worker import begun
from redrive.worker.hands import Hands
from redrive.worker.pauses import Pauses
from redrive.worker.suspects import Suspects


def together() -> None:
    """Claim jobs that crashed before in batches, and run them beside each other."""

    def take(self: Suspects) -> None:
        self._hands.put(self._claim(100))

    _put(Suspects, "take", take)
    _put(Hands, "is_apart", lambda *_: False)


def unasked() -> None:
    """Take every last attempt of a worker that died for begun."""
    _put(begun, "never", lambda *_: False)


def forgiving() -> None:
    """Give back what a worker that died had, as if it had never begun: no crash is recorded."""
    _put(begun, "never", lambda *_: True)


def flood() -> None:
    """Let the whole backlog of a lane go as soon as a probe succeeded."""

    def succeeded(self: Pauses, lane: str) -> None:
        if note := self._tripped(lane):
            self._store.note(note.name, None)

    _put(Pauses, "_succeeded", succeeded)


def _put(where: object, name: str, what: object) -> None:
    """Replace something that is there; a name that is gone is a mistake of ours."""
    assert hasattr(where, name), f"{where!r} has no {name} any more: {processes.STALE}"
    setattr(where, name, what)


_ALL: dict[str, Callable[[], None]] = {
    "together": together,
    "unasked": unasked,
    "forgiving": forgiving,
    "flood": flood,
}


def sabotage(name: str) -> None:
    """Break this process; without a name it stays whole."""
    if name in _ALL:
        _ALL[name]()
    else:
        processes.sabotage(name)
