"""One job's walk, as a program sees it: submit, fail, wait, retry, die, be driven again."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import redrive
from redrive import GiveUp, Policy, Redrive, RetryLater, Skip, State, constant, exponential
from redrive.context import Current
from redrive.errors import BadPayload, JobNotFound, UsageError
from redrive.policies import presets
from redrive.testing import ManualClock


def flaky(app: Redrive, fails: int, **options: Any) -> tuple[Any, list[int]]:
    """A handler that fails so many times and then works; and the list of its calls."""
    calls: list[int] = []

    @app.handler("flaky", **options)
    def handler(number: int) -> int:
        calls.append(number)
        if len(calls) <= fails:
            raise ConnectionResetError("peer went away")
        return number

    return handler, calls


def test_a_job_that_works_is_completed_after_one_pass(app: Redrive) -> None:
    handler, calls = flaky(app, 0)
    job = handler.submit(7)
    assert job.is_new
    assert job.state is State.PENDING

    done = app.run_due()

    assert (done.taken, done.succeeded, done.failed, done.died) == (1, 1, 0, 0)
    assert calls == [7]
    kept = app.get(job.id)
    assert kept.state is State.COMPLETED
    assert kept.reason == "done"
    assert [a.outcome for a in kept.history] == ["done"]


def test_a_failure_waits_by_its_policy_and_is_tried_again(app: Redrive, clock: ManualClock) -> None:
    handler, calls = flaky(app, 2, policy=Policy(attempts=5, wait=exponential(10, jitter="none")))
    job = handler.submit(1)

    assert app.run_due().failed == 1
    waiting = app.get(job.id)
    assert waiting.state is State.PENDING
    assert waiting.due == clock.now() + 10
    assert waiting.spent == {"transient": 1}
    assert waiting.failure is not None
    assert waiting.failure.type == "ConnectionResetError"
    assert app.run_due().taken == 0

    clock.advance(10)
    app.run_due()
    assert app.get(job.id).due == clock.now() + 20
    clock.advance(20)
    assert app.run_due().succeeded == 1
    done = app.get(job.id)
    assert [a.outcome for a in done.history] == ["failed", "failed", "done"]
    assert [a.number for a in done.history] == [1, 2, 3]
    assert "ConnectionResetError: peer went away" in done.history[0].failure.traceback  # type: ignore[union-attr]
    assert len(calls) == 3


def test_a_job_dies_when_its_attempts_are_used_up_and_says_so_in_the_log(
    app: Redrive, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning carries the word dead_letter and the traceback."""
    handler, _ = flaky(app, 99, policy=Policy(attempts=2, wait=constant(1, jitter="none")))
    job = handler.submit(1)
    app.run_due()
    clock.advance(1)
    with caplog.at_level(logging.WARNING, "redrive"):
        done = app.run_due()
    assert done.died == 1
    dead = app.get(job.id)
    assert dead.state is State.DEAD
    assert dead.reason == "exhausted"
    assert dead.finished == clock.now()
    assert not dead.can_retry
    assert dead.is_terminal
    line = next(r.getMessage() for r in caplog.records if "dead_letter" in r.getMessage())
    assert job.id in line
    assert "ConnectionResetError" in line
    [group] = app.desk.groups.find()
    assert group.jobs == 1
    assert group.name == f"G{dead.group}"


def test_a_retry_by_a_person_is_a_fresh_life_with_the_whole_history(
    app: Redrive, clock: ManualClock
) -> None:
    """Id, history and lease number stay; counters start again; the act is recorded."""
    handler, calls = flaky(app, 1, policy=Policy(attempts=1))
    job = handler.submit(1)
    app.run_due()
    dead = app.get(job.id)
    assert dead.state is State.DEAD

    moved = app.desk.retry(job.id, reason="fixed the network")

    assert [j.id for j in moved.done] == [job.id]
    again = app.get(job.id)
    assert (again.attempts, again.spent, again.crashes, again.redrives) == (0, {}, 0, 1)
    assert again.lease == dead.lease
    app.run_due()
    done = app.get(job.id)
    assert done.state is State.COMPLETED
    assert [(a.life, a.number, a.outcome) for a in done.history] == [
        (0, 1, "failed"),
        (1, 1, "done"),
    ]
    assert len(calls) == 2
    [action] = app.desk.log.actions()
    assert (action.actor, action.verb, action.reason, action.done) == (
        "ada",
        "retry",
        "fixed the network",
        1,
    )


