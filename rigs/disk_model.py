"""What is on a disk when its power is cut: everything that was synced, and some of the rest.

Data and names are kept as programs see them and as they are on the disk. In between, chance decides
sector by sector what has arrived: torn writes, holes, sizes without data, names without files.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

SECTOR, PAGE = 512, 4096
Chance = Callable[[], bool]


def chance(rand: random.Random) -> Chance:
    """Give a chance: some share of everything arrives, or all that was first and nothing after."""
    if rand.random() < 0.5:
        share = rand.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        return lambda: rand.random() < share
    left = itertools.count(int(2 ** rand.uniform(0, 9)), -1)
    return lambda: next(left) > 0


class File:
    """Bytes as programs see them, and as they are on the disk."""

    def __init__(self) -> None:
        self.live = bytearray()
        self._kept = bytearray()
        self._clean = bytearray()
        """What programs saw when the changes below began."""
        self._changes: list[tuple[int, bytes] | int] = []
        """What was written where, and to which length it was cut."""

    def write(self, offset: int, data: bytes) -> None:
        """Change bytes."""
        self._changes.append((offset, data))
        _overwrite(self.live, offset, data)

    def truncate(self, length: int) -> None:
        """Change the length."""
        self._changes.append(length)
        _resize(self.live, length)

    def sync(self) -> None:
        """Bring all that changed to the disk."""
        self._kept = self.after(lambda: True)
        self.forget()

    def forget(self) -> None:
        """Believe that all is on the disk, as Linux does after a sync that failed."""
        self._clean = bytearray(self.live)
        self._changes.clear()

    def after(self, arrives: Chance) -> bytearray:
        """Give what is on the disk if chance decides which sectors arrived after each change."""
        disk, seen = bytearray(self._kept), bytearray(self._clean)
        for change in self._changes:
            if isinstance(change, int):
                _resize(seen, change)
                if arrives():
                    _resize(disk, change)
                continue
            _overwrite(seen, *change)
            for start in _sectors(change[0], len(change[1])):
                if start < len(seen) and arrives():
                    _overwrite(disk, start, bytes(seen[start : start + SECTOR]))
        if self._changes and len(disk) < len(seen) and arrives():
            _resize(disk, len(seen))
        return disk


def _sectors(offset: int, length: int) -> range:
    """Give the sectors of the pages that a write touches: the system writes whole pages."""
    return range(offset - offset % PAGE, -(-(offset + length) // PAGE) * PAGE, SECTOR)


def _resize(data: bytearray, length: int) -> None:
    del data[length:]
    data.extend(bytes(length - len(data)))


def _overwrite(data: bytearray, offset: int, new: bytes) -> None:
    if len(data) < offset:
        _resize(data, offset)
    data[offset : offset + len(new)] = new


class Folder:
    """Names as programs see them, and as they are on the disk."""

    def __init__(self) -> None:
        self.live: dict[str, int] = {}
        self._kept: dict[str, int] = {}
        self._changes: list[dict[str, int | None]] = []
        """Names that came to stand for a node, or for none; those of one rename together."""

    def change(self, names: dict[str, int | None]) -> None:
        """Make, remove or rename."""
        self._changes.append(names)
        _rename(self.live, names)

    def sync(self) -> None:
        """Bring all names to the disk."""
        self._kept = dict(self.live)
        self._changes.clear()

    def after(self, arrives: Chance, *, in_order: bool) -> dict[str, int]:
        """Give the names on the disk; most file systems keep their order, none has to."""
        names = dict(self._kept)
        for change in self._changes:
            if arrives():
                _rename(names, change)
            elif in_order:
                break
        return names


def _rename(names: dict[str, int], change: dict[str, int | None]) -> None:
    for name, number in change.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number
