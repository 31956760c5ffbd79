"""Is it still the file that was opened? Asked before every commit, for what SQLite does not notice.

Somebody may put another file in its place, remove it, cut it short, or take its log away; what is
written after that would be lost, or break what is there.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from redrive.errors import StoreLost

_TICK = 100_000_000
"""Nanoseconds after which a directory that changes again has another time of change for certain."""


class Watch:
    """What a file and its log were found to be, and whether they still are."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._path, self._directory = str(place), str(place.parent)
        self._identity: tuple[int, int] | None = None
        self._size = 0
        self._log: tuple[int, int] | None = None
        self._quiet_since: int | None = None

    def check(self, *, stands: bool = False) -> None:
        """Refuse a file that is no longer the one that was opened.

        Or one that was cut, if its size `stands`: under the lock, while nobody checkpoints.
        """
        try:
            found = os.stat(self._path)  # noqa: PTH116 - a tenth of the cost, at every commit
        except FileNotFoundError:
            raise _lost(self._place, "was removed") from None
        if self._identity is None:
            self._identity = found.st_dev, found.st_ino
        if self._identity != (found.st_dev, found.st_ino):
            raise _lost(self._place, "was replaced")
        if stands:
            if found.st_size < self._size and _is_cut(self._place, found.st_size):
                raise _lost(self._place, "was cut short")
            self._size = found.st_size

    def follow_log(self) -> None:
        """Take the log that is there now for ours."""
        self._log, self._quiet_since = _log_of(self._path), None

    def check_log(self) -> None:
        """Refuse to go on with a log that is no longer at its place: what it gets would be lost."""
        if self.log_is_lost():
            raise StoreLost(
                f"the log of {self._place} was removed: this program opened and closed the file "
                "itself, which drops SQLite's locks on it, and another program then removed the log; "
                "open the store again, and copy a store only from another process"
            )

    def log_is_lost(self) -> bool:
        """Return True if our log is no longer at its place.

        Asking the log itself makes its next sync far dearer (its time must then be exact), so it is
        asked only when something came to or went from its directory.
        """
        changed = os.stat(self._directory).st_mtime_ns  # noqa: PTH116
        if changed == self._quiet_since:
            return False
        lost = _log_of(self._path) != self._log
        settled = time.time_ns() - changed > _TICK
        self._quiet_since = changed if settled and not lost else None
        return lost


def _log_of(path: str) -> tuple[int, int] | None:
    """Return the device and inode of SQLite's log."""
    try:
        found = os.stat(path + "-wal")  # noqa: PTH116
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _is_cut(place: Path, size: int) -> bool:
    """Return True if a file that shrank is shorter than its header says (a VACUUM shrinks both)."""
    header = os.pread(_descriptor_of(place), 32, 0)
    pages, page = int.from_bytes(header[28:32], "big"), int.from_bytes(header[16:18], "big")
    return size == 0 or size < pages * (65_536 if page == 1 else page)


def _descriptor_of(place: Path) -> int:
    """Return a descriptor that stays open: closing one gives up all locks SQLite has on the file."""
    found = place.stat()
    key = found.st_dev, found.st_ino
    if key not in _kept_open:
        _kept_open[key] = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    return _kept_open[key]


def _lost(place: Path, what: str) -> StoreLost:
    return StoreLost(
        f"{place} {what} while it was open; end all programs that use it, put the right file there "
        "without the old -wal and -shm beside it, and start again"
    )


_kept_open: dict[tuple[int, int], int] = {}
