"""Many who want to write: everyone gets a turn, waits are bounded, and one failure is one failure (T3)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit import make_job
from redrive.errors import KeyConflict, StoreBusy
from redrive.jobs.job import Job, State
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import add_one, claim, count, found, settle
from stores.sqlite.programs import run, start

Opener = Callable[..., SqliteStore]


def together(store: SqliteStore, *calls: Callable[[], Any]) -> list[Any]:
    """Have these calls wait while the store is held, so that one commit takes them all."""
    results: list[Any] = [None] * len(calls)

    def call(at: int) -> None:
        try:
            results[at] = calls[at]()
        except Exception as error:  # noqa: BLE001 - what the test looks at
            results[at] = error

    threads = [threading.Thread(target=call, args=(at,)) for at in range(len(calls))]
    combiner = store._file._combiner
    with store._file._turn:
        threads[0].start()
        wait_until(lambda: combiner._busy and not combiner._waiting)
        for thread in threads[1:]:
            thread.start()
        wait_until(lambda: len(combiner._waiting) == len(calls) - 1)
    for thread in threads:
        thread.join()
    return results


def wait_until(done: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not done():
        pause.wait(0.001)


def statements(store: SqliteStore) -> list[str]:
    """Listen to what the writing connection is told from now on."""
    heard: list[str] = []
    assert store._file._writer is not None
    store._file._writer.set_trace_callback(heard.append)
    return heard


def test_threads_that_wait_share_one_commit(store: SqliteStore) -> None:
    heard = statements(store)
    jobs = [make_job(f"j{n}") for n in range(9)]
    results = together(store, *[lambda job=job: store.add([job]) for job in jobs])
    assert [result[0].id for result in results] == [job.id for job in jobs]
    assert heard.count("COMMIT") == 2, "the first one's, and one for the eight that waited"


def test_one_bad_operation_fails_alone_and_the_others_of_its_commit_stand(
    store: SqliteStore,
) -> None:
    add_one(store, "a", key="k", payload='{"x":1}')
    conflict = make_job("b", key="k", payload='{"x":2}')
    results = together(
        store,
        lambda: store.add([make_job("first")]),
        lambda: store.add([make_job("good-1")]),
        lambda: store.add([make_job("partly"), conflict]),
        lambda: store.note("n", "v"),
        lambda: store.add([make_job("good-2")]),
    )
    assert isinstance(results[2], KeyConflict)
    assert all(not isinstance(result, Exception) for at, result in enumerate(results) if at != 2)
    assert found(store) == ["good-2", "good-1", "first", "a"]
    assert [note.value for note in store.notes()] == ["v"]


def test_what_was_promised_is_synced_and_what_was_not_waits_for_it(store: SqliteStore) -> None:
    """T5: a submit is synced, a claim and its end are not."""
    heard = statements(store)
    add_one(store, "a")
    settle(store, claim(store)[0])
    store.note("n", "v")
    store.note("n", "w", durable=True)
    levels = [each for each in heard if each.startswith(("PRAGMA synchronous", "COMMIT"))]
    assert levels == [
        "COMMIT",  # a new connection syncs
        "PRAGMA synchronous = 1",
        *["COMMIT"] * 3,
        "PRAGMA synchronous = 2",
        "COMMIT",
    ]


def test_a_relaxed_store_syncs_no_commit(opener: Opener) -> None:
    """F25."""
    store = opener(durability="relaxed")
    heard = statements(store)
    add_one(store, "a")
    assert "PRAGMA synchronous = 1" in heard
    assert "PRAGMA synchronous = 2" not in heard


WRITERS = """
store = SqliteStore(path)
print("ready", flush=True)
sys.stdin.readline()
def write(me):
    for n in range(6):
        store.add([make_job(f"{sys.argv[2]}-{me}-{n}")])
