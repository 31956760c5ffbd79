"""A disk that is full, and one that has room again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock

FULL = """
import json, resource, sys
sys.path += [sys.argv[2], sys.argv[2] + "/kits"]
from kit import make_job
from redrive.errors import StoreFull
from redrive.stores.jsonl import JsonlStore

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

store = JsonlStore(sys.argv[1])
said = {"kept": [], "refused": [], "later": []}
room(8192)
for number in range(40):
    name = f"job{number}"
    try:
        store.add([make_job(name, payload='{"x":"%s"}' % ("y" * 700))])
        said["kept"].append(name)
    except StoreFull as error:
        said["refused"].append(name)
        assert sys.argv[1] in str(error) and "room" in str(error), error
        assert store.get(name) is None
try:
    store.compact()
    said["compacted"] = True
except StoreFull:
    said["compacted"] = False
room(resource.RLIM_INFINITY)
for name in said["refused"][:3]:
    store.add([make_job(name)])
    said["later"].append(name)
said["ok"] = store.verify().ok
print(json.dumps(said))
"""


def test_a_full_disk_fails_the_call_keeps_nothing_half_and_works_again_with_room(
    tmp_path: Path,
) -> None:
    """T6, F10, F12: by RLIMIT_FSIZE, whose signal must not kill the process."""
    path = tmp_path / "jobs.jsonl"
    command = [sys.executable, "-c", FULL, str(path), str(Path(__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["ok"]
    assert len(said["kept"]) > 5
    assert len(said["refused"]) > 20
    assert len(said["later"]) == 3
    store = JsonlStore(path, clock=ManualClock())
    found = {job.id for job in store.find(Query()).jobs}
    assert found == {*said["kept"], *said["later"]}
    assert not list(tmp_path.glob("*.compacting"))