def test_a_retry_of_a_waiting_job_makes_it_due_and_spends_the_same_budget(
    app: Redrive, clock: ManualClock
) -> None:
    handler, _ = flaky(
        app, 9, policy=Policy(attempts=3, wait=constant(3600, cap="1h", jitter="none"))
    )
    job = handler.submit(1)
    app.run_due()
    app.desk.retry(job)
    assert app.run_due().failed == 1
    assert app.get(job.id).attempts == 2


def test_a_group_is_driven_again_as_a_whole_and_only_it(app: Redrive) -> None:
    @app.handler("a", attempts=1)
    def a(number: int) -> None:
        raise GiveUp(f"no way {number}")

    @app.handler("b", attempts=1)
    def b() -> None:
        raise GiveUp("another cause")

    ids = {a.submit(n).id for n in range(3)}
    b.submit()
    app.run_due()
    groups = app.desk.groups.find()
    assert [g.jobs for g in groups] == [3, 1]

    moved = app.desk.retry(groups[0].name)

    assert {j.id for j in moved.done} == ids
    assert app.desk.jobs.find(state="dead").jobs[0].handler == "b"


def test_signals_say_it_outright(app: Redrive, clock: ManualClock) -> None:
    """RetryLater waits exactly, GiveUp dies under every policy, Skip completes with a reason."""

    @app.handler("signals", policy=presets.WEBHOOKS)
    def signals(which: str) -> None:
        raise {"later": RetryLater(after="7m"), "up": GiveUp("gone"), "skip": Skip("was done")}[
            which
        ]

    later, up, skip = (signals.submit(w) for w in ("later", "up", "skip"))
    done = app.run_due()
    assert (done.succeeded, done.failed, done.died) == (1, 2, 1)
    assert app.get(later.id).due == clock.now() + 420
    assert (app.get(up.id).state, app.get(up.id).reason) == ("dead", "permanent")
    skipped = app.get(skip.id)
    assert (skipped.state, skipped.reason, skipped.detail) == ("completed", "skipped", "was done")


def test_a_pass_takes_each_job_once_even_without_a_wait(app: Redrive) -> None:
    """The preset without waits does not spend all attempts in one pass."""

    @app.handler("now", policy=presets.BATCH)
    def now() -> None:
        raise OSError("disk on fire")

    job = now.submit()
    other = now.submit()
    assert app.run_due().taken == 2
    assert app.get(job.id).attempts == 1
    assert app.get(other.id).attempts == 1
    app.run_due()
    assert app.run_due().died == 2


def test_ignore_backoff_takes_everything_pending_pauses_too(app: Redrive) -> None:
    handler, calls = flaky(app, 0)
    handler.options(delay="1h").submit(1)
    app.desk.lanes.pause("flaky", reason="maintenance")
    assert app.run_due().taken == 0
    assert app.run_due(ignore_backoff=True).succeeded == 1
    assert calls == [1]


def test_a_pass_over_named_jobs_runs_no_other_and_obeys_waits(app: Redrive) -> None:
    handler, calls = flaky(app, 0)
    due, waits = handler.submit(1), handler.options(delay="1h").submit(2)
    handler.submit(3)
    assert app.run_due(only=[due.id, waits.id]).succeeded == 1
    assert calls == [1]


