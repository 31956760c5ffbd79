"""Forks: parent and child each have connections and locks of their own, whenever the fork comes."""

from __future__ import annotations

from pathlib import Path

from stores.sqlite.programs import run

# The parent forks while four of its threads write; children and parent go on with the same object.
BUSY = """
store = SqliteStore(path)
stop = threading.Event()
def write(me):
    n = 0
    while not stop.is_set():
        store.add([make_job(f"parent-{me}-{n}")])
        n += 1
threads = [threading.Thread(target=write, args=(me,)) for me in range(4)]
for thread in threads:
    thread.start()
ends = []
for n in range(6):
    if (child := os.fork()) == 0:
        try:
            store.add([make_job(f"child-{n}")])
            assert store.get(f"child-{n}") is not None
            store.close()
            os._exit(0)
        except BaseException:
            os._exit(1)
    ends.append(os.waitpid(child, 0)[1])
stop.set()
for thread in threads:
    thread.join()
names = {job.id for job in store.find(Query(limit=100_000)).jobs}
print(json.dumps([ends, sorted(n for n in names if n.startswith("child")), store.verify().ok]))
"""


def test_a_fork_at_any_time_leaves_parent_and_child_with_a_working_store(path: Path) -> None:
    """F20."""
    ends, children, ok = run(BUSY, path)
    assert ends == [0] * 6
    assert children == [f"child-{n}" for n in range(6)]
    assert ok


# A child that inherited SQLite's table of locks would believe to hold one that only its parent
# has; the parent's close would then remove the log while the child writes to it.
OUTLIVE = """
store = SqliteStore(path)
store.add([make_job("before")])
said, say = os.pipe()
go, went = os.pipe()
if (child := os.fork()) == 0:
    store.add([make_job("child-1")])
    os.write(say, b"x")
    os.read(go, 1)
    store.add([make_job("child-2")])
    os._exit(0)
os.read(said, 1)
store.counts()
store.close()
log = os.path.exists(path + "-wal")
os.write(went, b"x")
status = os.waitpid(child, 0)[1]
store = SqliteStore(path)
print(json.dumps([log, status, [job.id for job in store.find(Query()).jobs], store.verify().ok]))
"""


def test_a_child_keeps_the_log_alive_when_its_parent_closes(path: Path) -> None:
    """F20."""
    log, status, names, ok = run(OUTLIVE, path)
    assert log, "the child has the file open, so the log must stay"
    assert (status, ok) == (0, True)
    assert names == ["child-2", "child-1", "before"]


INHERIT = """
store = SqliteStore(path)
store.add([make_job("a")])
store.counts()
reading, writing = os.pipe()
if os.fork() == 0:
    held = [os.readlink(f"/proc/self/fd/{n}") for n in map(int, os.listdir("/proc/self/fd"))
            if os.path.exists(f"/proc/self/fd/{n}")]
    os.write(writing, json.dumps([name for name in held if path in name]).encode())
    os._exit(0)
os.close(writing)
with os.fdopen(reading) as told:
    print(told.read())
"""


def test_a_child_inherits_no_file_of_the_store(path: Path) -> None:
    """F20, F21: with a copy of its descriptor the lock of a killed parent would live on."""
    assert run(INHERIT, path) == []
