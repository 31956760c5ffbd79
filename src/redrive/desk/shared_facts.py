"""Shared facts: what is more common among the dead jobs of a group than among completed ones; its messages.

The baseline are completed jobs of the same handlers. Masked values never take part, nor does a field
that is masked in any job.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple, cast

from redrive.desk.desk import Desk
from redrive.desk.documents import payload_of
from redrive.jobs.job import Group, Job
from redrive.payloads.masking import MASK

SAMPLE = 500  # how many of the newest dead jobs are compared, and of the newest completed ones
ATTEMPTS = 50  # of so many of them the last attempt is read, for worker and release
FEWEST = 20
"""With fewer completed jobs there is no baseline; then a fact is what SHARE of the dead have."""
SHARE = 0.8
MORE, SURE = 0.2, 3.0
"""A fact is so much more common among the dead, and that by so many standard errors."""
MOST = 10
DEEP, LONG = 3, 80  # how far into a payload, and how long a value may be

Facts = list[set[tuple[str, str]]]
"""The names and values of each job."""


class SharedFact(NamedTuple):
    """A value that is common among the dead jobs of a group."""

    fact: str
    value: str
    share: float
    """The part of the dead jobs that have it."""
    completed: float | None
    """The part of the completed jobs that have it; None without a baseline."""


class Message(NamedTuple):
    """A message of a group, with `*` for numbers and ids."""

    text: str
    jobs: int
    """How many of the newest dead jobs have it."""
    last_seen: float
    """When the last of them died."""


class SharedFacts(NamedTuple):
    """The facts and messages of a group, and of how many jobs they are known."""

    facts: list[SharedFact]
    messages: list[Message]
    """The most common first."""
    dead: list[Job]
    completed: int


def shared_facts(desk: Desk, group: Group) -> SharedFacts:
    """Compare the newest dead jobs of a group with the newest completed ones of its handlers."""
    dead = desk.jobs.find(group, state="dead", by_change=True, limit=SAMPLE).jobs
    completed = _completed(desk, group)
    facts = compared(*([_facts_of(job, group) for job in jobs] for jobs in (dead, completed)))
    facts += compared(_last_attempts(desk, dead), _last_attempts(desk, completed))
    facts.sort(key=lambda fact: ((fact.completed or 0.0) - fact.share, fact.fact))
    return SharedFacts(facts[:MOST], _messages(dead), dead, len(completed))


def _messages(dead: Iterable[Job]) -> list[Message]:
    from redrive.classify.message_text import without_ids  # noqa: PLC0415 - lists do without

    found: dict[str, list[float]] = {}
    for job in dead:
        if (failure := job.failure) is not None:
            keep = (failure.code or "", str(failure.status or ""))
            died = job.updated if job.died_at is None else job.died_at
            found.setdefault(without_ids(failure.message, keep), []).append(died)
    messages = [Message(text, len(times), max(times)) for text, times in found.items()]
    return sorted(messages, key=lambda one: (-one.jobs, -one.last_seen, one.text))[:MOST]


def compared(dead: Facts, completed: Facts) -> list[SharedFact]:
    """Return what is over-represented among the dead; without a baseline what most of them share."""
    if len(dead) < 2:  # noqa: PLR2004 - one job shares everything with itself
        return []
    masked = {name for facts in (*dead, *completed) for name, value in facts if MASK in value}
    usual = Counter(fact for facts in completed for fact in facts)
    found: list[SharedFact] = []
    for (name, value), number in Counter(fact for facts in dead for fact in facts).items():
        share = number / len(dead)
        base = usual[name, value] / len(completed) if len(completed) >= FEWEST else None
        is_common = share >= SHARE if base is None else _is_more(share, len(dead), base, completed)
        if is_common and name not in masked:
            found.append(SharedFact(name, value, share, base))
    return found


def _is_more(share: float, dead: int, base: float, completed: Facts) -> bool:
    """Return True if the difference matters and is hardly chance (a test of two proportions)."""
    number = len(completed)
    pooled = (share * dead + base * number) / (dead + number)
    error = math.sqrt(pooled * (1 - pooled) * (1 / dead + 1 / number))
    return share - base >= MORE and share - base >= SURE * error


def _completed(desk: Desk, group: Group) -> list[Job]:
    handlers = group.handlers[:MOST]
    jobs: list[Job] = []
    for handler in handlers:
        limit = max(1, SAMPLE // len(handlers))
        jobs += desk.jobs.find(handler=handler, state="completed", by_change=True, limit=limit).jobs
    return jobs


def _last_attempts(desk: Desk, jobs: list[Job]) -> Facts:
    """Return worker and release of the last attempt of the newest of these jobs."""
    newest = sorted(jobs, key=lambda job: -job.updated)[:ATTEMPTS]
    return [
        {
            (name, value)
            for attempt in job.history[-1:]
            for name, value in (("worker", attempt.worker), ("release", attempt.release))
            if value
        }
        for job in desk.jobs.with_history([job.id for job in newest])
    ]


def _facts_of(job: Job, group: Group) -> set[tuple[str, str]]:
    """Return names and values; not the handler of a group that has no other, nor a lane named after it."""
    several = len(group.handlers) > 1
    ours = () if several else (("handler", job.handler), ("lane", job.handler))
    return {fact for fact in _facts(job) if fact not in ours}


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    plain = {"handler": job.handler, "lane": job.lane, "submitted-release": job.release}
    yield from ((name, value) for name, value in plain.items() if value is not None)
    if (at := job.died_at or job.finished) is not None:
        yield from (("hour", hour) for hour in _hour(at))
    yield from (("tag", tag) for tag in job.tags)
    yield from _leaves("payload", payload_of(job.payload), DEEP)


def _hour(at: float) -> Iterable[str]:
    try:
        return (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:00} UTC",)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999: somebody's file said so
        return ()


def _leaves(name: str, value: object, deep: int) -> Iterator[tuple[str, str]]:
    """Yield the short values of a payload by path, as selectors spell it."""
    if isinstance(value, dict):
        if deep:
            for key, inner in cast("dict[str, object]", value).items():
                yield from _leaves(f"{name}.{key}", inner, deep - 1)
    elif not isinstance(value, list):
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) <= LONG and name != "payload":
            yield name, text
