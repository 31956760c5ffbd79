"""How far ahead a worker claims: only as much as it will soon begin."""

from __future__ import annotations

import time

_AHEAD = 0.1
"""Seconds of work that may wait here for a free slot."""
_WINDOW = 0.02
_STALE = 1.0


class Pace:
    """Measures how quickly jobs end, and says from that how many to claim."""

    def __init__(self, concurrency: int, batch: int) -> None:
        self._concurrency = concurrency
        self._batch = batch
        self._counted = 0
        self._since = time.monotonic()
        self._ahead = 0

    @property
    def ahead(self) -> int:
        """How many jobs may wait here; none once nothing has ended for a while."""
        return self._ahead if time.monotonic() - self._since < _STALE else 0

    @property
    def low(self) -> int:
        """So many waiting jobs are few; 0 while none are claimed ahead."""
        return self.ahead // 2

    def room(self, busy: int, waiting: int) -> int:
        """How many jobs to claim now; none while enough are waiting."""
        ahead = self.ahead
        if waiting > ahead // 2:
            return 0
        room = min(self._batch, self._concurrency + ahead - busy)
        # A small claim costs the store nearly as much as a large one, and can wait while others do.
        return 0 if room < self._batch // 2 and waiting > self._concurrency else room

    def count(self, ended: int) -> None:
        """Take note of jobs that ended."""
        self._counted += ended
        now = time.monotonic()
        passed = now - self._since
        # A few that end together say nothing of how quickly they do.
        few = self._counted < 2 * self._concurrency and passed < _STALE
        if passed < _WINDOW or few:
            return
        rate = self._counted / passed if passed < _STALE else 0.0
        # One batch may be being settled, one run, one wait: so there is room to claim a whole one.
        self._ahead = min(4 * self._batch, int(rate * _AHEAD))
        self._counted, self._since = 0, now
