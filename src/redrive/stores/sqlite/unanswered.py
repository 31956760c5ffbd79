"""After a sync that failed: what the system shows is no longer what is on the disk.

Linux gives up the pages it could not write, calls them clean and still shows them to every reader, so
that the next sync succeeds without them. A log with such a hole would swallow all that is committed
behind it when the power fails. The cure is to write the same bytes again and to sync those, before
anything else is written. A file beside the store says that it is needed; it need not be synced itself:
after a power cut everybody sees what is on the disk.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from redrive.stores._files import write_all

_CHUNK = 1 << 20


def leave(place: Path) -> None:
    """Mark that a write to a store failed. Under the lock only."""
    with contextlib.suppress(OSError):
        _sign(place).touch(0o600)


def clear(place: Path) -> None:
    """Write the log again if a write failed before. Under the lock only."""
    if not _sign(place).exists():
        return
    with contextlib.suppress(FileNotFoundError):
        _write_again(place.with_name(place.name + "-wal"))
    _sign(place).unlink(missing_ok=True)


def try_to_clear(place: Path) -> None:
    """Do the same where nobody can be told that it failed; the sign then stays."""
    with contextlib.suppress(OSError):
        clear(place)


def _sign(place: Path) -> Path:
    return place.with_name(place.name + ".unsynced")


def _write_again(file: Path) -> None:
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        while part := os.read(descriptor, _CHUNK):
            os.lseek(descriptor, -len(part), os.SEEK_CUR)
            write_all(descriptor, part)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
