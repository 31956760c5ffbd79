"""kill -9 at any point: what was acknowledged is there, what was not is there whole or not at all."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from redrive.jobs.job import State
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import count, find
from stores.sqlite.programs import run, start

# A child kills itself at the n-th statement; what it was told before it wrote to a pipe.
AT_EVERY_STATEMENT = """
def live(n, tell):
    store = SqliteStore(path)
    left = [n]
    def count_down(statement):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    store._file._writer.set_trace_callback(count_down)
    for round in range(9):
        name = f"n{n}r{round}"
        store.add([make_job(name, payload='{"big":"%s"}' % ("x" * 9000))])
        tell("added", name)
        (mine,) = claim(store, only=[name])
        tell("claimed", name)
        settle(store, mine, DEAD, make_failure())
        tell("died", name)
        store.move([name], "retry", make_action())
        tell("retried", name)
    os._exit(0)

def checked(store, told):
    for what, name in told:
        job = get(store, name)
        rank = ["added", "claimed", "died", "retried"].index(what)
        now = (job.state != "pending") + (job.finished is not None) + 3 * job.redrives
        assert now >= rank, (what, job)
        assert len(job.history) == (job.lease > 0 and job.state != "running"), job
        assert job.payload.endswith('x"}')
    return len(told)

ends, kept = [], 0
for n in range(2, 38, 2):
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        live(n, lambda *words: os.write(writing, (json.dumps(words) + "\\n").encode()))
    os.close(writing)
    with os.fdopen(reading) as ledger:
        told = [json.loads(line) for line in ledger]
    _, status = os.waitpid(child, 0)
    ends.append(status)
    store = SqliteStore(path)
    kept += checked(store, told)
    report = store.verify()
    assert report.ok, report.problems
    store.close()
print(json.dumps({"ends": ends, "kept": kept}))
"""


def test_a_kill_at_any_statement_loses_nothing_that_was_told(path: Path) -> None:
    """F1, F2, T5: before BEGIN, between two rows, before COMMIT."""
    result = run(AT_EVERY_STATEMENT, path)
    assert result["ends"] == [signal.SIGKILL] * 18
    assert result["kept"] > 18, "the later kills must let some operations through"


# Four threads add and finish jobs, and say so, until they are killed.
BUSY = """
store = SqliteStore(path)
def tell(*words):
    os.write(1, (json.dumps(words) + "\\n").encode())
def busy(me):
    for n in range(1_000_000):
        name = f"{sys.argv[2]}-{me}-{n}"
        store.add([make_job(name)])
        tell("added", name)
        for mine in claim(store, limit=2, holder=name):
            if settle(store, mine) is not None:
                tell("done", mine.job.id)
for me in range(4):
    threading.Thread(target=busy, args=(me,)).start()
"""


def test_a_kill_in_the_middle_of_shared_commits_loses_nothing_that_was_told(path: Path) -> None:
    """F1, T5: one commit carries the work of several threads when the kill comes."""
    told: list[tuple[str, str]] = []
    for lines in (40, 90):
        process = start(BUSY, path, str(lines))
        assert process.stdout is not None
        heard = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        rest, _ = process.communicate()
        heard += rest.splitlines()
        told += [tuple(json.loads(line)) for line in heard if line.endswith(("]", "]\n"))]
        store = SqliteStore(path)
        stored = {job.id: job.state for job in find(store, limit=100_000).jobs}
        assert {name for _, name in told} <= stored.keys()
        done = {name for what, name in told if what == "done"}
        assert all(stored[name] is State.COMPLETED for name in done)
        assert len(done) <= count(store, State.COMPLETED)
        assert store.verify().ok
        store.close()
