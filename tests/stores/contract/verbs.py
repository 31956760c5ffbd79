"""Short ways through the contract, so that a test says only what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kit import make_action, make_attempt, make_failure, make_job, make_settlement
from redrive.jobs.job import (
    Attempt,
    Claim,
    Completed,
    Dead,
    Failure,
    Job,
    Reason,
    Retry,
    Return,
    Settlement,
    State,
    Verdict,
)
from redrive.jobs.transitions import Verb
from redrive.stores.contract import Count, Moved, Page, Query, Store

DONE = Completed(Reason.DONE)
DEAD = Dead(Reason.EXHAUSTED, "used up")


def bare(job: Job | None) -> Job:
    """A job as `find` would give it: without history, and without what is not stored."""
    assert job is not None
    return replace(job, history=(), is_new=True)


def add(store: Store, *jobs: Job) -> list[Job]:
    return store.add(jobs or [make_job()])


def add_one(store: Store, job_id: str | None = None, **fields: Any) -> Job:
    return store.add([make_job(job_id, **fields)])[0]


def claim(store: Store, *handlers: str, **options: Any) -> list[Claim]:
    """Claim up to 100 due jobs of these handlers (`mail` if none is named) for 60 s."""
    options = {"limit": 100, "holder": "w1", "lease_for": 60.0, **options}
    return store.claim(handlers or ("mail",), **options)


def claim_one(store: Store, *handlers: str, **options: Any) -> Claim:
    (only,) = claim(store, *handlers, **{"limit": 1, **options})
    return only


def settle(
    store: Store,
    claimed: Claim,
    verdict: Verdict = DONE,
    failure: Failure | None = None,
    *,
    max_attempts: int | None = None,
) -> Job | None:
    """Settle one claim, with the record of its attempt unless it is only given back."""
    result = (
        Settlement(claimed, verdict, None, max_attempts)
        if isinstance(verdict, Return)
        else make_settlement(claimed, verdict, failure, max_attempts=max_attempts)
    )
    (job,) = store.settle([result])
    return job


def fail(store: Store, claimed: Claim, category: str = "transient", delay: float = 0.0) -> Job:
    job = settle(store, claimed, Retry(delay), make_failure(category))
    assert job is not None
    return job


def kill(store: Store, job_id: str, failure: Failure | None = None, **fields: Any) -> Job:
    """Add a job and let its first attempt kill it; `release` is that of the attempt too."""
    release = fields.get("release")
    handler = fields.get("handler", "mail")
    add_one(store, job_id, **fields)
    claimed = claim_one(store, handler, only=[job_id])
    attempt = make_attempt(claimed.job, failure or make_failure(), release=release)
    (job,) = store.settle([Settlement(claimed, DEAD, attempt)])
    assert job is not None
    return job


def captured(job_id: str, now: float, **fields: Any) -> Job:
    """A job that has just died where it was called, to be added."""
    died = {"reason": Reason.CAPTURED, "updated": now, "finished": now, "died_at": now}
    defaults = {"state": State.DEAD, "failure": make_failure(), "created": now, **died}
    return make_job(job_id, **{**defaults, **fields})


def move(store: Store, verb: Verb, *ids: str, **options: Any) -> Moved:
    return store.move(ids, verb, make_action(verb), **options)


def bring_to(store: Store, state: State, job_id: str, **fields: Any) -> Job:
    """Add a job and lead it to this state by the verbs of the contract."""
    handler = fields.pop("handler", "mail")
    add_one(store, job_id, handler=handler, **fields)
    if state is State.PENDING:
        return get(store, job_id)
    suspects = fields.get("crashes", 0) > 0
    claimed = claim_one(store, handler, only=[job_id], suspects=suspects)
    if state is State.COMPLETED:
        settle(store, claimed)
    if state in {State.DEAD, State.RESOLVED}:
        settle(store, claimed, DEAD, make_failure())
    if state is State.RESOLVED:
        move(store, "resolve", job_id)
    return get(store, job_id)


def get(store: Store, job_id: str) -> Job:
    job = store.get(job_id)
    assert job is not None, f"{job_id} is gone"
    return job


def history(store: Store, job_id: str) -> tuple[Attempt, ...]:
    return get(store, job_id).history


def find(store: Store, **query: Any) -> Page:
    return store.find(Query(**query))


def found(store: Store, **query: Any) -> list[str]:
    """The ids that a query finds, on one page."""
    return [job.id for job in find(store, **query).jobs]


def ids(claims: list[Claim]) -> list[str]:
    return [each.job.id for each in claims]


def count(store: Store, state: State) -> int:
    return sum(each.jobs for each in store.counts() if each.state is state)


def table(store: Store) -> dict[tuple[str, str, str | None], Count]:
    """The counts by state, lane and category; each may be there once only."""
    rows = store.counts()
    assert all(row.jobs > 0 for row in rows)
    result = {
        (r.state.value, r.lane, None if r.category is None else r.category.value): r for r in rows
    }
    assert len(result) == len(rows)
    return result


def everything(store: Store) -> dict[str, object]:
    """All that a store shows, for comparing before and after."""
    jobs = find(store, limit=10_000).jobs
    return {
        "jobs": [store.get(job.id) for job in jobs],
        "order": [job.id for job in jobs],
        "by change": [job.id for job in find(store, limit=10_000, by_change=True).jobs],
        "counts": table(store),
        "groups": store.groups(Query(states=frozenset(State), limit=10_000)),
        "notes": store.notes(),
        "acts": store.actions(limit=10_000),
    }
