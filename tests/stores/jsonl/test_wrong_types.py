"""Lines whose checksum is right and whose values are of types that Redrive never writes there."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kit import make_job
from redrive import Redrive
from redrive.errors import StoreDamaged, StoreError, StoreForeign
from redrive.jobs.job import Action, Attempt, Failure, Job, Resolution
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock
from stores.jsonl.test_deep_nesting import spoilt

CLOCK = ManualClock()
HEAD: dict[str, Any] = {"id": "odd", "handler": "mail", "lane": "mail"}
HEAD |= dict.fromkeys(("created", "due", "since", "updated"), 1.0)
FAILURE = {"category": "timeout"}
ATTEMPT: dict[str, Any] = {"ordinal": 1, "number": 1, "life": 0, "started": 1.0, "duration": 1.0}
ATTEMPT |= {"worker": "w", "outcome": "failed"}
ACT: dict[str, Any] = {"number": 1, "at": 1.0, "actor": "ada", "verb": "retry"}
NOTE: dict[str, Any] = {"name": "n", "value": "v", "version": 1, "expires": None}
GROUP: dict[str, Any] = {"number": 1, "fingerprint": "f", "title": "t"}
EVENT: dict[str, Any] = {"number": 1, "subscription": "s", "job": "a", "kind": "died", "at": 1.0}
OTHERS: dict[str, dict[str, Any]] = {
    "act": ACT,
    "note": NOTE,
    "group": GROUP | {"first_seen": 1.0, "deaths": 1, "owner": "bo", "resolved": 1.0},
    "purge": {},
    "delivered": {},
    "tick": {"at": 1.0, "counts": {"lanes": {"x": [1, 0, 0, 1]}, "groups": {"1": [1, "r"]}}},
    "counts": {"span": 60, "start": 0, "lanes": {"x": [1, 0, 0, 0]}, "groups": {"1": 1}},
    "folded": {"at": 1.0},
    "sub": {"name": "s", "kinds": ["died"]},
    "event": EVENT | {"body": "{}"},
    "handed": {"numbers": [1], "holder": "w", "end": 1.0, "due": 1.0, "attempts": 1},
}
"""A line of each kind beside jobs."""
WRONG: list[Any] = [None, "x", 5, 1.5, True, [], [[]], [5], {}, {"x": "y"}, {"x": []}, float("nan")]


def body(kind: str, value: object, **more: object) -> bytes:
    return json.dumps({kind: value, **more}, separators=(",", ":")).encode()[1:-1]


def opened(path: Path, wrong: bytes) -> None:
    """Every verb must work, or say where the store is damaged or not understood."""
    offset = spoilt(path, wrong)
    error: StoreError | None = None
    try:
        with contextlib.closing(JsonlStore(path, clock=CLOCK)) as store:
            store.add([make_job("c")])
            exercise(store)
    except (StoreDamaged, StoreForeign) as raised:
        error = raised
    if error is not None:
        assert f"at byte {offset}" in str(error)
    if isinstance(error, StoreDamaged):
        with contextlib.closing(JsonlStore(path, clock=CLOCK)) as store:
            assert [one.where for one in store.verify().problems] == [f"byte {offset}"]
            assert store.get("a") is not None
    path.unlink()


def exercise(store: JsonlStore) -> None:
    app = Redrive(store)
    app.handler("mail")(lambda **_: None)
    store.find(Query())
    store.group_records()
    store.lane_curve(60, 2)
    store.group_curve(3600, 2, [1])
    store.subscriptions()
    store.take_events(subscriptions=["hook"], holder="w", lease_for=1, limit=9)
    store.fold()
    for job in app.desk.jobs.find().jobs:
        store.get(job.id)
    app.desk.jobs.counts()
    app.desk.groups.find()
    app.desk.log.actions()
    app.store.notes("pause:")
    app.run_due()
    app.desk.retry(state=["dead", "pending", "completed"])
    store.verify()


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_value_of_a_wrong_type_is_read_or_is_damage_with_its_offset(
    tmp_path: Path, wrong: object
) -> None:
    """F6: every field of every kind of line; no TypeError comes out of it."""
    path = tmp_path / "jobs.jsonl"
    for name in Job.__annotations__.keys() - {"payload", "history", "is_new"}:
        opened(path, body("job", HEAD | {name: wrong}, payload={}))
        opened(path, body("job", HEAD | {"state": "dead", name: wrong}, payload={}))
    for name in Failure.__annotations__:
        dead = HEAD | {"state": "dead", "failure": FAILURE | {name: wrong}}
        opened(path, body("job", dead, payload={}))
    for name in Attempt.__annotations__:
        opened(path, body("job", HEAD, history=[ATTEMPT | {name: wrong}], payload={}))
    for name in Resolution.__annotations__:
        closed = {"actor": "ada", "reason": "", "at": 1.0, name: wrong}
        opened(path, body("job", HEAD | {"resolution": closed}, payload={}))
    opened(path, body("job", wrong, payload={}))
    opened(path, body("job", HEAD, history=wrong, payload={}))
    opened(path, body("job", HEAD, payload=wrong))
    for kind, record in OTHERS.items():
        opened(path, body(kind, wrong))
        for name in record:
            opened(path, body(kind, record | {name: wrong}))
    for name in Action.__annotations__:
        opened(path, body("act", ACT | {name: wrong}))


def test_the_damage_says_which_line_and_repair_keeps_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jobs.jsonl"
    offset = spoilt(path, body("job", HEAD | {"due": "soon"}, payload={}))
    store = JsonlStore(path, clock=CLOCK)
    assert f"at byte {offset} cannot be read: due cannot be 'soon'" in caplog.text
    with pytest.raises(StoreDamaged, match=f"at byte {offset}.*verify --repair"):
        store.add([make_job("c")])
    (problem,) = store.verify().problems
    assert "due cannot be 'soon'" in problem.what
    assert "--repair" in problem.remedy
    store.repair()
    assert store.verify().ok
    assert [job.id for job in store.find(Query()).jobs] == ["b", "a"]


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"Infinity", b"NaN"])
def test_a_number_that_is_not_finite_is_damage(tmp_path: Path, number: bytes) -> None:
    path = tmp_path / "jobs.jsonl"
    job = body("job", HEAD, payload={})
    offset = spoilt(path, job.replace(b'"due":1.0', b'"due":' + number))
    with pytest.raises(StoreDamaged, match=f"at byte {offset}"):
        JsonlStore(path, clock=CLOCK).add([make_job("c")])
    path.unlink()
    offset = spoilt(path, body("note", NOTE).replace(b"null", number))
    with pytest.raises(StoreDamaged, match=f"at byte {offset}"):
        JsonlStore(path, clock=CLOCK).add([make_job("c")])


@pytest.mark.parametrize("fields", [{"seq": "x"}, {"notes": None}, {"store": 5}])
def test_a_header_of_wrong_types_is_damage(tmp_path: Path, fields: dict[str, object]) -> None:
    path = tmp_path / "jobs.jsonl"
    spoilt(path, b'"mark":{"synced":1}')
    first, rest = path.read_bytes().split(b"\n", 1)
    header = {**json.loads(first), **fields}
    del header["crc"], header["redrive"], header["version"]
    front = b'{"redrive":"jsonl","version":3,"crc":"'
    back = b'",%s\n' % json.dumps(header, separators=(",", ":"))[1:].encode()
    path.write_bytes(b"%s%08x%s" % (front, crc32(front + back), back) + rest)
    store = JsonlStore(path, clock=CLOCK)
    assert store.get("a") is not None
    with pytest.raises(StoreDamaged, match="byte 0"):
        store.add([make_job("c")])
