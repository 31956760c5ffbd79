"""A byte that changed is reported with its place or put aside; no altered job is ever given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import make_job
from redrive.errors import StoreDamaged, StoreForeign
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore
from stores.jsonl.conftest import FULL
from stores.jsonl.scenes import EVERY_STATE, Film, picture

Reopen = Callable[[bytes], JsonlStore]
pytestmark = pytest.mark.usefixtures("no_sync")


def flipped(film: Film, step: int) -> Iterator[tuple[int, bytes]]:
    """The journal with one byte changed, for every byte or a sample of them."""
    for at in range(0, len(film.data), 1 if FULL else step):
        changed = bytearray(film.data)
        changed[at] ^= 1 << at % 8
        yield at, bytes(changed)


def last_mark(film: Film) -> int:
    return film.line_at(film.data.rindex(b'"mark"'))[0]


def check_jobs(store: JsonlStore, film: Film) -> None:
    """Every job that is given was once stored exactly so."""
    for job in store.find(Query(states=EVERY_STATE)).jobs:
        assert store.get(job.id) in film.versions(job.id)


def test_every_flipped_byte_before_the_last_mark_is_reported_with_the_offset_of_its_line(
    shot: Film, reopen: Reopen
) -> None:
    """T2, F6: read-only, exact offset, the other jobs can be read."""
    header = shot.ends[0]
    for at, data in flipped(shot, 61):
        if not header <= at < last_mark(shot):
            continue
        store = reopen(data)
        with pytest.raises(StoreDamaged) as caught:
            store.add([make_job()])
        # A line feed that is gone joins two lines; the first of them is where damage begins.
        assert caught.value.offset == shot.line_at(at)[0], at
        assert str(caught.value.offset) in str(caught.value)
        problems = store.verify().problems
        assert [one.where for one in problems][:1] == [f"byte {caught.value.offset}"]
        check_jobs(store, shot)


def test_a_line_feed_before_a_mark_does_not_take_the_mark_with_it(
    shot: Film, reopen: Reopen
) -> None:
    """F6: joined with a bad line, the mark still vouches for what is before it."""
    at = last_mark(shot) - 1
    store = reopen(shot.data[:at] + b"x" + shot.data[at + 1 :])
    with pytest.raises(StoreDamaged) as caught:
        store.add([make_job()])
    assert caught.value.offset == shot.line_at(at)[0]
    assert store.repair()
    assert store.verify().ok
    check_jobs(store, shot)


def test_every_flipped_byte_after_the_last_mark_is_put_aside(
    shot: Film, reopen: Reopen, tmp_path: Path
) -> None:
    """F6: what no mark vouches for is a torn tail, and its bytes are kept."""
    start = last_mark(shot)
    for at in range(start, len(shot.data)):
        changed = bytearray(shot.data)
        changed[at] ^= 1 << at % 8
        store = reopen(bytes(changed))
        (aside,) = tmp_path.glob("*.quarantine-*")
        assert aside.read_bytes() == bytes(changed[start:])
        assert picture(store) == shot.pictures[-1]
        assert store.verify().ok


def test_every_flipped_byte_of_the_header_is_refused_or_reported(
    shot: Film, reopen: Reopen
) -> None:
    """F6, F33: the first line says whose file it is, so doubt about it allows no writing."""
    for at, data in flipped(shot, 1):
        if at >= shot.ends[0]:
            return
        try:
            store = reopen(data)
        except StoreForeign:
            continue
        with pytest.raises(StoreDamaged) as caught:
            store.add([make_job()])
        assert caught.value.offset == 0
        check_jobs(store, shot)


def test_repair_puts_the_damaged_bytes_aside_and_keeps_every_whole_line(
    shot: Film, reopen: Reopen, tmp_path: Path
) -> None:
    """F6, C2: `verify --repair`."""
    for at, data in flipped(shot, 151):
        if not shot.ends[0] <= at < last_mark(shot):
            continue
        store = reopen(data)
        actions = store.actions()
        assert store.repair()
        start, end = shot.line_at(at)
        kept = b"".join(path.read_bytes() for path in tmp_path.glob("*.quarantine-*"))
        assert data[start:end] in kept
        assert store.verify().ok
        assert store.actions() == actions
        check_jobs(store, shot)
        store.add([make_job("later")])
        assert store.get("later") is not None


def test_repair_of_a_healthy_journal_does_nothing(shot: Film, reopen: Reopen) -> None:
    store = reopen(shot.data)
    assert store.repair() == []
    assert picture(store) == shot.pictures[-1]


def test_a_line_that_was_taken_out_is_damage(shot: Film, reopen: Reopen) -> None:
    """F6: every line is right, but the numbers do not follow."""
    start, end = shot.line_at(shot.ends[3])
    store = reopen(shot.data[:start] + shot.data[end:])
    with pytest.raises(StoreDamaged) as caught:
        store.add([make_job()])
    assert caught.value.offset == start
    assert "missing" in store.verify().problems[0].what


def test_a_line_that_is_there_twice_is_damage(shot: Film, reopen: Reopen) -> None:
    """F6: a copied line cannot bring an old state back."""
    start, end = shot.line_at(shot.ends[3])
    store = reopen(shot.data[:end] + shot.data[start:])
    with pytest.raises(StoreDamaged) as caught:
        store.add([make_job()])
    assert caught.value.offset == end
    assert picture(store) == shot.pictures[-1]


def test_a_byte_that_changes_while_the_store_is_open_gives_no_altered_job(
    shot: Film, reopen: Reopen, tmp_path: Path
) -> None:
    """F6: lines are checked when they are read back, not only when the file is opened."""
    store = reopen(shot.data)
    at = shot.data.rindex(b'"payload":{"new"') + 12
    with (tmp_path / "jobs.jsonl").open("r+b") as file:
        file.seek(at)
        file.write(b"N")
    with pytest.raises(StoreDamaged) as caught:
        store.get("job1")
    assert caught.value.offset == shot.line_at(at)[0]
