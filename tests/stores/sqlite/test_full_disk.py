"""A disk that is full: the call fails and says so, nothing half stays, and work goes on with room."""

from __future__ import annotations

from pathlib import Path

from stores.sqlite.programs import run

FULL = """
import resource
def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

store = SqliteStore(path)
store.add([make_job("first")])
said = {"kept": [], "refused": [], "later": []}
room(os.path.getsize(path + "-wal") + 250_000)
for number in range(60):
    name = f"job{number}"
    try:
        store.add([make_job(name, payload='{"x":"%s"}' % ("y" * 5000))])
        said["kept"].append(name)
    except StoreFull as error:
        said["refused"].append(name)
        assert path in str(error) and "room" in str(error), error
    assert (store.get(name) is None) == (name in said["refused"])
readable = [job.id for job in store.find(Query(limit=1000)).jobs]
room(resource.RLIM_INFINITY)
for name in said["refused"][:3]:
    store.add([make_job(name)])
    said["later"].append(name)
said["readable"] = readable
said["ok"] = store.verify().ok
store.close()
store = SqliteStore(path)
said["after"] = [job.id for job in store.find(Query(limit=1000)).jobs]
said["claims"] = len(claim(store))
print(json.dumps(said))
"""


def test_a_full_disk_fails_the_call_keeps_nothing_half_and_works_again_with_room(
    path: Path,
) -> None:
    """T6, F11, F12: by RLIMIT_FSIZE, whose signal must not kill the process."""
    said = run(FULL, path)
    assert said["ok"]
    assert len(said["kept"]) > 3
    assert len(said["refused"]) > 3
    assert set(said["readable"]) == {"first", *said["kept"]}
    assert set(said["after"]) == {"first", *said["kept"], *said["later"]}
    assert said["claims"] == len(said["after"])


NEW = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
try:
    SqliteStore(path)
    said = ["opened"]
except StoreFull as error:
    said = ["full"]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store = SqliteStore(path)
store.add([make_job("a")])
print(json.dumps([*said, store.verify().ok]))
"""


def test_no_room_for_a_new_store_is_said_and_leaves_nothing_in_the_way(path: Path) -> None:
    """T6, F11."""
    assert run(NEW, path) == ["full", True]
