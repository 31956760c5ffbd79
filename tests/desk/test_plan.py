"""Plans, on every kind of store: what was seen is what is done, once, and the rest is listed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from kit import START
from redrive import Policy, Redrive
from redrive.desk import plan as plans
from redrive.desk.plan import Verb
from redrive.desk.shapes import Done
from redrive.errors import JobNotFound, Refused, UsageError
from redrive.jobs.job import Action
from redrive.runs.run_records import Spec
from redrive.testing import ManualClock
from shopkit import dead_letter, name
from stores.contract.kinds import KINDS, Kind, Place


class Bench:
    """A store with a handler that fails, and a person who plans an action and carries it out."""

    def __init__(self, place: Place) -> None:
        self.clock, self.fails = place.clock, True
        self.app = Redrive(place.open(), clock=place.clock, policy=Policy(attempts=1), actor="ada")
        self.app.handler("mail")(self._mail)
        self.desk, self.store = self.app.desk, self.app.store

    def _mail(self, n: int) -> None:
        if self.fails:
            raise ConnectionError("refused")

    def die(self, *numbers: int) -> list[str]:
        """Add dead letters."""
        jobs = [self.app.submit("mail", {"n": n}) for n in numbers]
        self.app.run_due()
        return [job.id for job in jobs]

    def carry_out(self, plan: plans.Plan, *words: str, **order: object) -> Done:
        told = {"as_of": plan.as_of, "confirm": len(plan.ids), "reason": "by hand", **order}
        return self.desk.carry_out(plan.verb, *(words or (plan.asked,)), **told)  # type: ignore[arg-type]

    def states(self) -> list[str]:
        return sorted(str(job.state) for job in self.desk.jobs.find(limit=100).jobs)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    kind: Kind = request.param
    place = Place(kind, tmp_path)
    yield Bench(place)
    place.remove()


@pytest.mark.parametrize("verb", ["retry", "resolve", "discard", "purge"])
def test_what_changed_or_died_since_the_look_stays_out(bench: Bench, verb: Verb) -> None:
    one, two, three, four, five = bench.die(1, 2, 3, 4, 5)  # in the very moment of the look
    plan = bench.desk.plan(verb, "G1")
    assert (plan.matched, len(plan.ids), plan.states) == (5, 5, {"dead": 5})
    assert bench.desk.log.actions() == []
    bench.clock.advance(60)
    bench.die(6)  # a new death of the same cause
    bench.desk.resolve(one)
    bench.desk.retry(two)  # and dead again
    bench.app.run_due()
    bench.desk.edit(three, '{"n":7}')
    done = bench.carry_out(plan)
    assert (done["matched"], done["planned"], done["done"]) == (5, 5, 2)
    changed = "changed since the plan was made, now"
    assert done["skipped"]["reasons"] == {f"{changed} dead": 2, f"{changed} resolved": 1}
    assert {left["id"] for left in done["skipped"]["samples"]} == {one, two, three}
    action = next(action for action in bench.desk.log.actions() if action.verb == verb)
    assert (action.target, action.done, action.actor) == ("G1", 2, "ada")
    if verb == "purge":
        assert not {four, five} & {job.id for job in bench.desk.jobs.find(limit=10).jobs}


def test_a_second_submit_of_the_same_form_changes_nothing(bench: Bench) -> None:
    bench.die(1, 2, 3)
    for verb, now in (("resolve", "resolved"), ("reopen", "dead"), ("discard", "resolved")):
        bench.clock.advance(1)
        plan = bench.desk.plan(verb, "G1")  # type: ignore[arg-type]
        bench.clock.advance(1)
        assert bench.carry_out(plan)["done"] == 3
        log = bench.desk.log.actions()
        again = bench.carry_out(plan)
        assert (again["planned"], again["done"]) == (3, 0)
        assert again["skipped"]["reasons"] == {f"changed since the plan was made, now {now}": 3}
        assert bench.desk.log.actions() == log
    plan = bench.desk.plan("purge", "G1")
    bench.clock.advance(1)
    assert bench.carry_out(plan)["done"] == 3
    assert bench.carry_out(plan)["skipped"]["reasons"] == {"changed since the plan was made": 3}


def test_a_run_takes_the_jobs_once_and_a_repeat_names_it(bench: Bench) -> None:
    bench.die(1, 2, 3)
    plan = bench.desk.plan("retry", "state:dead")
    bench.clock.advance(1)
    first = bench.carry_out(plan, spec=Spec(canary=1), name="outage")
    assert (first["done"], first["run"], first["skipped"]["total"]) == (3, "R1", 0)
    again = bench.carry_out(plan, spec=Spec(canary=1), name="outage")
    assert (again["planned"], again["done"], again["run"]) == (3, 0, "R1")
    assert again["skipped"]["reasons"] == {"is part of R1, which has not ended": 3}
    other = bench.desk.plan("retry", "G1")
    assert (other.matched, other.ids, other.runs) == (3, [], {1: 3})
    with pytest.raises(Refused, match=r"none of the 3 jobs can be taken: is part of R1.* \(3\)"):
        bench.carry_out(other)
    with pytest.raises(Refused, match=r"^no jobs match; nothing was changed$"):
        bench.carry_out(bench.desk.plan("retry", "handler:other"))
    with pytest.raises(Refused, match="is part of R1"):
        bench.carry_out(bench.desk.plan("purge", "G1"))
    bench.fails = False
    bench.clock.advance(1)
    for _ in range(3):
        bench.app.run_due()
    assert bench.desk.runs.get("R1").phase == "done"
    gone = bench.carry_out(plan)
    assert (gone["planned"], gone["done"], gone["run"]) == (3, 0, None)
    assert gone["skipped"]["reasons"] == {"changed since the plan was made, now completed": 3}
    assert [run.id for run in bench.desk.runs.recent()] == ["R1"]


def test_two_requests_at_once_take_the_jobs_once(bench: Bench) -> None:
    bench.die(*range(20))
    for verb in ("retry", "resolve"):
        plan = bench.desk.plan(verb, "G1")  # type: ignore[arg-type]
        bench.clock.advance(1)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: bench.carry_out(plan), range(4)))  # noqa: B023
        assert sum(done["done"] for done in answers) == 20
        assert all(done["matched"] == 20 for done in answers)


def test_what_changes_between_the_second_look_and_the_write_stays_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = plans.plan
    for verb in ("resolve", "discard", "purge", "retry"):
        one, _ = bench.die(1, 2)
        plan = bench.desk.plan(verb, "state:dead")  # type: ignore[arg-type]
        bench.clock.advance(1)

        def edited(*targets: object, one: str = one, **more: object) -> plans.Plan:
            found = look(*targets, **more)  # type: ignore[arg-type]
            bench.clock.advance(1)
            bench.desk.edit(one, '{"n":7}')
            return found

        with monkeypatch.context() as patch:
            patch.setattr(plans, "plan", edited)
            done = bench.carry_out(plan)
        assert (done["done"], done["skipped"]["total"]) == (1, 1), verb
        assert next(iter(done["skipped"]["reasons"])).startswith("changed since the plan was made")
        job = bench.store.get(one)
        assert job is not None
        assert (job.state, job.run) == ("dead", None)
        bench.desk.resolve(one)


def test_what_changes_while_it_is_looked_at_stays_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.die(1, 2)
    look = plans._meant

    def slow(*asked: object) -> Iterator[object]:
        first, second = [job for job in look(*asked) if not isinstance(job, str)]  # type: ignore[arg-type]
        yield first
        for job in (first, second):
            bench.clock.advance(0.2)
            bench.desk.edit(job.id, '{"n":7}')
        yield bench.store.get(second.id)

    with monkeypatch.context() as patch:
        patch.setattr(plans, "_meant", slow)
        plan = bench.desk.plan("resolve", "G1")
    assert bench.carry_out(plan, "G1")["done"] == 0
    assert bench.states() == ["dead", "dead"]


def test_a_job_that_was_not_eligible_needs_a_plan_of_its_own(bench: Bench) -> None:
    one, _ = bench.die(1, 2)
    bench.desk.runs.start("G1")
    plan = bench.desk.plan("retry", one, as_run=True)
    assert plan.ids == []
    with pytest.raises(Refused, match="make the plan again"):
        bench.carry_out(plan, one)


def test_ages_are_reckoned_from_the_plan(bench: Bench) -> None:
    bench.die(1)
    bench.clock.advance(3600)
    bench.die(2)
    bench.clock.advance(60)
    old, new = (bench.desk.plan("resolve", f"state:dead age:{age}") for age in (">30m", "<30m"))
    assert (len(old.ids), len(new.ids)) == (1, 1)
    bench.clock.advance(86_400)
    assert bench.carry_out(new)["done"] == bench.carry_out(old)["done"] == 1


def test_jobs_that_changed_before_the_clock_was_set_back_are_taken(bench: Bench) -> None:
    one, two = bench.die(1, 2)
    bench.clock.jump(-3600)
    plan = bench.desk.plan("resolve", "G1")
    bench.clock.advance(60)
    bench.desk.retry(two)
    bench.app.run_due()
    done = bench.carry_out(plan)
    assert (done["planned"], done["done"], bench.app.get(one).state) == (2, 1, "resolved")


def test_named_jobs_need_no_plan_and_one_is_retried_at_once(bench: Bench) -> None:
    one, two, three = bench.die(1, 2, 3)
    done = bench.desk.carry_out("retry", one)
    assert (done["done"], done["run"], bench.app.get(one).state) == (1, None, "pending")
    assert bench.desk.carry_out("retry", two, name="slow")["run"] == "R1"
    with pytest.raises(Refused, match=f"{three} is dead; only a resolved job can be reopened"):
        bench.desk.carry_out("reopen", three)
    with pytest.raises(JobNotFound, match="no job 'ZZZZZZZZ'"):
        bench.desk.plan("retry", "ZZZZZZZZ")
    with pytest.raises(JobNotFound, match="no job 'YYYYYYYY'"):
        bench.desk.plan("retry", "YYYYYYYY", "ZZZZZZZZ")
    some = bench.desk.plan("resolve", three, "ZZZZZZZZ")
    assert some.left == [("ZZZZZZZZ", "there is no such job")]
    bench.clock.advance(1)
    bench.desk.edit(three, '{"n":7}')
    done = bench.carry_out(some, three, "ZZZZZZZZ")
    assert done["skipped"]["reasons"] == {
        "changed since the plan was made, now dead": 1,
        "there is no such job": 1,
    }
    assert (done["matched"], done["done"]) == (2, 0)


def test_a_whole_group_is_marked_and_a_part_of_it_is_not(bench: Bench) -> None:
    bench.die(1, 2)
    group = bench.desk.groups
    for words, status in (("G1 handler:mail", "open"), ("G1", "resolved")):
        bench.clock.advance(1)
        bench.carry_out(bench.desk.plan("resolve", words))
        record = group.get("G1").record
        assert (record.status, words) == (status, words)
        bench.clock.advance(1)
        if words != "G1":
            bench.desk.reopen("G1")
    assert (record.resolved_by, record.reason) == ("ada", "by hand")
    bench.carry_out(bench.desk.plan("reopen", "G1"))
    assert group.get("G1").record.status == "open"


def test_what_does_not_fit_the_plan_changes_nothing(bench: Bench) -> None:
    bench.die(1, 2)
    plan = bench.desk.plan("resolve", "G1")
    log, at = bench.desk.log.actions(), plan.as_of.partition(":")[0]
    for error, said, order in [
        (Refused, "confirm must be 2, the number of eligible jobs; found 3", {"confirm": 3}),
        (Refused, "found nothing; nothing was changed", {"confirm": None}),
        (Refused, "2 jobs match, and 1 were planned", {"as_of": f"{at}:1", "confirm": 1}),
        (Refused, "the clock was set back", {"as_of": "9999999999.0:2"}),
        (UsageError, "must be the mark that a plan answered with", {"as_of": "yesterday:2"}),
        (UsageError, "as_of is missing", {"as_of": None}),
        (UsageError, "only for the verb retry", {"name": "x"}),
        (UsageError, "only for the verb retry", {"spec": Spec(canary=1)}),
    ]:
        with pytest.raises(error, match=said):
            bench.carry_out(plan, **order)
    discard = bench.desk.plan("discard", "G1")
    with pytest.raises(UsageError, match="discard needs a reason"):
        bench.carry_out(discard, reason=" ")
    with pytest.raises(UsageError, match=r"verb must be one of: .*purge; found 'burn'"):
        bench.desk.plan("burn", "G1")  # type: ignore[arg-type]
    assert bench.desk.log.actions() == log
    assert bench.states() == ["dead", "dead"]


def test_an_action_on_many_jobs_is_written_in_batches(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.die(*range(7))
    monkeypatch.setattr(plans, "AT_ONCE", 3)
    plan = bench.desk.plan("resolve", "G1")
    bench.clock.advance(1)
    assert (bench.carry_out(plan)["done"], len(plan.samples)) == (7, plans.SAMPLES)
    assert [a.done for a in bench.desk.log.actions() if a.verb == "resolve"] == [1, 3, 3]
    purge = bench.desk.plan("purge", "state:resolved")
    bench.clock.advance(1)
    assert bench.carry_out(purge)["done"] == 7
    assert bench.states() == []


class SlowClock(ManualClock):
    """Keeps the writer waiting after it has read its time; in a file store it then has the lock."""

    def __init__(self) -> None:
        super().__init__(START)
        self.writing, self.looking, self.go_on = (threading.Event() for _ in range(3))

    def now(self) -> float:
        now = super().now()
        if threading.current_thread().name == "writer" and not self.writing.is_set():
            self.writing.set()
            self.go_on.wait(10)
        if threading.current_thread().name == "planner":
            self.looking.set()
        return now


@pytest.mark.parametrize("url", ["memory:", "jsonl:jobs.jsonl", "sqlite:jobs.db"])
def test_a_writer_that_began_before_the_look_does_not_slip_past_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read its time before the mark and commits after: the plan waits for it, and shows its job."""
    monkeypatch.chdir(tmp_path)
    clock, found = SlowClock(), list[str]()
    with Redrive(url, clock=clock) as app:
        app.store.add([dead_letter(1)])
        action = Action(actor="ada", verb="resolve")
        move = partial(app.store.move, [name(1)], "resolve", action)
        writer = threading.Thread(target=move, name="writer")
        writer.start()
        assert clock.writing.wait(10)
        clock.advance(10)
        look = partial(app.desk.plan, "reopen", "state:resolved")
        planner = threading.Thread(target=lambda: found.extend(look().ids), name="planner")
        planner.start()
        assert clock.looking.wait(10)
        clock.go_on.set()
        writer.join(10)
        planner.join(10)
        assert found == [name(1)]
