"""The documents that `--json` prints and the server returns, field by field; `documents` makes them.

These names are a public face: they may grow, but none goes or changes its meaning without a new
schema version. The server describes itself by them. Times are ISO 8601, UTC.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from redrive.jobs.job import Category, Reason, State


class Error(TypedDict):
    """A failure, without its traceback."""

    type: str
    message: str
    category: Category
    why: str
    code: str | None
    status: int | None
    hint: float | None
    request_id: str | None
    title: str


class Job(TypedDict):
    """A job as lists show it."""

    id: str
    state: State
    reason: Reason | None
    detail: str | None
    handler: str
    lane: str
    attempts: int
    max_attempts: int
    redrives: int
    crashes: int
    category: Category | None
    error: Error | None
    group: str | None
    key: str | None
    event: str | None
    tags: list[str]
    release: str | None
    failed_release: str | None
    run: str | None
    edits: int
    created: str | None
    due: str | None
    updated: str | None
    finished: str | None
    died_at: str | None
    first_failed: str | None


class Attempt(TypedDict):
    """One attempt."""

    number: int
    life: int
    started: str | None
    duration: float
    worker: str
    outcome: str
    provider: str | None
    release: str | None
    error: Error | None
    traceback: str | None


class Resolution(TypedDict):
    """Who closed a job, and why."""

    actor: str
    reason: str
    at: str | None
    was: Reason | None


class WholeJob(Job):
    """A job with its payload, its attempts and the newest 20 actions on it, newest first."""

    payload: Any
    original_payload: Any
    spent: dict[str, int]
    folded: int
    origin: Any
    resolution: Resolution | None
    actions: list[Action]
    history: list[Attempt]


class PlainGroup(TypedDict):
    """A group and how many jobs it has."""

    group: str
    title: str
    jobs: int
    handlers: list[str]
    category: Category | None
    first_seen: str | None
    last_seen: str | None
    fingerprint: str


class Trend(TypedDict):
    """Numbers of deaths, the oldest span first."""

    span_seconds: float
    numbers: list[int]


class Group(PlainGroup):
    """A group with its record and its trend; `since` is when the present incident began."""

    deaths: int
    since: str | None
    first_release: str | None
    last_release: str | None
    regressed: str | None
    status: Literal["open", "resolved", "regressed"]
    resolved: str | None
    resolved_by: str | None
    reason: str | None
    note: str | None
    noted: str | None
    noted_by: str | None
    deaths_last_hour: int
    deaths_last_10_minutes: int
    deaths_last_day: Trend


class Left(TypedDict):
    """A job that was left out, and why."""

    id: str
    why: str


class Run(TypedDict):
    """A bulk retry and its progress."""

    run: str
    phase: Literal["freezing", "live", "paused", "done", "stopped", "cancelled"]
    why: str | None
    name: str | None
    reason: str | None
    by: str
    asked: str
    created: str | None
    ended: str | None
    canary: int | None
    rate: float | None
    ramp: bool
    stop_on: str | None
    total: int
    waiting: int
    working: int
    failing: int
    succeeded: int
    failed: int
    same_cause: int
    new_cause: dict[str, int]
    closed: int
    left: dict[str, int]
    samples: list[Left]


class WholeRun(Run):
    """A run with its pace, what died of its groups beside it since it began, and what it waits for."""

    rate_now: float
    pace: Trend
    arrived: int
    waits: list[str]


class SharedFact(TypedDict):
    """A value that is common among the dead jobs of a group; `completed` is the share to compare."""

    fact: str
    value: str
    share: float
    completed: float | None


class Message(TypedDict):
    """A message that some of the newest dead jobs of a group have, with `*` for numbers and ids."""

    text: str
    jobs: int
    last_seen: str | None


class Shared(TypedDict):
    """What the newest dead jobs of a group share, their messages, and some of them."""

    messages: list[Message]
    shared: list[SharedFact]
    shared_of: int
    completed_of: int
    newest: list[Job]


class WholeGroup(Group, Shared):
    """A group, and what its newest dead jobs share."""


class LeftOut(TypedDict):
    """The jobs that were left out, counted by reason, and some of them."""

    total: int
    reasons: dict[str, int]
    samples: list[Left]


class Plan(TypedDict):
    """What an action would do, what not and why; `as_of` and `eligible` confirm it."""

    verb: str
    asked: str
    as_of: str
    matched: int
    eligible: int
    states: dict[str, int]
    handlers: dict[str, int]
    oldest: str | None
    waits: list[str]
    samples: list[Job]
    ineligible: LeftOut


class Done(TypedDict):
    """What an action did; `run` is the run that was started or that has the jobs already."""

    verb: str
    asked: str
    matched: int
    planned: int
    done: int
    skipped: LeftOut
    run: str | None
    waits: list[str]


class Action(TypedDict):
    """An action: who did what to which jobs, when, why, and with what result.

    One that is no longer in the audit log has only its name, and `at` is null.
    """

    action: str
    at: str | None
    actor: str
    verb: str
    target: str
    reason: str
    done: int
    skipped: int


class Pause(TypedDict):
    """A lane that is paused."""

    lane: str
    by: str | None
    reason: str | None
    seconds_left: float | None


class WholeLane(TypedDict):
    """A lane: its jobs by state, who serves it, and its pause."""

    lane: str
    pending: int
    running: int
    completed: int
    dead: int
    resolved: int
    oldest_due: str | None
    oldest_due_seconds: float | None
    served: bool
    unserved: bool
    because: str | None
    pause: Pause | None


class AlertChannel(TypedDict):
    """A channel of alerts that is set up here."""

    channel: str
    kind: str
    reads: list[str]
    not_set: list[str]


class AlertMessage(TypedDict):
    """A message that was sent, or is to be sent; its job has every attempt."""

    channel: str
    title: str
    job: Job


class Handler(TypedDict):
    """A handler of the program that is served."""

    handler: str
    lane: str
    arguments: list[str]
    attempts: int | None
    already_done: bool
    timeout: float | None


class Blocked(TypedDict):
    """What blocks the event loop of a worker."""

    job: str | None
    handler: str | None
    since: str | None


class Running(TypedDict):
    """Jobs of one handler that a worker runs now, and since when the first of them."""

    handler: str
    jobs: int
    since: str | None


class Worker(TypedDict):
    """A live worker process."""

    host: str
    pid: int | None
    version: str
    release: str | None
    since: str | None
    lanes: list[str]
    missing: dict[str, Any]
    silent_seconds: float
    blocked: Blocked | None
    slots: int | None
    busy: int | None
    running: list[Running]


class Scope(TypedDict):
    """How many jobs were searched, of how many."""

    looked: int
    of: int


class Health(TypedDict):
    """How things stand."""

    oldest_due_seconds: float | None
    oldest_dead_seconds: float | None
    workers: list[Worker]
    last_pass: str | None
    unserved: list[str]
    unserved_because: dict[str, str]
    pauses: list[Pause]
    store: str
    durability: str
    now: str | None
