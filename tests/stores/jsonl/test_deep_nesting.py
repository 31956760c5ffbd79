"""A line whose checksum is right and whose JSON is nested deeper than anything Redrive writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit import make_job
from redrive.errors import StoreDamaged
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore, lines
from redrive.testing import ManualClock

CLOCK = ManualClock()
DEEP = b"[" * 50_000 + b"]" * 50_000
HEAD = (
    b'"id":"deep","handler":"mail","lane":"mail","created":1.0,"due":1.0,"since":1.0,"updated":1.0'
)


def spoilt(path: Path, body: bytes) -> int:
    """A store with two jobs and then this line; gives the offset of the line."""
    store = JsonlStore(path, clock=CLOCK)
    store.add([make_job("a"), make_job("b")])
    seq = store._journal.reading.seq
    store.close()
    offset = path.stat().st_size
    with path.open("ab") as file:
        file.write(lines.line(seq + 1, ends=True, body=body))
        file.write(lines.line(seq + 2, ends=True, body=lines.mark_body(seq + 1)))
    return offset


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.jsonl"


@pytest.mark.parametrize(
    "body",
    [
        b'"job":{%b,"origin":%b},"payload":{}' % (HEAD, DEEP),
        b'"act":%b' % DEEP,
        b'"mark":%b' % DEEP,
    ],
    ids=["job", "act", "mark"],
)
def test_a_line_nested_too_deep_is_damage_with_its_offset_and_the_rest_can_be_read(
    path: Path, body: bytes
) -> None:
    offset = spoilt(path, body)
    store = JsonlStore(path, clock=CLOCK)
    assert [job.id for job in store.find(Query()).jobs] == ["b", "a"]
    with pytest.raises(StoreDamaged, match=f"at byte {offset}.*verify --repair") as raised:
        store.add([make_job("c")])
    assert raised.value.offset == offset
    assert [one.where for one in store.verify().problems] == [f"byte {offset}"]
    store.repair()
    assert store.add([make_job("c")])[0].is_new
    assert store.verify().ok


def test_a_history_nested_too_deep_is_damage_when_its_job_is_read(path: Path) -> None:
    offset = spoilt(path, b'"job":{%b},"history":%b,"payload":{}' % (HEAD, DEEP))
    store = JsonlStore(path, clock=CLOCK)
    assert store.get("a") is not None
    with pytest.raises(StoreDamaged, match=f"at byte {offset}.*redrive verify") as raised:
        store.get("deep")
    assert raised.value.offset == offset
    assert [one.where for one in store.verify().problems] == [f"byte {offset}"]
