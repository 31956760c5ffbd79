"""The store contract: what every store can do, and what it promises.

Two engines obey it (`index` over a journal or over nothing, `sql` over a database); one suite,
`tests/stores/contract`, proves it for all. The verbs are synchronous, take and give batches, and each is
atomic: all of it happened, or none and an error says why. A caller may repeat any of them.

**Fence.** A claimed job belongs to the triple (lease number, holder, time of the claim). `renew` and
`settle` change only jobs that are still running under exactly that triple, and say which ones took. The
lease number never goes back, also not after a retry by a person; the holder is random for every worker
start. All are needed: a number alone repeats after a restored backup, a holder alone after a second claim.

**Time.** Delays cross this seam, instants do not: the store's clock decides what is due, and turns a
delay into a due time. Leases are measured by it too: a clock that is set forwards may end them early.

**Durability.** `add`, `move`, `amend` and `note` with `durable=True` are synced before they return:
they survive a power cut. `claim`, `renew`, `settle`, `seize` and `purge` survive kill -9; after a
power cut the last of them may be undone, and the job runs again.

**Text.** Stores keep what they are given; masking and validating happen above them.

**One rule.** `jobs.transitions` alone computes what a claim, an end, a seizure, an action or an edit
changes. A store writes those changes under the fence, and what follows from them: counts and groups
(`group_verbs`), events (`outbox_verbs`), and the number of the action on the job (`Job.actions`), all in
the same transaction.

**Versions.** Opening a store that another version of Redrive created raises StoreForeign.

**Hints.** `add`, `move` and the end of a pause tell those who `listen` that something may be due, from
other processes too. A hint costs nobody anything when it is lost: who listens also looks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from redrive.jobs.job import Action, Category, Claim, Group, Job, Settlement, State
from redrive.jobs.threads import Threads, hop_to_end
from redrive.jobs.transitions import Verb
from redrive.stores.group_verbs import GroupVerbs
from redrive.stores.listening import HintListener
from redrive.stores.note_verbs import NoteVerbs
from redrive.stores.outbox_verbs import OutboxVerbs
from redrive.stores.report import Reports

Durability = Literal["full", "relaxed", "memory"]
"""full: acknowledged work survives a power cut. relaxed: kill -9 only. memory: nothing."""

_PAGE = 1000

_NOW = 0.05  # seconds by which two readings of a clock may differ and still mean now

ALONE = 2.0
"""Seconds for which a suspect that was claimed, and runs, keeps the other suspects waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which jobs, and how many. Every part given must hold; an empty part asks nothing."""

    states: frozenset[State] = frozenset()
    ids: tuple[str, ...] = ()
    prefix: str = ""
    """The beginning of an id."""
    handler: str = ""
    """A name, or a pattern with `*`."""
    lane: str = ""
    category: Category | None = None
    group: int | None = None
    key: str = ""
    event: str = ""
    """The id of the event they were submitted for."""
    action: int | None = None
    """The action of this number was the last one on them."""
    run: int | None = None
    """Part of this run, whether it waits for it or was let go."""
    older_than: float | None = None
    """Seconds since it last changed, at least."""
    newer_than: float | None = None
    """Seconds since it last changed, at most."""
    failed: bool = False
    """Only jobs that have failed at least once in this life."""
    history: bool = False
    """With the attempts of each job."""
    by_change: bool = False
    """Newest change first instead of newest submit first."""
    limit: int = 100
    cursor: str | None = None
    """Where the page before this one ended, as `Page.cursor` gave it."""


class Scope(NamedTuple):
    """How far somebody looked who asked job by job."""

    looked: int
    of: int
    """How many came into question."""


class Page(NamedTuple):
    """Some jobs (without history unless asked for), newest first, and where to go on; no cursor at the end."""

    jobs: list[Job]
    cursor: str | None = None
    scope: Scope | None = None
    """None where the store answered alone; a store sets none."""


class Count(NamedTuple):
    """How many jobs of one state, lane and category there are, and the oldest of them."""

    state: State
    lane: str
    category: Category | None
    """Of the last failure in this life or, for a finished job, ever; None without one."""
    jobs: int
    oldest: float | None
    """Pending: the earliest due time. Running: none. Dead: the earliest death. Others: the earliest
    last change, which also counts for a job whose death is not known or is later (a clock was set back).
    """

    def is_due(self, now: float) -> bool:
        """Return True if some of them can be claimed now."""
        return self.state is State.PENDING and self.oldest is not None and self.oldest <= now


def added_up(counts: Iterable[Count]) -> list[Count]:
    """Add up the counts of each state, lane and category."""
    sums: dict[tuple[object, ...], Count] = {}
    for count in counts:
        known = sums.get(count[:3], count._replace(jobs=0))
        oldest = min((c.oldest for c in (known, count) if c.oldest is not None), default=None)
        sums[count[:3]] = count._replace(jobs=known.jobs + count.jobs, oldest=oldest)
    return list(sums.values())


def oldest_by_lane(counts: Iterable[Count], state: State) -> dict[str, float]:
    """Return the earliest time of the jobs of a state, by lane; see `Count.oldest`."""
    times = [(c.oldest, c.lane) for c in counts if c.state is state and c.oldest is not None]
    return {lane: at for at, lane in sorted(times, reverse=True)}  # the last one of a lane stays


RELEASABLE = (State.PENDING, State.DEAD, State.RESOLVED)
"""The states in which a run may let its waiting jobs go."""


class Members(NamedTuple):
    """The jobs with one tag of a run."""

    states: Mapping[State, int]
    """How many there are of each state that occurs."""
    failing: int
    """How many pending and running ones failed since their run released them."""
    causes: Mapping[int, int]
    """How many of the dead ones each group has; empty for those that wait for their run."""
    oldest: list[str]
    """The ids of the oldest ones that could be let go."""


class Moved(NamedTuple):
    """The result of an action: the jobs it took, and why the others were left."""

    done: list[Job]
    skipped: list[tuple[str, str]]
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRule:
    """Remove jobs of this state that have ended and last changed more than so many seconds ago."""

    state: State
    older_than: float
    handlers: frozenset[str] | None = None
    but: frozenset[str] = frozenset()
    """Only these handlers (None is every one), but not those."""
    ids: frozenset[str] | None = None
    """Only these jobs; None is every one."""
    since: float | None = None
    """With `ids`: only those that have not changed since this time."""
    was_dead: bool | None = None
    """True: only jobs that have been dead letters; False: only others; None: both."""

    def is_for(self, handler: str) -> bool:
        """Return True if it removes jobs of this handler."""
        return handler not in self.but and (self.handlers is None or handler in self.handlers)


class Store(GroupVerbs, NoteVerbs, OutboxVerbs, Reports, ABC):
    """Where jobs are kept. Safe to use from many threads; file stores also from many processes."""

    url: str
    """How to open it again, without secrets."""
    durability: Durability
    is_server = False
    """True if another machine or process does the work while the caller waits."""

    @abstractmethod
    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Keep jobs, whole: with state, counters and history as given (new ones are pending).

        For each job the stored one comes back, in order. A job whose id is stored comes back as
        stored, so a repeat changes nothing. A job whose key belongs to a stored job (or to an earlier
        one of this call) gives that job with `is_new=False`, if the handlers have the same name and the
        payloads (after an edit: the original) are equal as JSON; else KeyConflict, and nothing of the
        call is stored. Times are finite and ordinals of a history grow: the caller sees to it.

        `group` is set here: a job with a failure joins the group of its fingerprint. A
        job that has just died counts as a death (`reports.is_new_death`); imported ones do not. `lease`
        is raised to at least the last ordinal. `within` is the caller's transaction (PostgreSQL).
        """

    async def aadd(self, threads: Threads, jobs: Sequence[Job], *, within: object) -> list[Job]:
        """Add jobs from async code; the connection is not used after the await has ended."""
        return await hop_to_end(threads, self.add, jobs, within=within)

    @abstractmethod
    def claim(
        self,
        handlers: Collection[str],
        *,
        limit: int,
        holder: str,
        lease_for: float,
        lanes: Collection[str] | None = None,
        only: Collection[str] | None = None,
        suspects: bool = False,
        ignore_waits: bool = False,
        past_pauses: bool = False,
    ) -> list[Claim]:
        """Lease up to `limit` due jobs of these handlers, earliest due first.

        Never more than `limit`; never one job to two callers. Lanes with a live pause are left out,
        and with `lanes` all others too. `only` names the ids that come into question at all.
        `suspects` asks for jobs that crashed before (one at most should be asked for); without it
        they are left out. None is given while another that was claimed in the last `ALONE` seconds
        runs, in any worker: it may take all processes with it, and must not take another suspect.
        Only those who ask for certain jobs, by `only` or `ignore_waits`, get them all the same.
        `ignore_waits` takes pending jobs whatever their due time, pauses too;
        `past_pauses` takes due jobs of paused lanes as well.
        """

    @abstractmethod
    def renew(self, claims: Sequence[Claim], *, lease_for: float) -> list[bool]:
        """Lengthen leases from now; False for each claim that is no longer ours."""

    @abstractmethod
    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims: attempt record, counters and new state in one step.

        Returns the job as it is now, except that `run` may be that of the claim; None where the fence
        refused (then nothing changed). Failures with a fingerprint put the job in its group; a group
        is made the first time one is stored, never by a settlement that is refused.
        """

    @abstractmethod
    def seize(
        self,
        *,
        by: str,
        lease_for: float,
        holder: str | None = None,
        handlers: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[Claim]:
        """Take over running jobs whose lease has ended, or all those of one holder.

        With `handlers` only jobs of these.

        The lease number grows, so the old holder is fenced off; nothing is counted: the caller
        decides and settles. Each claim says whom it was lost by.
        """

    @abstractmethod
    def get(self, job_id: str) -> Job | None:
        """Return one job with its history."""

    @abstractmethod
    def find(self, query: Query) -> Page:
        """Return a page of jobs, newest first. Paging through is stable while jobs come and go."""

    @abstractmethod
    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""

    @abstractmethod
    def groups(self, query: Query) -> list[Group]:
        """Count the query's jobs by group, most jobs first (limit holds, the cursor does not).

        Without states in the query only dead jobs count. Each group carries its `record`.
        """

    @abstractmethod
    def move(
        self,
        ids: Sequence[str],
        verb: Verb,
        action: Action,
        *,
        delays: Sequence[float] | None = None,
        run: int | None = None,
    ) -> Moved:
        """Apply an action to exactly these jobs, each once, and record it with them.

        Jobs whose state does not allow it, or that changed after the action's `at` (0 is any time), are
        skipped with the reason. `delays` (one a job) are
        seconds until each retried job is due.

        A run tags its jobs: "enlist" with `run=-12` makes them wait for run 12, a retry with
        `run=12` takes only those that still wait for it, and "enlist" with `run=0` lets them wait
        no more. A job that waits for a run leaves it by every other action.
        """

    @abstractmethod
    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs tagged with exactly this run (below 0: those that wait for it).

        Names the `limit` oldest of those that could be let go.
        """

    @abstractmethod
    def amend(self, job_id: str, payload: str, action: Action, *, expected: int) -> Job:
        """Replace a job's payload if its number of edits is still `expected`; else Refused."""

    @abstractmethod
    def purge(self, rules: Sequence[PurgeRule], *, limit: int = 10_000) -> list[tuple[str, State]]:
        """Remove finished jobs by rule, at most `limit`; returns handler and state of each.

        It also removes expired notes.
        """

    @abstractmethod
    def now(self) -> float:
        """Return the store's wall time; on a database, the database's."""

    @abstractmethod
    def close(self) -> None:
        """Write the counts that wait here; let go of files and connections. Twice is fine."""

    def listen(self) -> HintListener | None:
        """Return a listener for this store, the caller's to close; None where there can be no hints."""
        return None

    def _hint(self) -> None:
        """Send a hint that something may be due to all listeners. It never waits and never fails."""

    def _hint_of(self, jobs: Iterable[Job]) -> None:
        """Hint if one of these jobs, which were just written, can be claimed now."""
        soon = self.now() + _NOW
        for job in jobs:
            if job.state is State.PENDING and job.due <= soon:
                self._hint()
                return


def every(store: Store, query: Query) -> Iterator[Job]:
    """Return all jobs of a query from its cursor on, page by page as they are asked for."""
    page = store.find(replace(query, limit=_PAGE))
    while True:
        yield from page.jobs
        if page.cursor is None:
            return
        page = store.find(replace(query, limit=_PAGE, cursor=page.cursor))
