"""What an operation changes. Each kind is one kind of line in a journal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from redrive.jobs.groups import GroupRecord, LaneCount
from redrive.jobs.job import Action, Job
from redrive.stores.counting import Tick


class Put(NamedTuple):
    """A job as it is from now on, with its history."""

    job: Job


class Purged(NamedTuple):
    """Jobs that are gone."""

    ids: tuple[str, ...]


class Noted(NamedTuple):
    """A note as written; without a value it was removed."""

    name: str
    value: str | None
    version: int
    expires: float | None
    """Wall time."""


class Bucket(NamedTuple):
    """All counts of one span of time; an empty one is removed."""

    span: int
    start: int
    lanes: Mapping[str, LaneCount]
    groups: Mapping[int, int]


class Folded(NamedTuple):
    """All ticks before this are part of the buckets."""

    at: float


class Subscribed(NamedTuple):
    """The kinds of events that a subscription is for; without any it was removed, and its events."""

    name: str
    kinds: tuple[str, ...]


class Queued(NamedTuple):
    """An event that was put in the outbox for one subscription."""

    number: int
    subscription: str
    job: str
    kind: str
    at: float
    body: str


class Handed(NamedTuple):
    """Events as they wait from now on: leased to a holder, or put off."""

    numbers: tuple[int, ...]
    holder: str | None = None
    end: float | None = None
    due: float | None = None
    """None leaves it as it is; the same below."""
    attempts: int | None = None
    lost: int | None = None


class Delivered(NamedTuple):
    """Events that are gone."""

    numbers: tuple[int, ...]


Change = (
    Put
    | Purged
    | Noted
    | GroupRecord
    | Tick
    | Bucket
    | Folded
    | Subscribed
    | Queued
    | Handed
    | Delivered
    | Action
)