threads = [threading.Thread(target=write, args=(me,)) for me in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
store.close()
print("done")
"""


def test_thirty_two_writers_in_two_processes_all_get_through(
    store: SqliteStore, path: Path
) -> None:
    """F24: nobody gives up, though patience is short for each turn."""
    processes = [start(WRITERS, path, name) for name in ("x", "y")]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=100)[0] for process in processes]
    assert ends == ["done\n"] * 2
    assert count(store, State.PENDING) == 2 * 16 * 6
    assert store.verify().ok


HOLDER = """
store = SqliteStore(path)
with store._file._lock.held():
    print(os.getpid(), flush=True)
    sys.stdin.readline()
store.close()
"""


def test_the_lock_of_a_stopped_process_is_not_broken(opener: Opener, path: Path) -> None:
    """F21: reading goes on meanwhile, and writing when the holder does."""
    store = opener(patience=0.05)
    add_one(store, "a")
    holder = start(HOLDER, path)
    assert holder.stdout is not None
    assert holder.stdin is not None
    holder.stdout.readline()
    os.kill(holder.pid, signal.SIGSTOP)
    with pytest.raises(StoreBusy, match=r"process has held .*jobs\.db\.lock"):
        store.add([make_job("b")])
    assert found(store) == ["a"]
    os.kill(holder.pid, signal.SIGCONT)
    holder.communicate("go\n", timeout=60)
    add_one(store, "c")
    assert found(store) == ["c", "a"]


STRANGER = """
import fcntl
with open(f"{path}.lock", "r+") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print(os.getpid(), flush=True)
    sys.stdin.readline()
"""


def test_while_the_lock_is_held_closing_takes_no_part_in_it(opener: Opener, path: Path) -> None:
    """F21."""
    writer, reader = opener(patience=0.05), opener(read_only=True, patience=60.0)
    add_one(writer, "a")
    holder = start(STRANGER, path)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert found(reader) == ["a"]
    reader.close()
    with pytest.raises(StoreBusy, match="end it, then repeat"):
        writer.add([make_job("b")])
    writer.close()
    assert path.with_name(path.name + "-wal").stat().st_size > 0, (
        "nobody took over the log without the lock"
    )
    holder.communicate("go\n", timeout=60)
    again = opener()
    add_one(again, "c")
    assert found(again) == ["c", "a"]
    assert again.verify().ok


def test_another_program_that_holds_the_database_is_waited_for_and_then_named(
    opener: Opener, path: Path
) -> None:
    """F24: someone at the sqlite3 shell."""
    store = opener(patience=0.05)
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=r"another program holds .*jobs\.db"):
        store.add([make_job("a")])
    assert store.counts() == []
    shell.execute("ROLLBACK")
    shell.close()
    add_one(store, "a")


def test_a_reader_sees_one_moment_while_others_write(opener: Opener) -> None:
    """T3: a page and what belongs to it come from one commit."""
    store, other = opener(), opener()
    add_one(store, "a")

    def look(tx: Any) -> list[int]:
        before = len(tx.all("acts", (99, 99)))
        add_one(other, "b")
        return [before, len(tx.all("by_ids", (tx.array(["a", "b"]),)))]

    assert store._file.read(look) == [0, 1]
    assert found(store) == ["b", "a"]


CLAIMERS = """
store = SqliteStore(path)
mine = []
def work(me):
    while taken := claim(store, limit=5, holder=f"{sys.argv[2]}-{me}", lease_for=600.0):
        mine.extend(each.job.id for each in taken if settle(store, each) is not None)
threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
store.close()
print(json.dumps(mine))
"""


def test_two_processes_of_eight_threads_never_get_the_same_job(
    store: SqliteStore, path: Path
) -> None:
    """F18, T3."""
    jobs: list[Job] = [make_job(f"j{n:03d}") for n in range(300)]
    store.add(jobs)
    other = start(CLAIMERS, path, "x")
    mine = run(CLAIMERS, path, "y")
    theirs, _ = other.communicate(timeout=100)
    done = mine + json.loads(theirs)
    assert sorted(done) == [job.id for job in jobs]
    assert count(store, State.COMPLETED) == 300
