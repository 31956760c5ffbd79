"""One round of a worker's steering thread: since when it lasts, and whether it may.

A handler can keep a lock that the steering thread needs, for example one of `logging`. Then nothing
is claimed or settled any more, though all other threads run. The heartbeat asks here.
"""

from __future__ import annotations

import sys
import threading
import time

_LONGEST = 2.0
"""Seconds after which a round stops the heartbeat, unless it waits for the store; the supervisor's
patience comes on top."""
_LONGEST_IN_STORE = 60.0
"""The same for a round that waits for the store: a few calls, each of which may wait for a lock."""


class Round:
    """The round that goes on now."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._thread = 0

    def begin(self) -> None:
        """Note that the next one begins, in this thread."""
        self._began, self._thread = time.monotonic(), threading.get_ident()

    @property
    def is_young(self) -> bool:
        """Whether it may last as long as it does."""
        if self._began is None:
            return True
        age = time.monotonic() - self._began
        return age < _LONGEST or (age < _LONGEST_IN_STORE and self._is_in_store())

    def _is_in_store(self) -> bool:
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - there is no other way to look
        while frame is not None:
            if str(frame.f_globals.get("__name__")).startswith("redrive.stores."):
                return True
            frame = frame.f_back
        return False
