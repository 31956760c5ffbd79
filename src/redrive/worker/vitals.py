"""Whether this process can still do what a worker needs, whatever handlers did to it.

A handler may limit the descriptors, the memory or the size of files of its whole process, move it to
a directory that is removed, or break what our own code calls. Then only a new process helps.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from redrive.payloads import masking

_EVERY = 1.0
"""Seconds between two looks."""
_PATIENCE = 3.0
"""Seconds for which all looks, or all rounds, must fail: descriptors may be used up for a moment."""
GRACE = 2.0
"""Seconds in which a process that cannot work any more has to end."""
_FILE = 1 << 26
"""Bytes of a file that a process must be able to make; nothing is written."""


class Vitals:
    """What has failed since when; `why` says what."""

    def __init__(self) -> None:
        self.why = ""
        self._next = 0.0
        self._could = False
        """Whether a look has ever succeeded: what never worked is not a handler's doing."""
        self._looks_fail_since: float | None = None
        self._rounds_fail_since: float | None = None

    def worked(self) -> None:
        """Note that a round of the worker succeeded."""
        self._rounds_fail_since = None

    def failed(self) -> None:
        """Note that a round failed, and not because of the store."""
        self._rounds_fail_since = self._rounds_fail_since or time.monotonic()

    def is_ruined(self) -> bool:
        """Look, if it is time; return True if this process has been unable to work for too long."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _EVERY
        self._look(now)
        if self._rounds_fail_since is not None and now - self._rounds_fail_since > _PATIENCE:
            self.why = "every round fails"
            return True
        return self._looks_fail_since is not None and now - self._looks_fail_since > _PATIENCE

    def _look(self, now: float) -> None:
        try:
            Path.cwd()  # children start there
            _open_file()
            _start_thread()
        except (OSError, RuntimeError, MemoryError) as error:
            self.why = f"{masking.type_name(error)}: {error}"
            if self._could:
                self._looks_fail_since = self._looks_fail_since or now
        else:
            self._could, self._looks_fail_since = True, None


def _open_file() -> None:
    make: Callable[[str], int] | None = getattr(os, "memfd_create", None)
    descriptor = os.open(os.devnull, os.O_RDONLY) if make is None else make("redrive-look")
    try:
        if make is not None:
            os.ftruncate(descriptor, _FILE)
    finally:
        os.close(descriptor)


def _start_thread() -> None:
    thread = threading.Thread(target=int, name="redrive-look", daemon=True)
    thread.start()
    thread.join(_EVERY)
