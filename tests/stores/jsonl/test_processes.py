"""Many processes on one file: no line lost, no lock broken, and a fork that shares nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit import make_job
from redrive.errors import StoreBusy
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock

CLOCK = ManualClock()
ADD = """
import sys, threading
sys.path += [sys.argv[2], sys.argv[2] + "/kits"]
from kit import make_job
from redrive.stores.jsonl import JsonlStore

store = JsonlStore(sys.argv[1])
def add(thread):
    for number in range(12):
        store.add([make_job(f"{sys.argv[3]}-{thread}-{number}", payload='{"x":"%s"}' % ("é" * 300))])
        store.note(f"n{thread}", str(number))
        if sys.argv[3] == "0" and thread == 0 and number % 4 == 0:
            store.compact()
threads = [threading.Thread(target=add, args=(n,)) for n in range(8)]
for one in threads: one.start()
for one in threads: one.join()
store.close()
"""
HOLD = """
import sys
sys.path += [sys.argv[2], sys.argv[2] + "/kits"]
from redrive.stores.jsonl import JsonlStore

store = JsonlStore(sys.argv[1])
with store._lock.held():
    print("held", flush=True)
    sys.stdin.read()
"""
FORK = """
import json, os, sys, threading
sys.path += [sys.argv[2], sys.argv[2] + "/kits"]
from kit import make_job
from redrive.errors import StoreBusy
from redrive.stores.jsonl import JsonlStore

store = JsonlStore(sys.argv[1], patience=0.2)
store.add([make_job("parent")])
entered, leave = threading.Event(), threading.Event()
def slow():
    entered.set()
    leave.wait(30)
    return store._add_all([make_job("slow")])
# One thread is in the middle of a write, lock held; another waits for its turn.
holder = threading.Thread(target=lambda: store._write(slow, durable=True))
holder.start()
entered.wait(30)
waiter = threading.Thread(target=lambda: store.add([make_job("waiter")]))
waiter.start()
reads, writes = os.pipe()
reads_back, writes_back = os.pipe()
child = os.fork()
if child == 0:
    said = [store.get("parent") is not None]
    try:
        store.add([make_job("child")])
        said.append("stolen")
    except StoreBusy:
        said.append(True)
    os.write(writes, b"x")
    os.read(reads_back, 1)
    store.add([make_job("child")])
    said.append(store.get("child") is not None)
    os.write(writes, json.dumps(said).encode())
    os._exit(0)
os.read(reads, 1)
leave.set()
holder.join()
waiter.join()
os.write(writes_back, b"x")
said = os.read(reads, 4096).decode()
os.waitpid(child, 0)
store.add([make_job("after")])
names = ("parent", "slow", "waiter", "child", "after")
jobs = [store.get(one) is not None for one in names]
print(json.dumps({"child": json.loads(said), "jobs": jobs, "ok": store.verify().ok}))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.jsonl"


def start(program: str, path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, str(path), str(Path(__file__).parents[2]), *more]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_two_processes_of_eight_threads_lose_no_line(path: Path) -> None:
    """T2, F18: while one of them compacts the file again and again."""
    running = [start(ADD, path, str(number)) for number in range(2)]
    for one in running:
        _, said = one.communicate(timeout=100)
        assert one.returncode == 0, said
    store = JsonlStore(path, clock=CLOCK)
    found = {job.id for job in store.find(Query(limit=1000)).jobs}
    assert found == {f"{p}-{t}-{n}" for p in range(2) for t in range(8) for n in range(12)}
    report = store.verify()
    assert report.ok, report.problems
    assert not list(path.parent.glob("*.quarantine-*"))


def test_the_lock_of_a_stopped_process_is_not_broken(path: Path) -> None:
    """F21."""
    store = JsonlStore(path, clock=CLOCK, patience=0.05)
    store.add([make_job("a")])
    holder = start(HOLD, path)
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreBusy, match="another process has held"):
            store.add([make_job("b")])
        assert store.get("a") is not None, "reading needs no lock"
    finally:
        holder.kill()
        holder.communicate()
    assert store.add([make_job("b")])[0].is_new


def test_a_killed_holder_leaves_no_lock_behind(path: Path) -> None:
    """F1."""
    store = JsonlStore(path, clock=CLOCK)
    holder = start(HOLD, path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    store.add([make_job("a")])
    assert store.get("a") is not None


def test_a_forked_child_shares_neither_lock_nor_turn_nor_memory(path: Path) -> None:
    """F20: forked while another thread holds the lock and a third one waits for its turn."""
    forker = start(FORK, path)
    out, said = forker.communicate(timeout=60)
    assert forker.returncode == 0, said
    found = json.loads(out)
    assert found == {"child": [True, True, True], "jobs": [True] * 5, "ok": True}


def test_a_child_does_not_keep_the_lock_of_a_parent_that_was_killed(path: Path) -> None:
    """F20: the descriptor of the lock is closed in the child."""
    store = JsonlStore(path, clock=CLOCK)
    with store._lock.held():
        inherited = store._lock._descriptor
        store._lock._pid = -1  # as it looks from a child
        copy = os.dup(inherited)
        store._lock.forget()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(inherited)
        store._lock._descriptor, store._lock._pid = copy, os.getpid()
    store.add([make_job("a")])
    assert store.get("a") is not None
