"""What a random life of a store keeps track of, and what must hold after every step of it."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from redrive.jobs.groups import LaneCount
from redrive.jobs.job import TRANSITIONS, Claim, Job, Settlement, State
from redrive.stores.contract import Query, Store
from redrive.stores.memory import MemoryStore
from stores.contract.kinds import Kind, Place
from stores.contract.model import Model, shown


class WatchedLife(RuleBasedStateMachine):
    """A store, its model and two workers; `machine.py` says what can happen to them."""

    kind: ClassVar[Kind]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        shm = Path("/dev/shm")
        self.directory = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else None))
        self.place = Place(self.kind, self.directory)
        self.clock = self.place.clock
        self.store: Store = self.place.open()
        self.model = Model(self.clock)
        self.numbers = itertools.count()
        self.workers = ["w0", "w1"]
        self.claims: list[Claim] = []
        self.seen: dict[str, State] = {}
        self.touched: set[str] = set()
        self.backup: tuple[Any, ...] | None = None

    def teardown(self) -> None:
        self.place.remove()
        shutil.rmtree(self.directory)

    @invariant()
    def nothing_differs(self) -> None:
        type(self).steps += 1
        jobs = {job.id: job for job in self.store.find(Query(limit=1000)).jobs}
        assert jobs.keys() == self.model.jobs.keys(), "a job was lost, or came from nowhere"
        for job_id, job in jobs.items():
            assert shown(job) == self.model.jobs[job_id].shown()
            self.check_state(job)
        counts = {
            (c.state.value, c.lane, c.category and c.category.value): c.jobs
            for c in self.store.counts()
        }
        assert counts == self.model.counts()
        assert {n.name: n.value for n in self.store.notes()} == self.model.live_notes()
        for job_id in self.touched & jobs.keys():
            self.check_history(job_id)
        self.touched.clear()
        running = {(job.id, job.lease, job.holder) for job in jobs.values()}
        leases = Counter(job_id for job_id, *_ in running & set(map(fence, self.claims)))
        assert all(number == 1 for number in leases.values()), "two live leases for one job"

    @invariant()
    def nothing_is_counted_otherwise(self) -> None:
        """Groups and curves; times only while the wall clock was not set."""
        model = self.model
        found = {one.fingerprint: one for one in self.store.group_records().values()}
        assert found.keys() == model.causes.keys()
        for name, cause in model.causes.items():
            assert found[name].deaths == cause.deaths, "a death was lost, or counted twice"
            if not model.jumped:
                assert (found[name].first_seen, found[name].last_seen, found[name].status) == (
                    cause.first_seen,
                    cause.last_seen,
                    cause.status,
                )
        if model.jumped:
            return
        for span, number in ((60, 30), (3600, 20)):
            expected = model.curve(span, number)
            curve = self.store.lane_curve(span, number)  # type: ignore[arg-type]
            if not model.left_open:
                assert {
                    lane: [tuple(one) for one in row] for lane, row in curve.items()
                } == expected
            for lane, rows in expected.items():
                deaths = [one.deaths for one in curve.get(lane, [LaneCount()] * number)]
                assert deaths == [row[3] for row in rows]

    def check_state(self, job: Job) -> None:
        before = self.seen.get(job.id, State.PENDING)
        assert job.state is before or job.state in TRANSITIONS[before], (before, job.state)
        leased = (job.holder, job.lease_end)
        assert all(each is not None for each in leased) is (job.state is State.RUNNING)
        self.seen[job.id] = job.state

    def check_history(self, job_id: str) -> None:
        job = self.store.get(job_id)
        assert job is not None
        ordinals = [attempt.ordinal for attempt in job.history]
        assert ordinals == sorted(set(ordinals))
        assert len(ordinals) + job.folded == self.model.jobs[job_id].ended
        assert len(ordinals) <= 25


def fence(claim: Claim) -> tuple[str, int, str | None]:
    return claim.job.id, claim.job.lease, claim.job.holder


class Unfenced(MemoryStore):
    """A store that settles whatever claim it is shown: the mistake the machine is there to find."""

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        current = [self.get(result.claim.job.id) for result in results]
        return super().settle(
            [
                Settlement(type(one.claim)(job), one.verdict, one.attempt, one.max_attempts)
                if job
                else one
                for one, job in zip(results, current, strict=True)
            ]
        )
