"""What may be opened, what is refused and how, and what a new store looks like on disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kit import make_action, make_job
from redrive.errors import (
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreLost,
    StoreMissing,
    StoreReadOnly,
    UsageError,
)
from redrive.jobs.job import State
from redrive.stores.sqlite import SqliteStore, opening
from stores.contract.verbs import add_one, count, found, get
from stores.sqlite.programs import run

Opener = Callable[..., SqliteStore]


def test_every_file_of_a_new_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    """T6, F111: with a umask that would allow everybody everything."""
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "made" / "jobs.db")
        store.add([make_job("a")])
        files = {each.name: stat.S_IMODE(each.stat().st_mode) for each in store_files(store)}
        store.close()
    finally:
        os.umask(before)
    assert files == {
        "jobs.db": 0o600,
        "jobs.db-wal": 0o600,
        "jobs.db-shm": 0o600,
        "jobs.db.lock": 0o600,
    }
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700


def store_files(store: SqliteStore) -> list[Path]:
    return sorted(Path(store.url.removeprefix("sqlite:")).parent.iterdir())


def test_a_missing_store_is_not_made_by_those_who_only_look(path: Path) -> None:
    """T6."""
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreMissing, match="redrive init"):
            SqliteStore(path, **options)
    assert list(path.parent.iterdir()) == []


def test_an_empty_file_is_filled_only_by_those_who_may_create(path: Path) -> None:
    """T6: a program that was killed right after it made the file leaves such a one."""
    path.touch(mode=0o600)
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreMissing):
            SqliteStore(path, **options)
    SqliteStore(path).close()
    assert SqliteStore(path, read_only=True).counts() == []


@pytest.mark.parametrize("content", [b"x", b"notes of mine\n" * 300, b"\0" * 5000])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    """T6, F33: with its path, and without a lock file beside it."""
    path.touch(mode=0o600)
    path.write_bytes(content)
    for options in ({}, {"read_only": True}, {"create": False}):
        with pytest.raises(StoreForeign, match=r"jobs\.db is not a Redrive store"):
            SqliteStore(path, **options)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    """T6: also one that has no mark of its own."""
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE jobs (id TEXT)")
    other.close()
    content = path.read_bytes()
    with pytest.raises(StoreForeign, match="another program"):
        SqliteStore(path)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_a_store_of_another_version_is_refused_and_left_alone(path: Path) -> None:
    """F33: an open store is not written to either, by rules that are not its own."""
    store = SqliteStore(path)
    for version in (opening.VERSION - 1, 99):
        with closing(sqlite3.connect(path)) as other, other:
            other.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(StoreForeign, match=f"schema {version}"):
            store.add([make_job("a")])
        for options in ({}, {"read_only": True}, {"create": False}):
            expected = (
                rf"jobs\.db.* schema {version}, this program reads schema {opening.VERSION}\."
            )
            with pytest.raises(StoreForeign, match=expected):
                SqliteStore(path, **options)
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA user_version").fetchone() == (version,)
            assert other.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


def test_a_damaged_database_is_called_damaged(path: Path) -> None:
    """T6."""
    store = SqliteStore(path)
    store.add([make_job(f"j{n}", payload='{"x":"%s"}' % ("y" * 900)) for n in range(50)])
    store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40_000)
    with pytest.raises(StoreDamaged, match=r"jobs\.db is damaged.*backup"):
        SqliteStore(path).counts()


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "device"])
def test_only_a_regular_file_can_be_a_store(tmp_path: Path, kind: str) -> None:
    """F15."""
    place = tmp_path / "x.db"
    if kind == "directory":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere.db")
    else:
        place = Path("/dev/full")
    with pytest.raises(StoreError, match="regular file"):
        SqliteStore(place)
    assert not (tmp_path / "elsewhere.db").exists()


@pytest.mark.parametrize("name", ["nul\0.db", "x" * 300 + ".db", "a/" * 300 + "x.db"])
def test_a_name_that_no_file_can_have_is_refused_in_words(tmp_path: Path, name: str) -> None:
    """F35."""
    with pytest.raises((StoreError, UsageError)):
        SqliteStore(tmp_path / name)


def test_a_store_for_reading_reads_and_changes_nothing(opener: Opener, path: Path) -> None:
    """T6."""
    store = opener()
    add_one(store, "a")
    looking = opener(read_only=True)
    assert get(looking, "a").id == "a"
    add_one(store, "b")
    assert count(looking, State.PENDING) == 2, "it sees what others write"
    assert looking.verify().ok
    for change in (
        lambda: looking.add([make_job("c")]),
        lambda: looking.note("n", "v"),
        lambda: looking.move(["a"], "resolve", make_action()),
    ):
        with pytest.raises(StoreReadOnly, match="reading only"):
            change()


# Runs as nobody where the tests run as root, for whom every directory is writable.
FORBIDDEN = """
os.chmod(os.path.dirname(path), 0o555)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
said = []
try:
    SqliteStore(path).add([make_job("b")])
