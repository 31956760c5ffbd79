"""A journal does not grow for ever, and nothing that is needed goes with the garbage."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit import make_action, make_job, make_settlement
from redrive.errors import KeyConflict
from redrive.jobs.job import Completed, Reason, State
from redrive.stores.contract import PurgeRule
from redrive.stores.jsonl import JsonlStore, compact
from redrive.testing import ManualClock
from stores.jsonl.scenes import Film, picture

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.jsonl"


def test_compacting_changes_nothing_that_can_be_seen(shot: Film, path: Path) -> None:
    """T2: at any point of a journal's life."""
    for end in shot.ends:
        path.touch(mode=0o600)
        path.write_bytes(shot.data[:end])
        store = JsonlStore(path, clock=shot.clock)
        store.compact()
        assert picture(store) == shot.after(end)
        assert store.verify().ok
        store.close()
        assert picture(JsonlStore(path, clock=shot.clock)) == shot.after(end)


def test_numbers_and_versions_go_on_after_a_compaction(path: Path) -> None:
    """T2: a note that was removed does not come back under a version somebody remembers."""
    clock = ManualClock()
    store = JsonlStore(path, clock=clock)
    store.record(make_action())
    old = store.note("n", "1")
    store.note("n", None)
    seq = store._journal.reading.seq
    store.compact()
    store.close()
    store = JsonlStore(path, clock=clock)
    new = store.note("n", "2")
    assert old is not None
    assert new is not None
    assert new.version > old.version
    assert store._journal.reading.seq > seq
    assert store.record(make_action()).number == 2


def test_a_key_still_stands_for_its_job_after_a_compaction(path: Path) -> None:
    """M8."""
    store = JsonlStore(path, clock=ManualClock())
    store.add([make_job("a", key="k", payload='{"n":1}')])
    store.compact()
    assert store.add([make_job("b", key="k", payload='{"n":1}')])[0].id == "a"
    with pytest.raises(KeyConflict):
        store.add([make_job("b", key="k", payload='{"n":2}')])


def test_notes_that_ended_are_left_behind(path: Path) -> None:
    clock = ManualClock()
    store = JsonlStore(path, clock=clock)
    store.note("gone", "x", expires_in=5)
    store.note("stays", "x", expires_in=50)
    clock.advance(10)
    store.compact()
    assert b"gone" not in path.read_bytes()
    assert [note.name for note in store.notes()] == ["stays"]


def test_a_busy_journal_compacts_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: the file stays within a few times of what is needed."""
    monkeypatch.setattr(compact, "SMALLEST", 64 << 10)
    store = JsonlStore(path, clock=ManualClock())
    most = 0
    store.add([make_job("stays", payload='{"x":"%s"}' % ("y" * 1000))])
    for round_ in range(40):
        store.add([make_job(f"{round_}-{n}", payload='{"x":"z"}') for n in range(50)])
        taken = store.claim(["mail"], limit=60, holder="w", lease_for=9, only=None)
        store.settle([make_settlement(one, Completed(Reason.DONE)) for one in taken])
        store.purge([PurgeRule(state=State.COMPLETED, older_than=-1)])
        most = max(most, path.stat().st_size)
    assert most < 200 << 10
    assert store._journal.header.seq > 0, "it was compacted"
    assert store.verify().ok


def test_a_file_that_is_mostly_needed_is_left_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact, "SMALLEST", 4 << 10)
    store = JsonlStore(path, clock=ManualClock())
    for number in range(100):
        store.add([make_job(f"{number}", payload='{"x":"%s"}' % ("y" * 200))])
    assert store._journal.header.seq == 0


def test_what_a_killed_compaction_left_is_removed(path: Path) -> None:
    """F8."""
    JsonlStore(path, clock=ManualClock()).close()
    leftover = path.with_name("jobs.jsonl.compacting")
    leftover.write_bytes(b"half")
    JsonlStore(path, clock=ManualClock(), read_only=True).close()
    assert leftover.exists()
    JsonlStore(path, clock=ManualClock()).close()
    assert not leftover.exists()
