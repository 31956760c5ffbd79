"""A random life of a store: two workers, people, crashes, clocks and reopenings, step by step.

After every step all that the store shows is compared with the model. `machine_for(kind)` gives the
state machine of one kind; `tests/stores/contract/test_machine.py` runs it briefly, `rigs/machine.py` long.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from kit import make_action, make_attempt, make_failure, make_job
from redrive.errors import KeyConflict, Refused
from redrive.jobs.job import (
    Claim,
    Completed,
    Dead,
    Reason,
    Retry,
    Return,
    Settlement,
    State,
    Verdict,
)
from redrive.jobs.transitions import Verb
from redrive.stores.contract import PurgeRule, Query
from stores.contract.checks import WatchedLife, fence
from stores.contract.kinds import Kind
from stores.contract.model import Belief, shown

TEN_YEARS = 315_576_000.0
REMEMBERED = 12
"""How many claims are kept for late settlements."""

# Lease and note times end on fractions and clocks move by whole seconds, so that "at the very
# moment" is never in question.
LEASES = st.sampled_from([7.5, 60.5, 9999.5])
DELAYS = st.sampled_from([0.0, 0.0, 5.0, 500.0])
picks = st.lists(st.integers(0, 30), min_size=1, max_size=3)
causes = st.sampled_from(["transient", "quota", "unknown", "crash"])
verdicts: st.SearchStrategy[Verdict] = st.one_of(
    st.sampled_from(
        [
            Completed(Reason.DONE),
            Completed(Reason.SKIPPED, "nothing to do"),
            Dead(Reason.EXHAUSTED, "used up"),
            Dead(Reason.PERMANENT),
            Return(),
            Return(10.0),
        ]
    ),
    DELAYS.map(Retry),
)
VERBS: list[Verb] = ["retry", "resolve", "discard", "reopen"]


class StoreMachine(WatchedLife):
    """The rules; `kind` is set by `machine_for`."""

    # Work.

    @initialize(number=st.integers(1, 4))
    def start_with_some_jobs(self, number: int) -> None:
        for _ in range(number):
            self.add("a", "a", 0.0, None, "{}")

    @rule(
        handler=st.sampled_from("ab"),
        lane=st.sampled_from(["a", "slow"]),
        delay=DELAYS,
        key=st.sampled_from([None, None, "k1", "k2"]),
        payload=st.sampled_from(['{"n":1}', '{"n":2}']),
    )
    def add(self, handler: str, lane: str, delay: float, key: str | None, payload: str) -> None:
        job_id, now = f"j{next(self.numbers):04d}", self.clock.now()
        fields = {"handler": handler, "lane": lane, "payload": payload, "key": key}
        job = make_job(job_id, created=now, due=now + delay, **fields)
        known = next((b for b in self.model.jobs.values() if key and b.key == key), None)
        work = known and (known.handler, known.original or known.payload)
        if work not in {None, (handler, payload)}:
            try:
                self.store.add([make_job(f"{job_id}x"), job])
            except KeyConflict:
                return
            raise AssertionError(f"{key} stood for other work, and was taken all the same")
        (stored,) = self.store.add([job])
        assert stored.id == (known.id if known else job_id)
        assert stored.is_new is (known is None)
        if known is None:
            self.model.jobs[job_id] = Belief(job_id, handler, lane, payload, key, due=now + delay)
        assert self.store.add([job])[0].id == stored.id

    @rule(
        who=st.integers(0, 1),
        limit=st.integers(1, 3),
        handlers=st.sampled_from([("a", "b"), ("a",)]),
        lanes=st.sampled_from([None, None, ("a",), ("slow",)]),
        suspects=st.sampled_from([False, False, True]),
        ignore_waits=st.sampled_from([False, False, False, True]),
        lease_for=LEASES,
    )
    def claim(
        self,
        *,
        who: int,
        limit: int,
        handlers: tuple[str, ...],
        lanes: tuple[str, ...] | None,
        suspects: bool,
        ignore_waits: bool,
        lease_for: float,
    ) -> None:
        options: dict[str, Any] = {"suspects": suspects, "ignore_waits": ignore_waits}
        fits = self.model.claimable(handlers, lanes, **options)
        taken = self.store.claim(
            handlers,
            limit=limit,
            holder=self.workers[who],
            lease_for=lease_for,
            lanes=lanes,
            **options,
        )
        assert [each.job.due for each in taken] == [job.due for job in fits[:limit]]
        ids = [each.job.id for each in taken]
        assert len(set(ids)) == len(ids)
        assert set(ids) <= {job.id for job in fits}
        for job_id in ids:
            self.model.claim(self.model.jobs[job_id], self.workers[who], lease_for)
        self.remember(taken)

    def remember(self, taken: list[Claim]) -> None:
        self.claims = (self.claims + taken)[-REMEMBERED:]
        self.touched |= {each.job.id for each in taken}
        for each in taken:
            assert shown(each.job) == self.model.jobs[each.job.id].shown()

    @precondition(lambda self: self.claims)
    @rule(which=picks, lease_for=LEASES)
    def renew(self, which: list[int], lease_for: float) -> None:
        some = [self.claims[n % len(self.claims)] for n in which]
        held = [self.model.held(fence(each)) for each in some]
        assert self.store.renew(some, lease_for=lease_for) == [job is not None for job in held]
        for job in held:
            if job is not None:
                job.ends = self.clock.now() + lease_for

    @precondition(lambda self: self.claims)
    @rule(which=picks, verdict=verdicts, cause=causes)
    def settle(self, which: list[int], verdict: Verdict, cause: str) -> None:
        """Late ones too: most claims that are remembered were settled or lost before."""
        fails = isinstance(verdict, Retry | Dead)
        failure = make_failure(cause) if fails else None
        some = [self.claims[n % len(self.claims)] for n in which]
        spent = not isinstance(verdict, Return)
        results = self.store.settle(
            [
                Settlement(each, verdict, make_attempt(each.job, failure) if spent else None)
                for each in some
            ]
        )
        for each, result in zip(some, results, strict=True):
            job = self.model.held(fence(each))
            assert (result is not None) == (job is not None), "the fence let the wrong one through"
            if job is not None and result is not None:
                self.model.settle(job, verdict, cause if fails else None)
                assert shown(replace(result, run=job.run)) == job.shown()
                self.touched.add(job.id)

    @precondition(lambda self: self.zombies())
    @rule(which=st.integers(0, 30), verdict=verdicts, cause=causes)
    def settle_late(self, which: int, verdict: Verdict, cause: str) -> None:
        """The dangerous case of `settle`, asked for by name: the job runs, but for another."""
        zombies = self.zombies()
        self.claims.append(zombies[which % len(zombies)])
        self.settle([len(self.claims) - 1], verdict, cause)
        self.claims.pop()

    @precondition(lambda self: self.live())
    @rule(which=st.integers(0, 30), lease_for=LEASES, verdict=verdicts, cause=causes)
    def take_over(self, which: int, lease_for: float, verdict: Verdict, cause: str) -> None:
        """Another takes all jobs of a holder, which settles late: rare by chance, so it has a rule."""
        live = self.live()
        self.seize(live[which % len(live)].job.holder, 3, "leave", lease_for)
        if self.zombies():
            self.settle_late(which, verdict, cause)

    def live(self) -> list[Claim]:
        """The claims whose lease is still held."""
        return [each for each in self.claims if self.model.held(fence(each)) is not None]

    def zombies(self) -> list[Claim]:
        """The claims whose job is running under another lease."""
        jobs = self.model.jobs
        return [
            each
            for each in self.claims
            if each.job.id in jobs
            and jobs[each.job.id].state == "running"
            and self.model.held(fence(each)) is None
        ]

    @rule(who=st.integers(0, 1))
    def crash(self, who: int) -> None:
        """A worker is gone and started again under another name; its claims stay as zombies."""
        self.workers[who] = f"w{who}-{next(self.numbers)}"

    @rule(
        limit=st.integers(1, 3),
        who=st.sampled_from([None, None, 0, 1]),
        end=st.sampled_from(["crash", "crash", "leave", "give back"]),
        lease_for=LEASES,
    )
    def sweep(self, limit: int, who: int | None, end: str, lease_for: float) -> None:
        self.seize(None if who is None else self.workers[who], limit, end, lease_for)

    def seize(self, holder: str | None, limit: int, end: str, lease_for: float) -> None:
        """Take over the jobs of a holder, or those whose lease ended, and end them so."""
        gone = self.model.expired(holder)
        by = f"sweeper-{next(self.numbers)}"
        taken = self.store.seize(by=by, lease_for=lease_for, holder=holder, limit=limit)
        ids = {each.job.id for each in taken}
        assert len(taken) == len(ids) == min(limit, len(gone))
        assert ids <= set(gone)
        for each in taken:
            assert each.lost_by == self.model.jobs[each.job.id].holder
            self.model.lease(self.model.jobs[each.job.id], by, lease_for)
        self.remember(taken)
        for each in taken if end != "leave" else []:
            job, failure = self.model.jobs[each.job.id], None
            verdict: Verdict = Return()
            if end == "crash":
                failure = make_failure("crash")
                verdict = Dead(Reason.CRASH) if job.crashes >= 2 else Retry(5.0)
            attempt = make_attempt(each.job, failure) if failure else None
            (result,) = self.store.settle([Settlement(each, verdict, attempt)])
            self.model.settle(job, verdict, "crash" if failure else None)
            assert result is not None
            assert shown(result) == job.shown()

    # People.

    @precondition(lambda self: self.model.jobs)
    @rule(verb=st.sampled_from([*VERBS, "retry"]), which=picks, delay=DELAYS)
    def move(self, verb: Verb, which: list[int], delay: float) -> None:
        ids = [*dict.fromkeys(self.nth(n) for n in which), "nobody"]
        moved = self.store.move(ids, verb, make_action(verb), delays=[delay] * len(ids))
        allowed = [
            job_id for job_id in ids if self.model.move(verb, self.model.jobs.get(job_id), delay)
        ]
        assert [job.id for job in moved.done] == allowed
        assert [job_id for job_id, _ in moved.skipped] == [i for i in ids if i not in allowed]
        assert all(why for _, why in moved.skipped)
        assert (moved.action.done, moved.action.skipped) == (len(allowed), len(ids) - len(allowed))
        assert self.store.actions(limit=1) == [moved.action]
        number = moved.action.number
        assert all(job.actions[-1] == number for job in moved.done)
        assert {job.id for job in self.store.find(Query(action=number)).jobs} == set(allowed)
        self.touched |= set(allowed)

    @precondition(lambda self: self.model.jobs)
    @rule(deed=st.sampled_from(["enlist", "release", "leave"]), run=st.integers(1, 2), which=picks)
    def drive(self, deed: str, run: int, which: list[int]) -> None:
        """A step of one of two runs, over the same jobs."""
        ids = [*dict.fromkeys(self.nth(n) for n in which), "nobody"]
        verb: Verb = "retry" if deed == "release" else "enlist"
        tag = {"enlist": -run, "release": run, "leave": 0}[deed]
        moved = self.store.move(ids, verb, make_action(verb), run=tag)
        allowed = [one for one in ids if self.model.drive(deed, self.model.jobs.get(one), run)]
        assert [job.id for job in moved.done] == allowed
        self.touched |= set(allowed)
        for one in (run, -run):
            members = self.store.members(one, limit=100)
            assert dict(members.states) == dict(self.model.members(one))
            open_ones = {"pending", "dead", "resolved"}
            tagged = [j.id for j in self.model.jobs.values() if j.run == one]
            assert members.oldest == sorted(
                job_id for job_id in tagged if self.model.jobs[job_id].state in open_ones
            )

    def nth(self, n: int) -> str:
        ids = list(self.model.jobs)
        return ids[n % len(ids)]

    @precondition(lambda self: self.model.jobs)
    @rule(which=st.integers(0, 30), late=st.sampled_from([0, 0, 0, 1]))
    def amend(self, which: int, late: int) -> None:
        job = self.model.jobs[self.nth(which)]
        payload = f'{{"edit":{next(self.numbers)}}}'
        fits = not late and job.state not in {"running", "completed"}
        try:
            self.store.amend(job.id, payload, make_action("edit"), expected=job.edits + late)
        except Refused:
            assert not fits
            return
        assert fits
        job.original = job.original or job.payload
        job.payload, job.edits = payload, job.edits + 1
        job.changed = self.clock.now()
        self.model.leave_run(job)
        number = self.store.actions(limit=1)[0].number
        assert [job.id] == [each.id for each in self.store.find(Query(action=number)).jobs]

    @rule(
        state=st.sampled_from(State),
        older_than=st.sampled_from([-0.75, 100.25, 5000.25]),
        limit=st.integers(1, 3),
    )
    def purge(self, state: State, older_than: float, limit: int) -> None:
        before = self.clock.now() - older_than
        old = [
            job
            for job in self.model.jobs.values()
            if job.state == state.value and job.finished is not None and self.age_of(job) < before
        ]
        gone = self.store.purge([PurgeRule(state=state, older_than=older_than)], limit=limit)
        assert len(gone) == min(limit, len(old))
        left = {job.id for job in self.store.find(Query(limit=1000)).jobs}
        removed = [job for job in old if job.id not in left]
        assert sorted(gone) == sorted((job.handler, state) for job in removed)
        for job in removed:
            assert self.store.get(job.id) is None
            del self.model.jobs[job.id], self.seen[job.id]

    def age_of(self, job: Belief) -> float:
        """The last change of an ended job."""
        return job.changed

    @rule()
    def fold(self) -> None:
        assert self.store.fold() is True

    @precondition(lambda self: self.model.causes)
    @rule(which=st.integers(0, 3), late=st.sampled_from([0, 0, 1]))
    def resolve_group(self, which: int, late: int) -> None:
        records = list(self.store.group_records().values())
        record = records[which % len(records)]
        now = self.clock.now()
        changed = self.store.change_group(
            record.number, {"resolved": now}, make_action("resolve"), expected=record.version + late
        )
        assert (changed is None) == bool(late)
        if changed is not None:
            cause = self.model.causes[record.fingerprint]
            cause.resolved, cause.regressed = now, False

    @rule(
        name=st.sampled_from(["pause:a", "pause:slow", "turn"]), ends=st.sampled_from([None, 30.5])
    )
    def note(self, name: str, ends: float | None) -> None:
        versions = {note.name: note.version for note in self.store.notes()}
        version = versions.get(name, 0)
        assert self.store.note(name, "stale", expected=version + 1) is None
        value = f"v{next(self.numbers)}"
        written = self.store.note(name, value, expected=version, expires_in=ends)
        assert written is not None
        assert written.version > version
        self.model.notes[name] = (value, None if ends is None else self.clock.now() + ends)

    @rule(name=st.sampled_from(["pause:a", "pause:slow", "turn"]))
    def forget(self, name: str) -> None:
        removed = self.store.note(name, None)
        assert removed is not None
        assert removed.version == 0
        self.model.notes.pop(name, None)

    # Time, and what machines do.

    @rule(seconds=st.sampled_from([1.0, 10.0, 100.0, 5000.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def forget_ended(self) -> None:
        """Remove ended notes; whether one comes back when the clock is set back is not ours to say."""
        for name in set(self.model.notes) - set(self.model.live_notes()):
            self.forget(name)

    @rule(seconds=st.sampled_from([3600.0, -3600.0, TEN_YEARS, -TEN_YEARS]))
    def jump(self, seconds: float) -> None:
        self.forget_ended()
        self.clock.jump(seconds)
        self.model.jumped = True

    @precondition(lambda self: self.kind.persistent)
    @rule(closed=st.booleans())
    def reopen(self, closed: bool) -> None:
        """Open again, half of the time without having closed, as after a kill."""
        closed = closed or not self.kind.shared
        self.model.left_open = self.model.left_open or not closed
        self.store = self.place.reopen() if closed else self.place.open()

    @precondition(lambda self: self.kind.files and self.backup is None)
    @rule()
    def copy(self) -> None:
        self.forget_ended()
        self.place.copy()
        self.store = self.place.open()
        model = self.model
        kept = (model.jobs, model.notes, self.seen, model.causes, model.ends)
        self.backup = copy.deepcopy(kept)

    @precondition(lambda self: self.backup is not None)
    @rule()
    def restore(self) -> None:
        """Go back to the copy; every worker starts anew, and the claims since are zombies."""
        assert self.backup is not None
        self.store = self.place.restore()
        self.model.jobs, self.model.notes, self.seen, causes, ends = self.backup
        self.model.causes, self.model.ends = causes, ends
        self.backup = None
        self.crash(0)
        self.crash(1)


def machine_for(kind: Kind) -> type[StoreMachine]:
    """Give the state machine of one kind of store, with a count of its own."""
    return type(f"{kind.name.title()}Machine", (StoreMachine,), {"kind": kind, "steps": 0})
