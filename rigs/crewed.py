"""The program that rigs about the worker run: that of the tests, broken on purpose if asked to.

Where `CREW_TRAPS` names a directory, a process that holds the store's lock looks there: it takes a
file `kill…` and ends itself with the lock in hand, or a file `stop…` and stands still.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

from broken import workers

workers.sabotage(os.environ.get("CREW_BROKEN", ""))

from crewapp import app, write  # noqa: E402 - broken first, if at all
from redrive.events import Event  # noqa: E402
from redrive.stores._files import FileLock  # noqa: E402
from redrive.stores.postgres.database import Database  # noqa: E402

__all__ = ["app"]

_TRAPS = os.environ.get("CREW_TRAPS", "")


def spring() -> None:
    """Step into a trap, if there is one."""
    for name in os.listdir(_TRAPS):  # noqa: PTH208 - called a thousand times a second
        if name.startswith("sprung"):
            continue
        with contextlib.suppress(FileNotFoundError):  # another was faster
            os.rename(f"{_TRAPS}/{name}", f"{_TRAPS}/sprung-{name}-{os.getpid()}")  # noqa: PTH104
            os.kill(os.getpid(), signal.SIGKILL if name.startswith("kill") else signal.SIGSTOP)


def set_traps() -> None:
    """Have both kinds of locks looked after: that of a file, and those of a transaction's rows."""
    acquire, commit = FileLock.__enter__, Database._commit  # noqa: SLF001

    def acquired(self: FileLock) -> None:
        acquire(self)
        spring()

    def committed(self: Database, begin: str, work: Callable[[Any], Any], *more: Any) -> Any:
        def trapped(tx: Any) -> Any:
            answer = work(tx)
            if begin != "begin_read":
                spring()
            return answer

        return commit(self, begin, trapped, *more)

    FileLock.__enter__ = acquired  # type: ignore[method-assign]
    Database._commit = committed  # type: ignore[method-assign,assignment]  # noqa: SLF001


def tell(event: Event) -> None:
    """Write down what the program is told of."""
    if event.job is not None and event.kind == "succeeded":
        write("told", event.job.id, event.job.attempts, event.job.lease)


if _TRAPS:
    set_traps()
    app.listen(tell)
    write("ready", "-", 0, 0)