def test_a_paused_lane_waits_and_a_resumed_one_goes_on(app: Redrive, clock: ManualClock) -> None:
    """J9 by people; the acts are recorded."""
    handler, _ = flaky(app, 0)
    handler.submit(1)
    app.desk.lanes.pause("flaky", reason="deploy", duration="10m")
    assert app.run_due().taken == 0
    assert [note.name for note in app.store.notes("pause:")] == ["pause:flaky"]
    app.desk.lanes.resume("flaky")
    assert app.run_due().succeeded == 1
    app.desk.lanes.pause("flaky", duration="1m")
    clock.advance(61)
    handler.submit(2)
    assert app.run_due().succeeded == 1
    assert [action.verb for action in app.desk.log.actions()] == ["pause", "resume", "pause"]


def test_current_tells_a_handler_about_itself(app: Redrive) -> None:
    """Id, stable key, attempt."""
    seen: list[Current] = []

    @app.handler("ask", policy=Policy(attempts=3, wait=constant(0)))
    def ask() -> None:
        seen.append(redrive.current())
        if len(seen) == 1:
            raise TimeoutError

    job = ask.options(key="order-7").submit()
    app.run_due()
    app.run_due()
    assert [(c.job_id, c.key, c.attempt) for c in seen] == [
        (job.id, "order-7", 1),
        (job.id, "order-7", 2),
    ]
    assert not seen[0].lease_lost
    with pytest.raises(UsageError, match="inside a handler"):
        redrive.current()


def test_an_edit_keeps_the_original_and_changes_the_delivery_key(app: Redrive) -> None:
    """An edited payload must not go out under the old key."""
    handler, calls = flaky(app, 1, policy=Policy(attempts=1))
    job = handler.options(key="k-1").submit(1)
    app.run_due()
    edited = app.desk.edit(job.id, '{ "number": 10 }', reason="typo")
    assert edited.payload == '{"number":10}'
    assert edited.original == '{"number":1}'
    assert (job.delivery_key, edited.delivery_key) == ("k-1", "k-1.1")
    with pytest.raises(
        BadPayload, match="do not fit the handler: missing 'number'; unknown 'nummer'"
    ):
        app.desk.edit(job.id, '{"nummer": 10}')
    app.desk.retry(job.id)
    app.run_due()
    assert calls == [1, 10]


def test_resolve_discard_and_reopen_keep_who_why_and_what_it_was(app: Redrive) -> None:
    handler, _ = flaky(app, 9, policy=Policy(attempts=1))
    first, second, third = handler.submit(1), handler.submit(2), handler.submit(3)
    app.run_due()
    app.desk.resolve(first.id, reason="paid by hand")
    app.desk.discard(second.id, reason="test data", actor="mira")
    one, two = app.get(first.id), app.get(second.id)
    assert (one.state, one.reason) == ("resolved", "resolved")
    assert one.resolution is not None
    assert (one.resolution.actor, one.resolution.reason) == ("ada", "paid by hand")
    assert (two.state, two.reason) == ("resolved", "discarded")
    app.desk.reopen(first.id)
    assert (app.get(first.id).state, app.get(first.id).reason) == ("dead", "exhausted")
    moved = app.desk.reopen(third.id)
    assert moved.done == []
    assert "only a resolved job" in moved.skipped[0][1]
    with pytest.raises(UsageError, match="reason"):
        app.desk.discard(third.id, reason=" ")


def test_retention_removes_only_what_is_old_and_finished(app: Redrive, clock: ManualClock) -> None:
    """Strictly older; dead and pending stay by default; a preset may say otherwise."""

    @app.handler("hook", policy=presets.WEBHOOKS)
    def hook() -> None:
        raise GiveUp("no")

    ok, _ = flaky(app, 0)
    done, dead = ok.submit(1), hook.submit()
    app.run_due()
    waiting = ok.options(delay="30d").submit(2)
    clock.advance(86400)
    assert app.cleanup() == 0
    clock.advance(1)
    assert app.cleanup() == 1
    with pytest.raises(JobNotFound):
        app.get(done.id)
    clock.advance(6 * 86400)
    assert app.cleanup() == 1
    assert [job.id for job in app.desk.jobs.find().jobs] == [waiting.id]
    assert dead.id != waiting.id
