"""A run from its plan to its verdict, on every durable store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redrive.errors import JobNotFound, Refused
from redrive.runs.run_records import KEPT, Counts, Run
from runs.conftest import Shop


def counts_of(run: Run) -> Counts:
    assert run.counts is not None
    return run.counts


def add_up(run: Run) -> bool:
    """Whether each job that was frozen is counted once."""
    c = counts_of(run)
    return run.total == c.waiting + c.working + c.succeeded + c.failed + c.closed + c.left


def test_all_of_it_succeeds_and_the_cause_is_resolved(shop: Shop) -> None:
    ids = shop.die(5)
    run = shop.app.desk.runs.start("G1", name="outage", reason="it is back")
    assert (run.id, run.phase, run.total, run.by) == ("R1", "live", 5, "ada")
    assert counts_of(run).waiting == 5
    assert [shop.app.get(one).state for one in ids] == ["dead"] * 5
    assert shop.seen == []
    shop.app.run_due()
    run = shop.app.desk.runs.get("R1")
    assert (run.phase, counts_of(run)) == ("done", Counts(succeeded=5))
    assert sorted(shop.seen) == [0, 1, 2, 3, 4]
    assert {shop.app.get(one).run for one in ids} == {1}
    assert shop.app.store.group_records()[1].resolved_by == "R1"


def test_the_outcome_says_same_cause_new_cause_and_in_which_group(shop: Shop) -> None:
    shop.die(6)
    shop.broken, shop.odd = {1, 2}, {4}
    shop.app.desk.runs.start("G1")
    shop.app.run_due()
    run = shop.app.desk.runs.get(1)
    (new,) = counts_of(run).new
    assert new != 1
    assert counts_of(run) == Counts(succeeded=3, failed=3, same=2, new={new: 1})
    assert {one.status for one in shop.app.store.group_records().values()} == {"open"}


def test_a_canary_goes_first_oldest_first_and_the_others_only_after_it(shop: Shop) -> None:
    shop.die(10)
    shop.app.desk.runs.start("G1", canary=3)
    driver = shop.driver()
    assert len(driver.tick()) == 3
    assert driver.tick() == []
    assert counts_of(shop.app.desk.runs.get(1)).waiting == 7
    driver.leave()
    shop.app.run_due()
    assert shop.seen[:3] == [0, 1, 2]
    assert sorted(shop.seen) == list(range(10))
    assert counts_of(shop.app.desk.runs.get(1)).succeeded == 10


def test_a_canary_that_fails_stops_the_run_and_leaves_the_rest_as_it_was(shop: Shop) -> None:
    ids = shop.die(10)
    before = [shop.app.get(one) for one in ids[3:]]
    shop.broken = {1}
    shop.app.desk.runs.start("G1", canary=3)
    shop.app.run_due()
    run = shop.app.desk.runs.get(1)
    assert (run.phase, run.is_over) == ("stopped", True)
    assert "1 of 3" in run.why
    assert counts_of(run) == Counts(succeeded=2, failed=1, same=1, left=7)
    (taken,) = {shop.app.get(one).actions for one in ids[3:]}
    assert len(taken) == 1  # the action that took them into the run
    assert [replace(shop.app.get(one), actions=()) for one in ids[3:]] == before
    assert sorted(shop.seen) == [0, 1, 2]
    shop.broken = set()
    shop.app.desk.runs.start("G1")
    shop.app.run_due()
    assert counts_of(shop.app.desk.runs.get(2)).succeeded == 8


def test_a_canary_is_judged_by_its_first_attempts(shop: Shop) -> None:
    """Its job is tried again in an hour: the run stops now."""
    shop.die(10)
    shop.slow = {1}
    shop.app.desk.runs.start("G1", canary=3)
    shop.app.run_due()
    run = shop.app.desk.runs.get(1)
    assert (run.phase, run.why) == ("stopped", "1 of 3 canary jobs failed again")
    assert counts_of(run) == Counts(succeeded=2, working=1, failing=1, left=7)
    assert sorted(shop.seen) == [0, 1, 2]


def test_a_failure_before_the_run_released_a_job_does_not_count(shop: Shop) -> None:
    shop.down = False
    shop.slow = {0, 1, 2}
    for number in range(3):
        shop.charge.submit(number)
    shop.app.run_due()
    shop.app.desk.runs.start("state:pending", canary=1, stop_on="1")
    assert len(shop.driver().tick()) == 1
    assert counts_of(shop.app.desk.runs.get(1)) == Counts(waiting=2, working=1)
    shop.slow = set()
    shop.driver().leave()
    shop.app.run_due()
    assert counts_of(shop.app.desk.runs.get(1)) == Counts(succeeded=3)


def test_it_stops_at_the_share_that_was_set(shop: Shop) -> None:
    shop.die(40)
    shop.broken = set(range(0, 40, 2))
    shop.app.desk.runs.start("G1", stop_on="30%", rate=5)
    driver = shop.driver("kept")
    for _ in range(20):
        driver.tick()
        driver.leave()
        shop.app.run_due()
        shop.place.clock.advance(1.0)
    run = shop.app.desk.runs.get(1)
    assert run.phase == "stopped"
    assert 10 <= counts_of(run).ended < 40
    assert add_up(run)


def test_a_rate_spreads_the_jobs_over_time(shop: Shop) -> None:
    ids = shop.die(30)
    shop.app.desk.runs.start("G1", rate="5/s")
    assert len(shop.driver().tick()) == 10
    dues = sorted(shop.app.get(one).due for one in ids if shop.app.get(one).state == "pending")
    now = shop.place.clock.now()
    assert [round(due - now, 6) for due in dues] == [round(n * 0.2, 6) for n in range(10)]
    assert shop.driver().tick() == []
    shop.place.clock.advance(1.0)
    assert len(shop.driver().tick()) == 5


def test_pause_lets_nothing_more_go_and_resume_does(shop: Shop) -> None:
    shop.die(30)
    shop.app.desk.runs.start("G1", rate=5)
    driver = shop.driver()
    assert len(driver.tick()) == 10
    assert shop.app.desk.runs.pause("R1", reason="wait").phase == "paused"
    shop.place.clock.advance(60)
    assert driver.tick() == []
    assert counts_of(shop.app.desk.runs.get(1)).waiting == 20
    assert shop.app.desk.runs.resume("R1").phase == "live"
    assert len(driver.tick()) == 10
    assert [action.verb for action in shop.app.desk.log.actions()][:3] == [
        "resume",
        "pause",
        "retry",
    ]
    with pytest.raises(Refused, match="live"):
        shop.app.desk.runs.resume(1)


def test_the_rate_of_a_live_run_can_be_changed(shop: Shop) -> None:
    shop.die(30)
    shop.app.desk.runs.start("G1", rate="6/m")
    driver = shop.driver()
    assert len(driver.tick()) == 1
    shop.place.clock.advance(1)
    assert driver.tick() == []
    run = shop.app.desk.runs.set_rate("R1", "5/s", reason="it copes")
    assert (run.spec.rate, run.phase) == (5.0, "live")
    assert len(driver.tick()) == 10
    (action, *_) = shop.app.desk.log.actions()
    assert (action.verb, action.target, action.reason) == ("rate", "R1", "5/s: it copes")
    shop.app.desk.runs.cancel("R1")
    with pytest.raises(Refused, match="rate needs a run that is live or paused"):
        shop.app.desk.runs.set_rate("R1", "5/s")


def test_cancel_leaves_what_waits_as_it_was_and_what_was_let_go_goes_on(shop: Shop) -> None:
    ids = shop.die(30)
    shop.app.desk.runs.start("G1", rate=5)
    driver = shop.driver()
    assert len(driver.tick()) == 10
    run = shop.app.desk.runs.cancel("R1", reason="a mistake")
    assert run.phase == "cancelled"
    assert driver.tick() == []  # whoever drives ends it
    run = shop.app.desk.runs.get(1)
    assert (run.is_over, counts_of(run)) == (True, Counts(working=10, left=20))
    assert [shop.app.get(one).run for one in ids] == [1] * 10 + [None] * 20
    with pytest.raises(Refused, match="cancelled"):
        shop.app.desk.runs.cancel("R1")
    shop.place.clock.advance(60)
    shop.app.run_due()
    assert sorted(shop.seen) == list(range(10))
    assert shop.app.desk.runs.start("G1").total == 20


def test_cancel_ends_it_at_once_where_nobody_drives(shop: Shop) -> None:
    shop.die(3)
    shop.app.desk.runs.start("G1")
    assert shop.app.desk.runs.cancel(1).is_over
    assert counts_of(shop.app.desk.runs.get(1)).left == 3


def test_a_job_that_waits_for_its_next_try_keeps_the_run_open(shop: Shop) -> None:
    shop.die(4)
    shop.slow = {2}
    shop.app.desk.runs.start("G1")
    shop.app.run_due()
    run = shop.app.desk.runs.get(1)
    assert (run.phase, counts_of(run)) == ("live", Counts(succeeded=3, working=1, failing=1))
    shop.slow = set()
    shop.place.clock.advance(3700)
    shop.app.run_due()
    assert counts_of(shop.app.desk.runs.get(1)) == Counts(succeeded=4)


def test_jobs_that_arrive_meanwhile_stay_out_and_are_counted_apart(shop: Shop) -> None:
    """The preview is what is done, plus what was skipped."""
    shop.die(5)
    shop.app.desk.runs.start("G1", rate=1)
    shop.driver().leave()
    shop.place.clock.advance(1)
    late = shop.die(3)
    shop.seen.clear()
    for _ in range(12):
        shop.app.run_due()
        shop.place.clock.advance(1)
    run = shop.app.desk.runs.get(1)
    assert counts_of(run).succeeded + counts_of(run).failed + counts_of(run).left == 5
    assert run.phase == "done"
    assert {shop.app.get(one).state for one in late} == {"dead"}
    assert shop.app.desk.runs.arrived(run) >= 3


def test_what_changed_since_it_was_frozen_is_left_and_says_why(shop: Shop) -> None:
    ids = shop.die(8)
    run = shop.app.desk.runs.start("G1", reason="go")
    shop.app.desk.retry(ids[0])
    shop.app.desk.discard(ids[1], reason="no")
    shop.app.desk.edit(ids[2], '{"n":99}')
    shop.app.run_due()
    run = shop.app.desk.runs.get(run)
    assert (run.phase, counts_of(run)) == ("done", Counts(succeeded=5, left=3))
    assert shop.app.get(ids[2]).state == "dead"
    assert shop.seen.count(0) == 1  # by hand, not by the run as well


def test_a_pending_job_may_run_by_itself_before_its_turn(shop: Shop) -> None:
    shop.down = False
    job = shop.charge.submit(7)
    shop.app.desk.runs.start(job.id)
    shop.app.desk.runs.pause(1)
    shop.app.run_due()
    run = shop.app.desk.runs.get(1)
    assert (run.phase, counts_of(run)) == ("done", Counts(left=1, alone=1))


def test_closed_by_a_person_after_it_was_let_go(shop: Shop) -> None:
    ids = shop.die(3)
    shop.app.desk.runs.start("G1")
    shop.driver().tick()
    shop.app.desk.discard(ids[1], reason="no")
    shop.driver().leave()
    shop.app.run_due()
    assert counts_of(shop.app.desk.runs.get(1)) == Counts(succeeded=2, closed=1)


def test_two_operators_drive_each_job_once(shop: Shop) -> None:
    shop.die(6)
    one = shop.app.desk.runs.start("G1")
    with pytest.raises(Refused, match="R1"):
        shop.open().desk.runs.start("G1")
    assert one.total == 6
    assert [run.phase for run in shop.app.desk.runs.recent()] == ["cancelled", "live"]
    shop.app.run_due()
    assert sorted(shop.seen) == list(range(6))


def test_what_another_run_has_is_skipped_with_the_reason(shop: Shop) -> None:
    ids = shop.die(6)
    shop.app.desk.runs.start(*ids[:4])
    run = shop.app.desk.runs.start("G1")
    assert (run.total, sum(run.skipped.values())) == (2, 4)
    assert all("R1" in why for why in run.skipped)
    assert run.samples[0][0] in ids


def test_what_failed_again_belongs_to_its_run_until_that_is_over(shop: Shop) -> None:
    ids = shop.die(4)
    shop.broken, shop.slow = {0}, {1}
    shop.app.desk.runs.start("G1")
    shop.app.run_due()
    assert shop.app.get(ids[0]).state == "dead"
    with pytest.raises(Refused, match="R1"):
        shop.app.desk.runs.start(ids[0])
    shop.app.desk.runs.cancel(1)
    assert shop.app.desk.runs.start(ids[0]).total == 1


def test_purged_jobs_still_count_as_done(shop: Shop) -> None:
    shop.die(4)
    shop.slow = {3}
    shop.app.desk.runs.start("G1")
    shop.app.run_due()
    shop.place.clock.advance(48 * 3600)
    shop.app.cleanup()
    assert counts_of(shop.app.desk.runs.get(1)).succeeded == 3
    shop.slow = set()
    shop.app.run_due()
    assert counts_of(shop.app.desk.runs.get(1)) == Counts(succeeded=4)


def test_an_unknown_job_or_run_is_an_error(shop: Shop) -> None:
    with pytest.raises(JobNotFound):
        shop.app.desk.runs.start("ZZZZZZZZ")
    with pytest.raises(JobNotFound, match="R9"):
        shop.app.desk.runs.get("R9")
    assert shop.app.desk.runs.recent() == []


def test_the_single_steps_are_in_the_log_of_their_run_only(shop: Shop) -> None:
    shop.die(2)
    shop.app.desk.runs.start("G1", reason="go")
    shop.app.run_due()
    assert [(action.verb, action.reason) for action in shop.app.desk.log.actions()] == [
        ("mark", "resolved"),
        ("retry", "go"),
    ]
    assert [action.detail["run"] for action in shop.app.desk.log.actions()] == ["R1", "R1"]
    assert [action.verb for action in shop.app.desk.log.actions(run="R1")] == [
        "mark",
        "release",
        "retry",
        "enlist",
    ]
    assert shop.app.desk.log.actions(run=2) == []


def test_only_the_newest_runs_are_remembered(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT >= 100
    monkeypatch.setattr("redrive.runs.run_records.KEPT", 2)
    ids = shop.die(4)
    for one in ids:
        shop.app.desk.runs.start(one)
        shop.app.run_due()
    assert [run.id for run in shop.app.desk.runs.recent()] == ["R4", "R3"]


def test_a_run_counts_nothing_that_another_let_go(shop: Shop) -> None:
    first, *rest = shop.die(4)
    shop.app.desk.runs.start(first)
    shop.app.desk.runs.start(*rest)
    shop.app.desk.runs.pause("R2")
    assert shop.driver().tick() == [first]
    assert counts_of(shop.app.desk.runs.get("R2")) == Counts(waiting=3)
