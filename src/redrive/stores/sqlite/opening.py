"""Opening a SQLite file: is it ours, how is it set up, which version does it have.

Nothing is changed in a file before it is known to be a Redrive store of a version we know. Settings
that our promises rest on are read back, not assumed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from redrive.errors import StoreDamaged, StoreError, StoreMissing
from redrive.stores._files import open_private
from redrive.stores.refusals import check_version
from redrive.stores.sqlite.errors import foreign

APPLICATION_ID = 0x52647276  # `Rdrv` in the file's header: how `file` and we recognise a store

FULL, NORMAL = 2, 1
"""`PRAGMA synchronous`: synced at every commit, or only when the log is taken over."""

VERSION = 3  # the version of the schema that this program reads and writes
SCHEMA = Path(__file__).parent.parent.joinpath("sql", "sqlite", "schema.sql").read_text("utf-8")

_STRICT_SINCE = (3, 37)
_CHECKPOINT_PAGES = 4000
"""Many, for the commit that takes the log over waits for two more syncs; but 16 MiB, no more: a
commit that makes the log longer costs twice one that writes over its old pages."""
_CACHE_KIB = 16_384
_LOG_BYTES = 64 * 1024 * 1024

_SETTINGS = (
    "PRAGMA trusted_schema = 0",
    "PRAGMA mmap_size = 0",  # an I/O error in mapped memory kills the process
    "PRAGMA temp_store = 2",
    f"PRAGMA cache_size = -{_CACHE_KIB}",
)
_WRITER_SETTINGS = (
    # Only one of ours commits at a time, and checkpoints happen at commit: so none ever meet.
    f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit = {_LOG_BYTES}",
    "PRAGMA fullfsync = 1",  # macOS: its fsync alone does not reach the disk
    "PRAGMA checkpoint_fullfsync = 1",
)


def connect(place: Path, mode: str, patience: float) -> sqlite3.Connection:
    """Open an existing file: mode=ro, mode=rw or immutable=1."""
    name = quote(os.fsencode(place))
    connection = sqlite3.connect(
        f"file:{name}?{mode}",
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def open_writer(place: Path, patience: float) -> sqlite3.Connection:
    """Open a file for writing, in WAL mode; it must have been recognised before."""
    connection = connect(place, "mode=rw", patience)
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreError(
                f"{place} cannot be written in WAL mode (SQLite says {mode!r}); "
                "keep it on a local disk"
            )
        for setting in _WRITER_SETTINGS:
            connection.execute(setting)
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(place: Path, patience: float) -> tuple[sqlite3.Connection, bool]:
    """Open a file for reading; the answer says whether the connection may be kept.

    Where not even SQLite's shared memory can be made (a directory that is read-only), a file without
    a log is read as if nobody could write it; that may stop being true, so it is not kept.
    """
    _check_size(place)
    try:
        return _open_checked(place, "mode=ro", patience), True
    except sqlite3.OperationalError as error:
        if _is_stillborn(place, error):
            raise _empty(place) from None
        if os.access(place.parent, os.W_OK) or _has_log(place):
            raise
    return _open_checked(place, "immutable=1", patience), False


def _open_checked(place: Path, mode: str, patience: float) -> sqlite3.Connection:
    connection = connect(place, mode, patience)
    try:
        check_readable(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_log(place: Path) -> bool:
    log = place.with_name(place.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def synchronous(connection: sqlite3.Connection) -> int:
    """Read back how commits are synced."""
    return int(connection.execute("PRAGMA synchronous").fetchone()[0])


def create_file(place: Path, *, create: bool) -> None:
    """Make the file, readable by its owner alone, before SQLite would make it for everybody."""
    if place.exists() and place.stat().st_size > 0:
        return
    if _has_log(place):
        log = f"{place}-wal"
        msg = f"{place} was emptied or removed, but not its log {log}; restore both from a backup"
        raise StoreDamaged(msg)
    if not create:
        msg = f"no store at {place}; `redrive init` creates one, or name another with --store"
        raise StoreMissing(msg)
    os.close(open_private(place, os.O_RDWR | os.O_CREAT))


def recognise(place: Path, patience: float) -> None:
    """Refuse what is not ours without touching it: not even a lock is left beside it."""
    if not place.exists() or place.stat().st_size == 0:
        return
    _check_size(place)
    try:
        with contextlib.closing(connect(place, "mode=ro", patience)) as connection:
            version_of(connection, place)
    except sqlite3.OperationalError as error:
        if not _is_stillborn(place, error):
            raise


def _is_stillborn(place: Path, error: sqlite3.OperationalError) -> bool:
    """Return True if a file cannot be read because its maker was killed before it wrote anything.

    Only then do we leave a journal of the old kind behind, which takes a writer to roll back. It
    says how many pages there were before: none.
    """
    if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
        return False
    with contextlib.suppress(FileNotFoundError):  # another one was faster
        if place.with_name(place.name + "-journal").read_bytes()[16:20] != bytes(4):
            raise foreign(place, "it is a SQLite database of another program")
    return True


def _check_size(place: Path) -> None:
    """Refuse the one foreign file that SQLite takes for an empty database; it tells all others.

    Looked at from outside: to open and close the file here would give up the locks that SQLite has
    on it anywhere in this process.
    """
    if place.stat().st_size == 1:
        raise foreign(place, "it is not a SQLite database")


def version_of(connection: sqlite3.Connection, place: Path) -> int:
    """Return the schema version, 0 for an empty database; StoreForeign if it is not for us.

    In one statement, which sees one moment: another program may be making the store just now.
    """
    mark, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if mark == 0 and tables == 0:
        return 0
    if mark != APPLICATION_ID:
        raise foreign(place, "it is a SQLite database of another program")
    check_version(url_of(place), version, VERSION)
    return int(version)


def url_of(place: Path) -> str:
    """Return how a store in a file is named."""
    return f"sqlite:{place}"


def check_readable(connection: sqlite3.Connection, place: Path) -> None:
    """Make sure that a file opened for reading has the schema our queries are for."""
    if version_of(connection, place) == 0:
        raise _empty(place)


def _empty(place: Path) -> StoreMissing:
    return StoreMissing(f"no store at {place}: it is empty; `redrive init` creates one")


def create_schema(connection: sqlite3.Connection, place: Path) -> None:
    """Create the tables in an empty file."""
    if version_of(connection, place) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        if version_of(connection, place) == 0:  # another process may have been faster
            for statement in _statements(SCHEMA):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
            connection.execute(f"PRAGMA user_version = {VERSION:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """Cut a script into statements: Python's own way to run one would commit in between."""
    if sqlite3.sqlite_version_info < _STRICT_SINCE:
        script = script.replace(") STRICT, ", ") ").replace(") STRICT;", ");")
    found: list[str] = []
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text)
            text = ""
    return found
