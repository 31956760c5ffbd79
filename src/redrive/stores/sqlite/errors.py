"""SQLite's errors as ours: what happened, where, and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sqlite3
from collections.abc import Generator
from pathlib import Path

from redrive.errors import (
    RedriveError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLost,
    StoreMissing,
    UsageError,
)
from redrive.stores._files import failed, forbidden

KNOWN = (sqlite3.Error, OSError, OverflowError, UnicodeError)
"""What a database raises that `translate` has words for."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PROBE = 65_536  # bytes that must fit for a failed write not to be called a full disk


@contextlib.contextmanager
def translated(place: Path) -> Generator[None]:
    """Raise our errors in place of the database's."""
    try:
        yield
    except KNOWN as error:
        raise translate(error, place) from error


def translate(error: Exception, place: Path) -> Exception:
    """Return our error for one of the database, the system or the values; others stay as they are."""
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error, place)
    if isinstance(error, OSError):
        return failed(error, place)
    if isinstance(error, OverflowError | UnicodeError):
        return UsageError(f"a value cannot be kept in {place} ({error}); nothing was stored")
    return error


def _from_sqlite(error: sqlite3.Error, place: Path) -> RedriveError:
    # Errors that Python raises itself, such as for a closed connection, have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    match code:
        case sqlite3.SQLITE_FULL:
            return _full(place, error)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"another program holds {place} ({error}); end it, or wait and repeat")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return forbidden(place, error)
        case sqlite3.SQLITE_NOTADB:
            return foreign(place, "it is not a SQLite database (name a file of lines jsonl:PATH)")
        case sqlite3.SQLITE_CORRUPT:
            return StoreDamaged(
                f"{place} is damaged ({error}); keep a copy of it with its -wal file, then restore "
                "a backup or try the .recover command of the sqlite3 shell"
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN:
            return _from_system(error, place)
        case sqlite3.SQLITE_CONSTRAINT | sqlite3.SQLITE_MISMATCH | sqlite3.SQLITE_TOOBIG:
            return UsageError(f"a value does not fit into {place} ({error}); nothing was stored")
        case _ if "malformed JSON" in str(error):
            return StoreDamaged(f"a job in {place} cannot be read; `redrive verify` lists it")
        case _:
            return StoreError(f"{place}: {error}")


def _from_system(error: sqlite3.Error, place: Path) -> StoreError:
    """Find out what an I/O error was about: SQLite does not tell."""
    if _is_full(place):
        return _full(place, error)
    if not place.exists():
        return StoreMissing(f"{place} is gone ({error}); put it back, or create a new store")
    if not os.access(place.parent, os.W_OK | os.X_OK) or not os.access(place, os.R_OK | os.W_OK):
        return forbidden(place, error)
    return StoreLost(
        f"reading or writing {place} failed ({error}); check the disk, then open it again"
    )


def _full(place: Path, error: sqlite3.Error) -> StoreFull:
    return StoreFull(f"no room to write {place} ({error}); free some space, then repeat")


def _is_full(place: Path) -> bool:
    """Return True if not even a little more can be written: no space, no quota, or a size limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY:
        sizes = [os.stat(name).st_size for name in _files_of(place) if os.path.exists(name)]  # noqa: PTH110, PTH116 - not Paths
        if max(sizes, default=0) + _PROBE > limit:
            return True
    try:
        import tempfile  # noqa: PLC0415 - slow to load, for a day that is rare

        with tempfile.TemporaryFile(dir=place.parent, buffering=0) as probe:
            probe.write(bytes(min(_PROBE, limit) if limit > 0 else _PROBE))
            os.fsync(probe.fileno())
    except ImportError:
        return False  # no descriptors are left
    except OSError as error:
        return error.errno in _FULL
    return False


def _files_of(place: Path) -> list[str]:
    return [f"{place}{suffix}" for suffix in ("", "-wal", "-shm")]


def foreign(place: Path, why: str) -> StoreForeign:
    """Return the error for a file that is not a store."""
    return StoreForeign(f"{place} is not a Redrive store: {why}; name another file with --store")
