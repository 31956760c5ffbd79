"""Durable listeners: `app.on` gets every change of its kinds, in order for each job, at least once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest

from redrive import Event, GiveUp, Keep, Policy, Redrive, constant, current, presets
from redrive.errors import JobNotFound, UsageError
from redrive.jobs.job import Job
from redrive.submission import Options
from redrive.testing import ManualClock
from tablekit import each_row
from workkit import until

SOON = Policy(attempts=3, wait=constant(10, jitter=0), alike=True)


def fail(app: Redrive, name: str = "mail", **payload: object) -> Job:
    """Make a dead letter."""
    with app.capture(name, payload, reraise=False) as captured:
        raise ConnectionError("the server is down")
    assert captured.job is not None
    return captured.job


def work(app: Redrive, *, dies: list[bool]) -> Job:
    """Register a handler that fails for ever while `dies` has an entry; submit one job."""

    @app.handler("work", policy=Policy(keep=Keep(completed=60, resolved=60)))
    def handler() -> None:
        if dies:
            raise GiveUp("broken")

    return handler.submit()


def heard(app: Redrive, *kinds: str, **options: object) -> list[Event]:
    """Register a listener that keeps what it is called with."""
    events: list[Event] = []
    app.on(*kinds, name="keeps", **options)(events.append)  # type: ignore[arg-type]
    return events


def test_a_listener_gets_the_whole_life_of_a_job_in_order(app: Redrive, clock: ManualClock) -> None:
    events = heard(app, "died", "retried", "reopened", "resolved", "completed", "purged")
    dies = [True]
    job = work(app, dies=dies)
    app.run_due()
    app.desk.resolve(job.id)
    app.desk.reopen(job.id)
    dies.clear()
    app.desk.retry(job.id)
    app.run_due()
    clock.advance(61)
    app.run_due()
    kinds = ["died", "resolved", "reopened", "retried", "completed", "purged"]
    assert [event.kind for event in events] == kinds
    numbers = [event.number for event in events]
    assert numbers == sorted(set(numbers))
    assert [event.at for event in events][-2:] == [clock.now() - 61, clock.now()]
    assert {event.job.id for event in events if event.job} == {job.id}
    states = ["dead", "resolved", "dead", "pending", "completed", "completed"]
    assert [event.job.state for event in events if event.job] == states


def test_recovered_is_only_what_had_been_a_dead_letter(app: Redrive) -> None:
    events = heard(app, "recovered")
    dies = [True]
    job = work(app, dies=dies)
    app.run_due()
    dies.clear()
    app.desk.retry(job.id)
    app.submitter.submit(app.submitter.registry.need("work"), "{}", Options())
    app.run_due()
    assert [event.job.id for event in events if event.job] == [job.id]


def test_a_dead_letter_that_was_retried_stays_as_long_as_a_resolved_one(
    app: Redrive, clock: ManualClock
) -> None:
    """Finding 11 of the sync user: it was gone after the day that completed jobs stay."""
    broken = [True]

    @app.handler("sync", policy=presets.SYNC)
    def sync() -> None:
        if broken:
            raise GiveUp("refused")

    recovered = sync.submit()
    app.run_due()
    broken.clear()
    app.desk.retry(recovered.id)
    simple = sync.submit()
    app.run_due()
    clock.advance(100 * 86400)
    assert app.cleanup() == 1
    assert app.get(recovered.id).state == "completed"
    with pytest.raises(JobNotFound):
        app.get(simple.id)


def test_the_job_is_masked_unless_the_listener_asked(app: Redrive) -> None:
    masked = heard(app, "died")
    plain: list[Event] = []
    app.on("died", name="plain", reveal=True)(plain.append)
    fail(app, password="hunter2", deep=[[10.10]])
    app.run_due()
    (shown,), (revealed,) = masked, plain
    assert shown.job is not None
    assert revealed.job is not None
    assert "hunter2" not in repr(shown) + shown.job.payload
    assert json.loads(revealed.job.payload) == {"password": "hunter2", "deep": [[10.10]]}
    assert revealed.failure is not None
    assert revealed.failure.message == "the server is down"
    assert "raise ConnectionError" in revealed.failure.traceback
    assert [attempt.failure for attempt in revealed.job.history] == [revealed.failure]


def test_the_history_is_that_of_the_time_of_the_event(app: Redrive) -> None:
    events = heard(app, "died", "completed")
    app.desk.lanes.pause("redrive.on.keeps", reason="deliver both later")
    dies = [True]
    job = work(app, dies=dies)
    app.run_due()
    dies.clear()
    app.desk.retry(job.id)
    app.run_due()
    app.desk.lanes.resume("redrive.on.keeps")
    app.run_due()
    outcomes = [[one.outcome for one in event.job.history] for event in events if event.job]
    assert outcomes == [["failed"], ["failed", "done"]]
    assert [event.failure.message for event in events if event.failure] == ["broken", "broken"]


def test_what_happened_before_the_subscription_is_not_delivered(
    clock: ManualClock, tmp_path: Path
) -> None:
    with Redrive(tmp_path / "jobs.db", clock=clock) as before:
        fail(before, number=1)
    with Redrive(tmp_path / "jobs.db", clock=clock) as app:
        events = heard(app, "died")
        fail(app, number=2)
        app.run_due()
    assert [event.job.payload for event in events if event.job] == ['{"number":2}']


def test_an_event_is_delivered_by_another_process(clock: ManualClock, tmp_path: Path) -> None:
    """The program that stored it never runs a pass."""
    with Redrive(tmp_path / "jobs.db", clock=clock) as web:
        assert heard(web, "died") == []
        fail(web)
    with Redrive(tmp_path / "jobs.db", clock=clock) as worker:
        events = heard(worker, "died")
        worker.run_due()
    assert [event.kind for event in events] == ["died"]


def test_a_program_without_the_listener_leaves_its_events(
    clock: ManualClock, tmp_path: Path
) -> None:
    with Redrive(tmp_path / "jobs.db", clock=clock) as web:
        heard(web, "died")
        fail(web)
    with Redrive(tmp_path / "jobs.db", clock=clock) as other:
        others: list[Event] = []
        other.on("died", name="other")(others.append)
        other.run_due()
        assert others == []
        assert other.store.waiting_events()["keeps"].number == 1


def test_a_failed_delivery_is_retried_by_the_policy_and_holds_up_its_job_only(
    app: Redrive, clock: ManualClock
) -> None:
    calls: list[tuple[str, str, int]] = []

    @app.on("died", "resolved", policy=SOON)
    def tell(event: Event) -> None:
        assert event.job is not None
        calls.append((event.job.payload, event.kind, current().attempt))
        if event.job.payload == '{"number":1}' and current().attempt < 3:
            raise ConnectionError("the receiver is down")

    first = fail(app, number=1)
    app.desk.resolve(first.id)
    second = fail(app, number=2)
    app.desk.resolve(second.id)
    for _ in range(3):
        app.run_due()
        clock.advance(10)
    assert [call for call in calls if "1" in call[0]] == [
        ('{"number":1}', "died", 1),
        ('{"number":1}', "died", 2),
        ('{"number":1}', "died", 3),
        ('{"number":1}', "resolved", 1),
    ]
    assert calls.index(('{"number":2}', "resolved", 1)) < calls.index(('{"number":1}', "died", 2))


def test_a_delivery_that_is_given_up_is_a_dead_letter_that_can_be_retried(
    app: Redrive, clock: ManualClock
) -> None:
    calls: list[Event] = []
    broken = [True]

    @app.on("died", "resolved", name="mirror", policy=SOON)
    def mirror(event: Event) -> None:
        calls.append(event)
        if broken and event.kind == "died":
            raise ConnectionError("the receiver is down")

    job = fail(app, token="hunter2", number=1)
    app.desk.resolve(job.id)
    for _ in range(3):
        app.run_due()
        clock.advance(10)
    assert [event.kind for event in calls] == ["died", "died", "died", "resolved"]
    (dead,) = app.desk.jobs.find(state="dead").jobs
    assert (dead.handler, dead.reason, dead.attempts) == ("redrive.on.mirror", "exhausted", 3)
    assert dead.spent == {"transient": 3}
    assert dead.failure is not None
    assert dead.failure.message == "the receiver is down"
    assert "hunter2" not in dead.payload
    assert json.loads(dead.payload)["event"]["job"]["id"] == job.id
    broken.clear()
    app.desk.retry(dead.id)
    app.run_due()
    assert app.get(dead.id).state == "completed"
    assert calls[-1].kind == "died"
    assert calls[-1].number == calls[0].number < calls[3].number
    assert calls[-1].job == calls[0].job


def test_jobs_of_redrive_itself_fire_no_event(app: Redrive, clock: ManualClock) -> None:
    """A listener that hears of its own dead deliveries would never end."""
    calls: list[Event] = []

    @app.on("died", policy=Policy(attempts=1))
    def refuse(event: Event) -> None:
        calls.append(event)
        raise ConnectionError("the receiver is down")

    fail(app)
    for _ in range(3):
        app.run_due()
        clock.advance(60)
    assert len(calls) == 1
    assert app.store.waiting_events() == {}


def test_give_up_and_skip_end_a_delivery(app: Redrive) -> None:
    @app.on("died", policy=SOON)
    def refuse(event: Event) -> None:
        raise GiveUp("the receiver does not know this customer")

    fail(app)
    app.run_due()
    (dead,) = app.desk.jobs.find(handler="redrive.on.refuse").jobs
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "permanent", 1)


def test_a_paused_listener_waits(app: Redrive) -> None:
    events = heard(app, "died")
    app.desk.lanes.pause("redrive.on.keeps", reason="the receiver moves")
    fail(app)
    app.run_due()
    assert events == []
    app.desk.lanes.resume("redrive.on.keeps")
    app.run_due()
    assert len(events) == 1


def test_async_listeners_run_in_a_pass_and_in_a_worker(tmp_path: Path) -> None:
    events: list[Event] = []
    with Redrive(tmp_path / "jobs.db") as app:

        @app.on("died")
        async def tell(event: Event) -> None:
            await asyncio.sleep(0)
            events.append(event)

        fail(app, number=1)
        app.run_due()
        assert len(events) == 1
        with app.worker():
            fail(app, number=2)
            until(lambda: len(events) == 2)


def test_a_listener_that_hangs_delays_only_its_own_events(tmp_path: Path) -> None:
    end, hanging, events = threading.Event(), list[Event](), list[Event]()
    with Redrive(tmp_path / "jobs.db") as app:

        @app.on("died", name="first")
        def hang(event: Event) -> None:
            hanging.append(event)
            end.wait(60)

        app.on("died", "resolved", name="second")(events.append)
        jobs = [fail(app, number=number) for number in range(3)]
        with app.worker():
            until(lambda: hanging and len(events) == 3)
            app.desk.resolve(jobs[0].id)
            until(lambda: len(events) == 4)
            assert len(hanging) == 1
            end.set()
            until(lambda: not app.store.waiting_events())
    assert [event.job.id for event in hanging if event.job] == [job.id for job in jobs]
    assert events[-1].kind == "resolved"


def test_a_listener_that_ignores_its_time_limit_is_given_up_and_its_process_replaced(
    tmp_path: Path,
) -> None:
    end, returned = threading.Event(), threading.Event()
    with Redrive(tmp_path / "jobs.db", lease=0.3) as app:

        @app.on("died", timeout=0.1, isolation="thread", policy=Policy(attempts=1))
        def hang(_: Event) -> None:
            end.wait(60)
            returned.set()

        fail(app)
        with app.worker(replaced=True, grace=300) as worker:
            until(lambda: worker.wants_replacement)
            (dead,) = app.desk.jobs.find(handler="redrive.on.hang").jobs
        assert not returned.is_set()  # the worker does not wait for it
        end.set()
        assert dead.failure is not None
        assert (dead.failure.category, dead.attempts) == ("timeout", 1)
        assert app.store.waiting_events() == {}


def test_a_worker_that_stops_waits_for_the_delivery_that_runs(tmp_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()
    with Redrive(tmp_path / "jobs.db") as app:

        @app.on("died")
        def slow(_: Event) -> None:
            begun.set()
            end.wait(60)

        fail(app)
        with app.worker() as worker:
            assert begun.wait(60)
            worker.stop(60)
            end.wait(3)
            assert worker.is_alive
            end.set()
        assert app.store.waiting_events() == {}


def test_a_lost_delivery_counts_as_a_crash_and_the_third_is_the_last(
    app: Redrive, clock: ManualClock
) -> None:
    """A listener that takes its process down does not do so for ever."""
    events = heard(app, "died")
    fail(app)
    for _ in range(3):
        taken = app.store.take_events(subscriptions=["keeps"], holder="x", lease_for=30, limit=1)
        assert len(taken) == 1
        clock.advance(31)
    app.run_due()
    assert events == []
    (dead,) = app.desk.jobs.find(handler="redrive.on.keeps").jobs
    assert (dead.state, dead.reason, dead.crashes) == ("dead", "crash", 3)
    app.desk.retry(dead.id)
    app.run_due()
    assert len(events) == 1


@each_row(
    "kinds, message",
    [((), "found none"), (("gone",), "found 'gone'"), (("died", print), "built-in function print")],
)
def test_unknown_kinds_are_refused(app: Redrive, kinds: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        app.on(*kinds)  # type: ignore[arg-type]


def test_two_listeners_of_one_name_are_refused(app: Redrive) -> None:
    heard(app, "died")
    with pytest.raises(UsageError, match=r"redrive\.on\.keeps"):
        heard(app, "died")


def test_a_function_without_a_proper_name_needs_one(app: Redrive) -> None:
    with pytest.raises(UsageError, match="<lambda>"):
        app.on("died")(lambda event: None)