except StoreReadOnly as error:
    said.append(os.path.dirname(path) in str(error) and "700" in str(error))
looking = SqliteStore(path, read_only=True)
said.append([job.id for job in looking.find(Query()).jobs])
looking.close()
print(json.dumps(said))
"""


def test_a_directory_that_may_not_be_written_is_said_and_can_still_be_read() -> None:
    """F14: with the mode that is needed; a store that was closed is read as it is."""
    with tempfile.TemporaryDirectory() as name:  # tmp_path is below directories of root's alone
        Path(name).chmod(0o755)
        place = Path(name) / "d" / "jobs.db"
        store = SqliteStore(place)
        store.add([make_job("a")])
        store.close()
        for each in place.parent.iterdir():
            each.chmod(0o444)
        assert run(FORBIDDEN, place) == [True, ["a"]]
        place.parent.chmod(0o700)


@pytest.mark.parametrize("value", ["\ud800", "a" * 10 + "\udfff"])
def test_text_that_no_database_can_keep_is_refused_and_stops_nobody(
    store: SqliteStore, value: str
) -> None:
    with pytest.raises(UsageError, match="cannot be kept"):
        store.add([make_job("a", tags=(value,)), make_job("b", key=value)])
    assert store.counts() == []
    add_one(store, "c")


def test_a_store_that_was_removed_is_lost(store: SqliteStore, path: Path) -> None:
    path.unlink()
    with pytest.raises(StoreLost):
        store.counts()


def hot(path: Path, *before: str) -> None:
    """Leave a database as one who was killed in the middle of a change leaves it."""
    with contextlib.closing(
        sqlite3.connect(path.with_name("other"), isolation_level=None)
    ) as other:
        for statement in (*before, "PRAGMA cache_size = 1", "BEGIN", "CREATE TABLE big (x)"):
            other.execute(statement)
        other.execute("INSERT INTO big VALUES (randomblob(100000))")
        for suffix in ("", "-journal"):
            shutil.copy(path.with_name(f"other{suffix}"), path.with_name(path.name + suffix))
    assert path.stat().st_size > 0


def test_a_store_whose_maker_was_killed_is_made_anew(path: Path) -> None:
    """F1, F2: SQLite needs a writer to roll the first change back; a reader finds no store yet."""
    hot(path)
    with pytest.raises(StoreMissing, match="empty"):
        SqliteStore(path, read_only=True)
    with contextlib.closing(SqliteStore(path)) as store:
        store.add([make_job("a")])
        assert store.verify().ok
    with contextlib.closing(SqliteStore(path, read_only=True)) as store:
        assert found(store) == ["a"]


def test_anothers_database_in_the_middle_of_a_change_is_left_alone(path: Path) -> None:
    """F15: not even rolled back."""
    hot(path, "CREATE TABLE theirs (x)")
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(StoreForeign, match="another program"):
        SqliteStore(path)
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


@pytest.mark.parametrize("step", range(1, 5))
def test_a_store_that_another_makes_while_we_look_is_never_taken_for_a_strangers(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Its mark and its tables come in one commit, so they are looked at in one go."""
    with contextlib.closing(sqlite3.connect(path)) as maker:
        maker.execute("PRAGMA journal_mode = WAL")  # as far as the other one got
    real, seen = opening.connect, []

    def connect(place: Path, mode: str, patience: float) -> sqlite3.Connection:
        connection = real(place, mode, patience)
        connection.set_trace_callback(look)
        return connection

    def look(statement: str) -> None:
        seen.append(statement)
        if len(seen) == step:
            monkeypatch.setattr(opening, "connect", real)
            SqliteStore(path).close()

    monkeypatch.setattr(opening, "connect", connect)
    opening.recognise(path, 5.0)
    assert seen
