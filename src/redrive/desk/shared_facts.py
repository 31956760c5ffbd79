"""Shared facts: what most jobs of a group have in common."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import cast

from redrive.desk.desk import Desk
from redrive.desk.documents import payload_of
from redrive.jobs.job import Group, Job
from redrive.payloads.masking import MASK

SAMPLE = 1000
"""How many of the newest jobs are compared."""
SHARE = 0.8
"""The part of them that must have a value in common."""
MOST = 10
DEEP, LONG = 3, 80
"""How far into a payload, and how long a value may be."""


def newest_of(desk: Desk, group: Group) -> list[Job]:
    """Return the newest dead jobs of a group."""
    return desk.jobs.find(group, state="dead", by_change=True, limit=SAMPLE).jobs


def shared_facts(jobs: list[Job]) -> list[tuple[str, str, float]]:
    """Return the names and values that most of these jobs share, and the share of each."""
    if len(jobs) < 2:  # noqa: PLR2004 - one job shares everything with itself
        return []
    counted = Counter(fact for job in jobs for fact in set(_facts(job)))
    often = [
        (name, value, number / len(jobs))
        for (name, value), number in counted.items()
        if number >= SHARE * len(jobs)
    ]
    return sorted(often, key=lambda fact: (-fact[2], fact[0]))[:MOST]


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    plain: dict[str, object] = {
        "handler": job.handler,
        "lane": job.lane,
        "release": job.failed_release or job.release,
    }
    if job.failure:
        plain |= {"status": job.failure.status, "code": job.failure.code}
    yield from ((name, str(value)) for name, value in plain.items() if value is not None)
    yield from (("tag", tag) for tag in job.tags)
    yield from _leaves("payload", payload_of(job.payload), DEEP)


def _leaves(name: str, value: object, deep: int) -> Iterator[tuple[str, str]]:
    """Yield the values of a payload by path, as selectors spell it; secrets are left out."""
    if isinstance(value, dict):
        if deep:
            for key, inner in cast("dict[str, object]", value).items():
                yield from _leaves(f"{name}.{key}", inner, deep - 1)
    elif not isinstance(value, list):
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) <= LONG and MASK not in text and name != "payload":
            yield name, text
