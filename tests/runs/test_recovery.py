"""Whoever freezes, drives or ends a run may die at any point; the next one puts it right."""

from __future__ import annotations

from typing import Any

import pytest

from redrive.errors import Refused
from redrive.runs import driver as driving
from redrive.runs import run_records
from redrive.runs.run_records import Counts
from runs.conftest import Shop


@pytest.mark.parametrize("by_worker", [True, False])
def test_a_run_whose_maker_died_is_given_up_and_its_jobs_are_free(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, by_worker: bool
) -> None:
    """By a worker, or where there is none by whoever wants the jobs next."""
    ids = shop.die(6)
    monkeypatch.setattr("redrive.runs.driver.CHUNK", 2)
    store, seen = shop.app.store, []
    move = store.move

    def dying(*args: Any, **options: Any) -> Any:
        seen.append(args)
        if len(seen) > 2:
            raise KeyboardInterrupt
        return move(*args, **options)

    monkeypatch.setattr(store, "move", dying)
    with pytest.raises(KeyboardInterrupt):
        shop.app.desk.runs.start("G1")
    monkeypatch.undo()
    assert [shop.app.get(one).run for one in ids].count(-1) == 4
    driver = shop.driver()
    assert driver.tick() == []
    assert shop.app.desk.runs.get(1).phase == "freezing"
    driver.leave()
    shop.place.clock.advance(61)
    if by_worker:
        assert driver.tick() == []
    else:
        shop.app.desk.runs.close_abandoned()
    assert shop.app.desk.runs.get(1).phase == "cancelled"
    assert [shop.app.get(one).run for one in ids] == [None] * 6
    assert shop.app.desk.runs.start("G1").total == 6


def test_who_closes_runs_lets_nothing_go(shop: Shop) -> None:
    """A run that has just become live is a worker's to drive."""
    ids = shop.die(3)
    shop.app.desk.runs.start("G1")
    shop.driver().close(1)
    shop.app.desk.runs.close_abandoned()
    assert [shop.app.get(one).run for one in ids] == [-1] * 3


def test_a_run_that_is_cancelled_while_it_freezes_takes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = shop.die(6)
    monkeypatch.setattr("redrive.runs.driver.CHUNK", 2)
    store = shop.app.store
    move = store.move

    def cancelling(*args: Any, **options: Any) -> Any:
        if shop.app.desk.runs.get(1).phase == "freezing" and shop.app.desk.runs.get(1).total == 2:
            shop.open().desk.runs.cancel(1)
        return move(*args, **options)

    monkeypatch.setattr(store, "move", cancelling)
    with pytest.raises(Refused, match="cancelled"):
        shop.app.desk.runs.start("G1")
    monkeypatch.undo()
    assert [shop.app.get(one).run for one in ids] == [None] * 6
    assert shop.driver().tick() == []


def test_what_was_let_go_counts_also_if_the_driver_died_right_after(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.die(10)
    shop.app.desk.runs.start("G1", rate=2)
    with monkeypatch.context() as broken:
        broken.setattr(driving, "save", lambda *_, **__: None)
        assert len(shop.driver().tick()) == 4
    assert run_records.stored(shop.app.store, 1)[0].released == 0  # type: ignore[index]
    counts = shop.app.desk.runs.get(1).counts
    assert counts == Counts(waiting=6, working=4)
    shop.driver().leave()
    for _ in range(6):
        shop.place.clock.advance(1)
        shop.app.run_due()
    assert shop.app.desk.runs.get(1).counts == Counts(succeeded=10)


def test_an_end_that_was_broken_off_is_completed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = shop.die(5)
    shop.app.desk.runs.start("G1")
    with monkeypatch.context() as broken:
        broken.setattr(run_records, "strike", lambda *_: None)
        shop.app.desk.runs.cancel(1)
    assert run_records.book(shop.app.store)[1] == (1,)
    assert shop.driver().tick() == []
    assert run_records.book(shop.app.store)[1] == ()
    assert shop.app.desk.runs.get(1).counts == Counts(left=5)
    assert [shop.app.get(one).run for one in ids] == [None] * 5


def test_one_drives_at_a_time_and_another_follows_who_died(shop: Shop) -> None:
    shop.die(30)
    shop.app.desk.runs.start("G1", rate=5)
    first, second = shop.driver("one"), shop.driver("two")
    assert len(first.tick()) == 10
    shop.place.clock.advance(2)
    assert second.tick() == []
    shop.place.clock.advance(4)  # the first has not been seen for longer than its turn lasts
    assert len(second.tick()) == 10
    assert first.tick() == []
    second.leave()
    shop.place.clock.advance(2)
    assert len(first.tick()) == 10


def test_two_who_drive_at_once_let_no_job_go_twice(shop: Shop) -> None:
    ids = shop.die(8)
    shop.app.desk.runs.start("G1")
    first, second = shop.driver("one"), shop.driver("two")
    store = shop.app.store
    waiting = store.members(-1, limit=8).oldest
    first.tick()
    store.note("runs:turn", None)
    run, _ = run_records.stored(store, 1) or pytest.fail("it is gone")
    moved = store.move(waiting, "retry", shop.app.desk.log.actions(run=1)[0], run=1)
    assert (moved.done, len(moved.skipped)) == ([], 8)
    assert second.tick() == []
    assert {shop.app.get(one).redrives for one in ids} == {1}
    assert run.total == 8


def test_a_running_job_that_waits_for_a_cancelled_run_is_freed_too(shop: Shop) -> None:
    shop.down = False
    job = shop.charge.submit(3)
    shop.app.desk.runs.start(job.id)
    claims = shop.app.store.claim(["charge"], limit=1, holder="w", lease_for=60)
    assert [claim.job.id for claim in claims] == [job.id]
    shop.app.desk.runs.cancel(1)
    assert shop.app.get(job.id).run is None


def test_a_note_that_nobody_can_read_stops_no_other_run(shop: Shop) -> None:
    ids = shop.die(4)
    shop.app.desk.runs.start(ids[0])
    shop.app.desk.runs.start(*ids[1:])
    shop.app.store.note("run:1", "{broken")
    shop.app.run_due()
    assert shop.app.desk.runs.get(2).counts == Counts(succeeded=3)
    assert [run.id for run in shop.app.desk.runs.recent()] == ["R2"]
