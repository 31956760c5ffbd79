"""Lanes: pausing them, who serves them, which ones nobody serves; and durable listeners."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from redrive.attempts import worker_notes
from redrive.errors import Refused
from redrive.jobs import checks, durations
from redrive.jobs.durations import Duration
from redrive.jobs.groups import Span
from redrive.jobs.job import Action
from redrive.payloads.masking import mask_payload, mask_text
from redrive.stores.contract import Count
from redrive.stores.note_verbs import PAUSE, Note, note_named

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.log import Log
    from redrive.jobs.reports import EventKind


SILENT = 15.0  # seconds without a heartbeat after which a worker is silent; it sends one every 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorker:
    """A worker process, as its last heartbeat described it."""

    host: str
    pid: int | None
    version: str
    release: str | None
    """The release of the program that it runs; None if that is not known."""
    since: float | None
    """When it started."""
    lanes: tuple[str, ...]
    missing: Mapping[str, Any]
    """Handlers that it cannot run because a library is missing: the lane and the error of each."""
    silent: float
    """Seconds since its last heartbeat."""
    blocked: Mapping[str, Any] | None
    """The `job` and `handler` that block its event loop, and `since` when; None if none does."""
    slots: worker_notes.Slots | None = None
    """How many jobs it can run, and what it ran at its last heartbeat; None if it did not say."""

    @property
    def is_silent(self) -> bool:
        """True if its heartbeat is overdue: it hangs, or it was killed just now."""
        return self.silent > SILENT

    @property
    def name(self) -> str:
        """The host and the process."""
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePause:
    """A pause of a lane: by whom, why, and for how long."""

    lane: str
    by: str
    reason: str
    since: float | None
    seconds_left: float | None
    """None: until it is resumed."""


class ListenerRecord(NamedTuple):
    """A listener that some program registered with `app.on`; its lane is redrive.on.NAME."""

    name: str
    kinds: tuple[EventKind, ...]
    waiting: int
    """How many events are not delivered yet."""
    oldest: float | None
    """When the oldest of them happened."""


class Lanes:
    """Pauses lanes and shows the workers that serve them."""

    def __init__(self, backend: Backend, log: Log) -> None:
        self._backend = backend
        self._log = log

    def pause(
        self,
        lane: str,
        *,
        reason: str = "",
        duration: Duration | None = None,
        actor: str | None = None,
    ) -> Action:
        """Pause a lane for all workers, until `resume` or for `duration`; waiting costs no attempt.

        Returns the action as it was recorded.
        """
        from redrive.events import Event  # noqa: PLC0415 - a desk that only reads needs none
        from redrive.registry import check_lane  # noqa: PLC0415

        seconds = None if duration is None else durations.positive(duration, name="duration")
        action = self._log.action("pause", check_lane(lane), reason, actor)
        store = self._backend.store
        value = {"by": action.actor, "reason": action.reason, "since": store.now()}
        text = json.dumps(value, ensure_ascii=False)
        store.note(PAUSE + lane, text, expires_in=seconds, durable=True)
        store.record(action)
        self._backend.bus.emit(Event("paused", detail=lane))
        return action

    def resume(self, lane: str, *, reason: str = "", actor: str | None = None) -> Action:
        """End the pause of a lane, and return the action; Refused if the lane is not paused."""
        from redrive.events import Event  # noqa: PLC0415
        from redrive.registry import check_lane  # noqa: PLC0415

        store, name = self._backend.store, PAUSE + check_lane(lane)
        if note_named(store, name) is None:
            raise Refused(f"lane {lane!r} is not paused; `redrive status` shows the lanes that are")
        store.note(name, None, durable=True)
        action = self._log.action("resume", lane, reason, actor)
        store.record(action)
        self._backend.bus.emit(Event("resumed", detail=lane))
        return action

    def pauses(self) -> list[LanePause]:
        """Return the pauses in force."""
        return [_pause_of(note) for note in self._backend.store.notes(PAUSE)]

    def workers(self) -> list[LiveWorker]:
        """Return the live workers: where each runs and what it serves."""
        notes = self._backend.store.notes(worker_notes.WORKER)
        return [_worker_of(note) for note in notes if not worker_notes.is_pass(note)]

    def last_pass(self) -> float | None:
        """Return when a pass (`run_due`) last ran what was due; None if that was over a day ago."""
        store = self._backend.store
        notes = filter(worker_notes.is_pass, store.notes(worker_notes.WORKER))
        left = [note.expires_in or 0.0 for note in notes]
        return store.now() + max(left) - worker_notes.PASS_LASTS if left else None

    def served(self) -> frozenset[str]:
        """Return the lanes that a worker serves now, or a pass served in the last day."""
        return worker_notes.served(self._backend.store, "lanes")

    def listeners(self) -> list[ListenerRecord]:
        """Return the durable listeners by name, and what waits for each."""
        store = self._backend.store
        waiting = store.waiting_events()
        return [
            ListenerRecord(name, tuple(sorted(kinds)), *waiting.get(name, (0, None)))
            for name, kinds in sorted(store.subscriptions().items())
        ]

    def remove_listener(self, name: str, *, reason: str = "", actor: str | None = None) -> Action:
        """Remove a listener and the events that wait for it; Refused if there is none of that name.

        A program that still has it records it again when it opens the store.
        """
        store = self._backend.store
        known = store.subscriptions()
        if name not in known:
            raise Refused(f"no listener {name!r}; known: {', '.join(known) or 'none'}")
        store.unsubscribe(name)
        action = self._log.action("remove_listener", name, reason, actor)
        store.record(action)
        return action

    def deaths(self, span: Span, number: int) -> list[int]:
        """Return how many jobs died in the last `number` minutes (60) or hours (3600), oldest first."""
        curves = self._backend.store.lane_curve(*checks.curve(span, number)).values()
        return [sum(curve[place].deaths for curve in curves) for place in range(number)]

    def unserved(self, counts: Sequence[Count] | None = None) -> dict[str, float]:
        """Return the lanes with due jobs that nobody serves, and since when the oldest is due.

        A caller that has just counted the jobs passes the `counts`.
        """
        return worker_notes.unserved(self._backend.store, counts)

    def unserved_because(self) -> dict[str, str]:
        """Return the lanes that a worker cannot serve because a library is missing, and its error."""
        missing = worker_notes.missing(self._backend.store)
        return {
            lane: mask_text(f"handler {name} cannot run: {why}")
            for name, (lane, why) in missing.items()
        }


def _pause_of(note: Note) -> LanePause:
    fields = note.fields  # empty if another program wrote it
    since = fields.get("since")
    return LanePause(
        lane=note.name.removeprefix(PAUSE),
        by=mask_text(str(fields.get("by") or "unknown")),
        reason=mask_text(str(fields.get("reason") or "") if fields else note.value),
        since=since if isinstance(since, int | float) else None,
        seconds_left=note.expires_in,
    )


def _worker_of(note: Note) -> LiveWorker:
    fields = note.fields
    pid, since, lanes, missing = (fields.get(n) for n in ("pid", "since", "lanes", "missing"))
    return LiveWorker(
        host=mask_text(str(fields.get("host", "unknown"))),
        pid=pid if isinstance(pid, int) else None,
        version=mask_text(str(fields.get("version", "unknown"))),
        release=mask_text(str(fields["release"])) if fields.get("release") else None,
        since=since if isinstance(since, int | float) else None,
        lanes=tuple(map(str, cast("list[object]", lanes))) if isinstance(lanes, list) else (),
        missing=cast("Any", mask_payload(cast("Any", missing)))
        if isinstance(missing, dict)
        else {},
        silent=worker_notes.silence(note),
        blocked=worker_notes.blocked(note),
        slots=worker_notes.slots(note),
    )
