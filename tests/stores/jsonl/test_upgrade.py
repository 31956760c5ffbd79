"""A journal of version 1: migrated when it is opened for writing if it is small, never for reading (F116)."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from zlib import crc32

import pytest

from kit import make_failure, make_job
from redrive.errors import StoreForeign, StoreOutdated
from redrive.jobs.job import Return, Settlement, State
from redrive.stores.contract import UPGRADED, Query
from redrive.stores.jsonl import JsonlStore, lines
from redrive.stores.jsonl import store as store_module
from redrive.testing import ManualClock
from stores.jsonl.scenes import picture
from stores.jsonl.test_failing_syscalls import run

OLD = Path(__file__).parents[1] / "upgrade" / "stores"
CLOCK = ManualClock(json.loads((OLD / "expected.json").read_text("utf-8"))["now"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    copy = tmp_path / "store.jsonl"
    shutil.copy(OLD / "store.jsonl", copy)
    copy.chmod(0o600)
    return copy


def is_old(path: Path) -> bool:
    return path.read_bytes().startswith(b'{"redrive":"jsonl","version":1,')


def test_reading_leaves_it_as_it_is(path: Path) -> None:
    data = path.read_bytes()
    said = rf"jsonl:{path} has schema 1; this Redrive needs 2\..*upgrade the store with `redrive migrate --store 'jsonl:"
    with pytest.raises(StoreOutdated, match=said):
        JsonlStore(path, clock=CLOCK, read_only=True)
    assert path.read_bytes() == data


def test_a_small_one_is_migrated_when_it_is_opened(path: Path) -> None:
    store = JsonlStore(path, clock=CLOCK)
    assert not is_old(path)
    assert store.migrate() == []
    assert store.verify().problems == []
    store.close()
    assert JsonlStore(path, clock=CLOCK, read_only=True).find(Query()).jobs


def test_a_large_one_refuses_every_verb_until_it_is_migrated(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MIGRATED_ON_OPENING", 3)
    store = JsonlStore(path, clock=CLOCK)
    for verb in (store.counts, lambda: store.add([make_job("new")])):
        with pytest.raises(StoreOutdated, match="this Redrive needs 2"):
            verb()
    assert is_old(path)
    (step,) = store.migrate()
    assert "version 2" in step
    assert not is_old(path)
    assert store.add([make_job("new")])[0].is_new
    assert store.migrate() == []


def test_when_it_is_interrupted_the_old_one_is_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = path.read_bytes()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        with pytest.raises(KeyboardInterrupt):
            JsonlStore(path, clock=CLOCK)
    assert path.read_bytes() == data
    assert len(JsonlStore(path, clock=CLOCK).find(Query(limit=100)).jobs) == 25
    assert not is_old(path)


@pytest.mark.parametrize("mode", ["kill", "killhalf"])
def test_killed_at_any_call_it_is_the_old_one_or_the_new_one_and_migrates_again(
    tmp_path: Path, path: Path, mode: str
) -> None:
    """F2: nothing is lost; the next one that opens it gets what an uninterrupted migration gives."""
    old = path.read_bytes()
    (tmp_path / "runs").mkdir()
    runs = run(tmp_path / "runs", mode, 1, str(path))
    store = JsonlStore(path, clock=ManualClock())
    expected, new = picture(store), 0
    for ran in runs:
        assert ran["status"] == signal.SIGKILL
        left = tmp_path / "runs" / str(ran["number"]) / "jobs.jsonl"
        new += not is_old(left)
        assert not is_old(left) or left.read_bytes() == old
        again = JsonlStore(left, clock=ManualClock())
        assert picture(again) == expected
        assert again.verify().ok
        again.close()
        assert not list(left.parent.glob("*.compacting"))
    assert 0 < new < len(runs)


@pytest.mark.parametrize("read_only", [False, True])
def test_an_old_process_beside_it_stops_and_says_that_it_must_be_upgraded(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, read_only: bool
) -> None:
    """F33: nothing is written, and the message names the program that is too old."""
    with monkeypatch.context() as before:
        before.setattr(lines, "VERSION", 1)
        old = JsonlStore(path, clock=CLOCK, read_only=read_only)
        assert old.counts()
    new = JsonlStore(path, clock=CLOCK)
    data = path.read_bytes()
    monkeypatch.setattr(lines, "VERSION", 1)
    verbs = [old.counts] if read_only else [old.counts, lambda: old.add([make_job("late")])]
    for verb in verbs:
        with pytest.raises(StoreForeign, match=r"newer Redrive \(schema 2.*knows 1.*update this"):
            verb()
    assert path.read_bytes() == data
    monkeypatch.undo()
    assert new.verify().ok


def test_the_workers_of_old_are_fenced_off_and_their_jobs_returned(path: Path) -> None:
    store = JsonlStore(path, clock=CLOCK)
    running = store.find(Query(states=frozenset({State.RUNNING}))).jobs
    assert running
    for job in running:
        assert job.holder is not None
        assert job.holder.startswith(UPGRADED)
        lost = store.seize(by="new", lease_for=60, holder=job.holder)
        store.settle([Settlement(one, Return()) for one in lost])
    assert store.find(Query(states=frozenset({State.RUNNING}))).jobs == []


def test_a_group_of_old_takes_the_fingerprint_of_the_present_rules(path: Path) -> None:
    store = JsonlStore(path, clock=CLOCK)
    old = next(iter(store.group_records().values()))
    assert (old.fingerprint, bool(old.fingerprint_v1)) == (None, True)
    failure = make_failure("auth", fingerprint="v2", fingerprint_v1=old.fingerprint_v1)
    for name in ("a", "b"):
        job = make_job(name, state=State.DEAD, failure=failure, finished=CLOCK.now())
        assert store.add([job])[0].group == old.number
    record = store.group_records([old.number])[old.number]
    assert (record.fingerprint, record.fingerprint_v1) == ("v2", old.fingerprint_v1)
    other = make_failure("auth", fingerprint="v2b", fingerprint_v1=old.fingerprint_v1)
    job = make_job("c", state=State.DEAD, failure=other, finished=CLOCK.now())
    assert store.add([job])[0].group not in {None, old.number}


@pytest.mark.parametrize("odd", ['{"resolved":"yes"}', '{"resolved":1e999}', "null", "nope"])
def test_a_note_about_a_group_that_cannot_be_read_stays_a_note(path: Path, odd: str) -> None:
    old = path.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(old) if b'"name":"group:1"' in line)
    start, data = old[place][: len('{"crc":"00000000')], json.loads(old[place])
    data["note"]["value"] = odd
    rest = json.dumps(data, separators=(",", ":")).encode()[len(start) :] + b"\n"
    old[place] = b'{"crc":"%08x%b' % (crc32(rest), rest)
    path.write_bytes(b"".join(old))
    store = JsonlStore(path, clock=CLOCK)
    assert store.group_records()[1].resolved is None
    assert [note.value for note in store.notes("group:")] == [odd]
    store.close()


def test_the_version_is_this_one(tmp_path: Path) -> None:
    JsonlStore(tmp_path / "new.jsonl", clock=CLOCK).close()
    assert lines.VERSION == 2
    assert not is_old(tmp_path / "new.jsonl")
