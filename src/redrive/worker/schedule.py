"""What a worker does every so often, beside its jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from redrive.errors import StoreError
from redrive.jobs.logger import log


class Duty:
    """Something to be done every so often."""

    def __init__(self, every: float, work: Callable[[], object]) -> None:
        self._every = every
        self._work = work
        self._next = 0.0

    def tick(self, now: float) -> None:
        """Do it if it is time."""
        if now >= self._next:
            self._next = now + self._every
            self._work()

    def join(self, timeout: float) -> None:
        """Wait for it to be done; here it always is."""


class Aside(Duty):
    """A duty that may take long, or calls code of the user's: it has a thread of its own."""

    _thread: threading.Thread | None = None

    def tick(self, now: float) -> None:
        """Start it if it is time and it is not being done."""
        if now < self._next or (self._thread is not None and self._thread.is_alive()):
            return
        self._next = now + self._every
        self._thread = threading.Thread(target=self._do, name="redrive-duty", daemon=True)
        self._thread.start()

    def _do(self) -> None:
        try:
            self._work()
        except StoreError as error:
            log.warning("the store cannot be used now, trying again: %s", error)
        except BaseException:
            log.exception("a duty of the worker failed; trying again")

    def join(self, timeout: float) -> None:
        """Wait for it to be done."""
        if self._thread is not None:
            self._thread.join(timeout)


class Watcher(Protocol):
    """Checks a store every few seconds beside the work on its jobs."""

    def tick(self) -> None:
        """Check if it is time; it never raises."""
        ...

    def leave(self) -> None:
        """Stop checking."""
        ...


class Alerting(Protocol):
    """Makes the watcher of an app; `redrive.alerts.Alerts` is one."""

    def watch(self, app: Any) -> Watcher:
        """Return the watcher over an app's store."""
        ...
