"""One round of a worker's steering thread: whether it still moves.

A handler can keep a lock that the steering thread needs, for example one of `logging`. Then nothing
is claimed or settled any more, though all other threads run. The heartbeat asks here.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType

from redrive.jobs.logger import lines_logged

_LONGEST = 2.0
"""Seconds without any progress after which a round stops the heartbeat, unless it waits for the store;
the supervisor's patience comes on top."""
_LONGEST_IN_STORE = 60.0
"""The same for a round that waits for the store: a few calls, each of which may wait for a lock."""

Place = tuple[int, int, int, int]
"""Where the steering thread is: the number of its round, of log lines, its frame and instruction."""


class Round:
    """The round that goes on now. A slow one is fine as long as it moves: the machine may be busy."""

    def __init__(self) -> None:
        self._number = 0
        self._thread = 0
        self._place: Place | None = None
        self._since = 0.0

    def begin(self) -> None:
        """Note that the next one begins, in this thread."""
        self._number, self._thread = self._number + 1, threading.get_ident()

    @property
    def is_moving(self) -> bool:
        """Whether it has moved of late; to be asked again and again, by one thread."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - there is no other way to look
        if frame is None:
            return True
        place = (self._number, lines_logged(), id(frame), frame.f_lasti)
        now = time.monotonic()
        if place != self._place:
            self._place, self._since = place, now
        still = now - self._since
        return still < _LONGEST or (still < _LONGEST_IN_STORE and _is_in_store(frame))


def _is_in_store(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("redrive.stores."):
            return True
        frame = frame.f_back
    return False
