"""The words of Redrive: a job, its states, and what can happen to it.

Everything here is frozen data without behaviour that matters: no I/O, no clock, no policy. Times are
seconds since 1970 (UTC); the `…_at` properties are aware datetimes. A repr has no payload or error text.

    pending ──claim──▶ running ──done, skipped──▶ completed
       ▲  ◀─retry later──┘  └──pointless, exhausted──▶ dead ──resolve, discard──▶ resolved
       └──────────────────────retry by a person─────────┴─────────────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from redrive.jobs.groups import GroupRecord

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(StrEnum):
    """Where a job stands. Each says how a job gets in, how it leaves, and who cleans it up."""

    PENDING = "pending"
    """Waits for its due time. In: submit, a retry, a returned claim. Out: claim. Never purged."""
    RUNNING = "running"
    """Claimed under a lease. In: claim. Out: settle, or a sweep once the lease ended. Never purged."""
    COMPLETED = "completed"
    """Done, skipped or found already done. In: settle. Out: never. Purged after 24 h by default."""
    DEAD = "dead"
    """A dead letter. In: settle, reopen, capture. Out: retry, resolve. Kept for ever by default."""
    RESOLVED = "resolved"
    """Closed by a person. In: resolve, discard. Out: retry, reopen. Purged after 24 h by default."""


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.PENDING: frozenset({State.RUNNING, State.DEAD, State.RESOLVED}),
    State.RUNNING: frozenset({State.COMPLETED, State.PENDING, State.DEAD, State.RESOLVED}),
    State.DEAD: frozenset({State.PENDING, State.RESOLVED}),
    State.RESOLVED: frozenset({State.PENDING, State.DEAD}),
    State.COMPLETED: frozenset(),
}
"""Every change of state there is; nothing else can be written, on any store."""

TERMINAL = frozenset({State.COMPLETED, State.DEAD, State.RESOLVED})


class Reason(StrEnum):
    """Why a job is in its state; pending and running jobs have none."""

    DONE = "done"
    SKIPPED = "skipped"
    ALREADY_DONE = "already_done"
    EXHAUSTED = "exhausted"
    PERMANENT = "permanent"
    EXPIRED = "expired"
    CRASH = "crash"
    MANUAL = "manual"
    CAPTURED = "captured"
    RESOLVED = "resolved"
    DISCARDED = "discarded"


class Category(StrEnum):
    """The kinds of failure; each has its own back-off."""

    TRANSIENT = "transient"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    AUTH = "auth"
    INVALID = "invalid"
    PERMANENT = "permanent"
    TIMEOUT = "timeout"
    CRASH = "crash"
    UNKNOWN = "unknown"


HOPELESS = frozenset({Category.AUTH, Category.INVALID, Category.PERMANENT})
"""Categories that another attempt does not help, unless something is fixed first."""


@dataclass(frozen=True, kw_only=True)
class Failure:  # without slots: see `records`
    """What a failed attempt means, for people; all text is masked and bounded before it gets here."""

    category: Category
    why: str = ""
    """The evidence in words: "status 503", "code insufficient_quota in response body"."""
    type: str = ""
    message: str = ""
    code: str | None = None
    status: int | None = None
    traceback: str = ""
    hint: float | None = None
    """How many seconds the other side asked us to wait."""
    hint_source: str | None = None
    request_id: str | None = None
    final: bool = False
    """Retrying is pointless under every policy (GiveUp; sent, no answer)."""
    fingerprint: str = ""
    """Failures with the same one are of one group."""
    title: str = ""
    """One line naming the cause; the group of this fingerprint carries it."""

    def __repr__(self) -> str:
        return _shown(self, self, "status")


def _shown(record: object, failed: Failure | Group | None, *names: str) -> str:
    fields = [f"{name}={getattr(record, name)!s}" for name in names]
    fields += [f"category={failed.category}"] if failed and failed.category else []
    return f"{type(record).__name__}({', '.join(fields)})"


@dataclass(frozen=True, kw_only=True)
class Attempt:  # without slots: see `records`
    """The record of one execution. Written once, when it ended; never rewritten."""

    ordinal: int
    """The job's lease number when it ended: unique and growing over all lives of the job."""
    number: int
    """Which attempt of its life it was, from 1."""
    life: int
    """0 before the first retry by a person."""
    started: float
    duration: float
    worker: str
    """The host and process id of the worker that ran it: `host:pid`."""
    outcome: str
    """done, skipped, already_done, failed, or crashed."""
    failure: Failure | None = None
    provider: str | None = None
    release: str | None = None
    """The release of the program that ran it; None if that is not known."""

    def __repr__(self) -> str:
        return _shown(self, self.failure, "number", "life", "outcome")

    @property
    def started_at(self) -> datetime:
        """When it started, as an aware datetime."""
        return datetime.fromtimestamp(self.started, UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Who closed a job, why and when; `was` is the reason it was dead for, if it was."""

    actor: str
    reason: str
    at: float
    was: Reason | None = None


@dataclass(frozen=True, kw_only=True)
class Job:  # without slots: see `records`
    """The durable record of one unit of work."""

    id: str
    handler: str
    lane: str
    payload: str
    """The arguments: a JSON object as text, kept as it was given."""
    created: float
    due: float
    since: float
    """The later of the first due time and the start of this life; `max_age` counts from here."""
    updated: float
    key: str | None = None
    state: State = State.PENDING
    reason: Reason | None = None
    detail: str = ""
    """Words that go with the reason, such as why a job was skipped."""
    attempts: int = 0
    """Attempts of this life; counted at claim, before the handler starts."""
    spent: Mapping[str, int] = field(default_factory=dict[str, int])
    """Failures of this life by category."""
    crashes: int = 0
    redrives: int = 0
    """How often a person drove it again after it was dead or resolved."""
    own_max_attempts: int | None = None
    """Its own limit of attempts, if it was submitted with one; wins over the policy's."""
    max_attempts: int = 0
    """The limit of attempts in force when it was last submitted or settled; for showing n/max."""
    finished: float | None = None
    died_at: float | None = None
    """When it last became a dead letter. Actions such as retry, resolve, reopen and edit keep it."""
    first_failed: float | None = None
    failure: Failure | None = None
    """The last failure, without its traceback (that is in the attempt)."""
    lease: int = 0
    """How often it was leased; never goes back, so a late worker's number is always stale."""
    holder: str | None = None
    lease_end: float | None = None
    """When the lease ends, by the store's clock."""
    tags: tuple[str, ...] = ()
    release: str | None = None
    """The release of the program that submitted it."""
    failed_release: str | None = None
    """The release that ran its last failed attempt; None if that is not known."""
    group: int | None = None
    """The number of its group: jobs that failed of one cause."""
    event: str | None = None
    """The id of the event that it was submitted for."""
    run: int | None = None
    failed_in_run: bool = False
    """True if it is open, and an attempt failed since its run released it."""
    resolution: Resolution | None = None
    actions: tuple[int, ...] = ()
    """The numbers of the newest 20 actions on it, oldest first; the audit log has the actions."""
    edits: int = 0
    original: str | None = None
    """The payload before the first edit."""
    folded: int = 0
    """How many attempts of the middle are no longer in the history."""
    origin: Mapping[str, object] | None = None
    """For imported jobs: where it came from, and fields we do not know."""
    history: tuple[Attempt, ...] = ()
    """Its attempts, oldest first; only `get` fills it in."""
    is_new: bool = True
    """False when a submit found this job under its idempotency key; not stored."""

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return _shown(self, self.failure, "id", "handler", "state", "attempts")

    @property
    def can_retry(self) -> bool:
        """True if attempts of this life are left."""
        return self.attempts < self.max_attempts

    @property
    def is_terminal(self) -> bool:
        """True if nothing more happens to it by itself."""
        return self.state in TERMINAL

    @property
    def delivery_key(self) -> str:
        """The key to send downstream: stable over all attempts, new after an edit."""
        key = self.key or self.id
        return f"{key}.{self.edits}" if self.edits else key

    @property
    def created_at(self) -> datetime:
        """When it was submitted, as an aware datetime."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def due_at(self) -> datetime:
        """When it may run, as an aware datetime."""
        return datetime.fromtimestamp(self.due, UTC)

    @property
    def updated_at(self) -> datetime:
        """When it last changed state, as an aware datetime."""
        return datetime.fromtimestamp(self.updated, UTC)

    @property
    def finished_at(self) -> datetime | None:
        """When it completed, died or was resolved, as an aware datetime."""
        return None if self.finished is None else datetime.fromtimestamp(self.finished, UTC)


@dataclass(frozen=True, slots=True)
class Claim:
    """A job and the lease to run it: lease number, holder and time of the claim are the fence."""

    job: Job
    lost_by: str | None = None
    """For a seized claim: the holder whose lease ended."""


# What becomes of the job.


@dataclass(frozen=True, slots=True)
class Retry:
    """Run it again after so many seconds."""

    delay: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Dead:
    """Make it a dead letter."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Completed:
    """It is done, skipped, or was already done."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    """Return the claim unspent; without a delay it keeps its due time."""

    delay: float | None = None
    detail: str = ""
    """Why, for people who look at the job while it waits; empty leaves the last words."""
    lane: str | None = None
    """The lane to move it to; None leaves it where it is."""


Verdict = Retry | Dead | Completed | Return
"""What becomes of the job."""


@dataclass(frozen=True)
class Settlement:  # without slots: see `records`
    """One claim's end: the verdict, and the record of the attempt (none when returned)."""

    claim: Claim
    verdict: Verdict
    attempt: Attempt | None = None
    max_attempts: int | None = None
    """The limit of attempts now in force, kept on the job for showing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action in the audit log: who did what to which jobs, when, why, and with what result."""

    number: int = 0
    at: float = 0.0
    """The store sets the number and the time; given to `move`, it takes only jobs unchanged since."""
    actor: str
    verb: str
    target: str = ""
    """The selection as it was asked for: ids, a group, a filter."""
    reason: str = ""
    done: int = 0
    skipped: int = 0
    detail: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def name(self) -> str:
        """A17, as people type it."""
        return f"A{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs with one cause."""

    number: int
    fingerprint: str
    title: str
    record: GroupRecord
    """What is stored of the group beside its jobs."""
    jobs: int = 0
    """How many jobs of the query are in it."""
    handlers: tuple[str, ...] = ()
    category: Category | None = None

    def __repr__(self) -> str:
        return _shown(self, self, "name", "jobs")

    @property
    def first_seen(self) -> float | None:
        """When its first failure was stored."""
        return self.record.first_seen

    @property
    def last_seen(self) -> float | None:
        """When the last job of it died; None if none did."""
        return self.record.last_seen

    @property
    def name(self) -> str:
        """G7, as people type it."""
        return f"G{self.number}"
