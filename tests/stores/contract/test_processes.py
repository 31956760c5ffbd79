"""Many processes, many threads, one store: nothing lost, nothing run twice, one job a key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.jobs.job import State
from stores.contract.kinds import Place
from stores.contract.verbs import claim, count, find, ids, settle

TESTS = Path(__file__).resolve().parents[2]

# Each process adds jobs of its own and some under keys that all of them use, with eight threads;
# then it claims and settles what it can get, by whomever it was added.
PROGRAM = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
sys.path += [sys.argv[1], sys.argv[1] + "/kits"]
from stores.contract.kinds import KINDS
from stores.contract.verbs import claim, ids, settle
from kit import make_job
from redrive.jobs.clock import SystemClock

directory, name, me = Path(sys.argv[2]), sys.argv[3], sys.argv[4]
store = next(kind for kind in KINDS if kind.name == name).open(directory, SystemClock())

def add(n):
    shared = make_job(f"{me}-shared{n}", key=f"key{n % 10}")
    return [job.is_new for job in store.add([make_job(f"{me}-{n}"), shared])][1]

def work(n):
    mine = []
    while taken := claim(store, limit=3, holder=f"{me}-{n}", lease_for=600.0):
        mine += [each.job.id for each in taken if settle(store, each) is not None]
    return mine

with ThreadPoolExecutor(8) as pool:
    made = sum(pool.map(add, range(30)))
    done = [job_id for share in pool.map(work, range(8)) for job_id in share]
store.close()
print(json.dumps({"made": made, "done": done}))
"""


@pytest.mark.needs("shared")
def test_three_processes_of_eight_threads_lose_nothing_and_share_nothing(place: Place) -> None:
    store = place.open()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(TESTS), str(place.directory), place.kind.name, me],
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in ("x", "y", "z")
    ]
    results = [json.loads(process.communicate(timeout=100)[0]) for process in running]
    done = [job_id for result in results for job_id in result["done"]]
    rest = claim(store)
    assert all(settle(store, each) is not None for each in rest)
    done += ids(rest)
    assert sum(result["made"] for result in results) == 10, "one job a key"
    assert len(done) == len(set(done)) == 3 * 30 + 10
    assert count(store, State.COMPLETED) == len(find(store, limit=1000).jobs) == 100
    assert all(job.attempts == job.lease == 1 for job in find(store, limit=1000).jobs)
    assert store.verify().ok
