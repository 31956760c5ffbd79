"""Signals arrive in the middle of every call to the system: no byte twice, none missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.jobs.job import State
from stores.contract.kinds import Place
from stores.contract.verbs import find, get

TESTS = Path(__file__).resolve().parents[2]

# A timer interrupts the program thousands of times a second, wherever it is.
PROGRAM = """
import json, signal, sys
from pathlib import Path
sys.path += [sys.argv[1], sys.argv[1] + "/kits"]
from stores.contract.kinds import KINDS
from stores.contract.verbs import claim, settle
from kit import make_job
from redrive.jobs.clock import SystemClock

heard = [0]
def hear(number, frame):
    heard[0] += 1
signal.signal(signal.SIGALRM, hear)
store = next(kind for kind in KINDS if kind.name == sys.argv[3]).open(
    Path(sys.argv[2]), SystemClock()
)
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
for n in range(60):
    store.add([make_job(f"j{n}", payload='{"x":"%s"}' % (str(n % 10) * 20_000))])
    if n % 2:
        (mine,) = claim(store, only=[f"j{n}"])
        assert settle(store, mine) is not None
signal.setitimer(signal.ITIMER_REAL, 0)
store.close()
print(json.dumps(heard[0]))
"""


@pytest.mark.needs("files")
def test_calls_that_are_interrupted_all_the_time_lose_and_repeat_nothing(place: Place) -> None:
    command = [sys.executable, "-c", PROGRAM, str(TESTS), str(place.directory), place.kind.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) > 0
    store = place.open()
    assert store.verify().ok
    assert sorted(job.id for job in find(store, limit=100).jobs) == sorted(
        f"j{n}" for n in range(60)
    )
    for n in range(60):
        job = get(store, f"j{n}")
        assert json.loads(job.payload) == {"x": str(n % 10) * 20_000}
        assert job.state is (State.COMPLETED if n % 2 else State.PENDING)
        assert len(job.history) == n % 2
