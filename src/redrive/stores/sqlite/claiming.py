"""Claiming in SQLite: which of the pending jobs are due first, over all kinds that are wanted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from redrive.jobs.job import Claim, Job
from redrive.jobs.transitions import claim_all
from redrive.stores.contract import ALONE
from redrive.stores.note_verbs import PAUSE
from redrive.stores.sql.tx import Row
from redrive.stores.sqlite.changing import mark, write_changes
from redrive.stores.sqlite.rows import readable
from redrive.stores.sqlite.tx import SqliteTx


class Wanted(NamedTuple):
    """Which pending jobs a claim may take."""

    handlers: Collection[str]
    lanes: Collection[str] | None
    past_pauses: bool
    only: Collection[str] | None
    suspects: bool
    latest: float
    """The last due time that counts."""
    limit: int

    @property
    def one_by_one(self) -> bool:
        """Return True if another suspect that runs is waited for."""
        return self.suspects and self.only is None and self.latest != math.inf

    def allows(self, lane: str, handler: str) -> bool:
        """Return True if jobs of this lane and handler may be claimed."""
        return handler in self.handlers and (self.lanes is None or lane in self.lanes)

    def args(self, now: float) -> tuple[object, ...]:
        """Return what `due_kinds` and `pending_of` end with."""
        return int(self.suspects), self.latest, None if self.past_pauses else PAUSE, now


def claim(tx: SqliteTx, wanted: Wanted, holder: str, lease_for: float, file: str) -> list[Claim]:
    """Lease what is wanted; `file` names the store whose numbers the jobs carry."""
    if wanted.one_by_one and tx.one("suspect_runs", (tx.now(), ALONE)):
        return []
    end = tx.now() + lease_for
    changes = claim_all(_sound(tx, wanted), holder=holder, now=tx.now(), lease_end=end)
    write_changes(tx, changes)
    return [Claim(mark(job, file)) for _, _, job in changes]


def _sound(tx: SqliteTx, wanted: Wanted) -> list[Job]:
    """Return the jobs to be claimed; one that cannot be read does not stop the others."""
    limit = wanted.limit
    while True:
        rows = _due(tx, wanted)
        jobs = readable(rows)
        if len(jobs) >= limit or len(rows) < wanted.limit:
            return jobs[:limit]
        wanted = wanted._replace(limit=limit + len(rows) - len(jobs))


def _due(tx: SqliteTx, wanted: Wanted) -> list[Row]:
    """Return the whole rows of the jobs to be claimed, earliest due first."""
    if wanted.only is not None:
        best = _first_of(tx, wanted, wanted.only)
    else:
        kinds = _kinds(tx, wanted)
        if len(kinds) == 1:
            return tx.all("rows_of_kind", _kind_args(wanted, kinds[0][1:], wanted.latest))
        best = _first(tx, wanted, kinds)
    return tx.all("by_numbers", (tx.array(number for _, number in best),))


_Kind = tuple[float, str, str, str]
"""When the first of its jobs is due, then lane, handler and category."""


def _kinds(tx: SqliteTx, wanted: Wanted) -> list[_Kind]:
    """Return the kinds of which something is due, the earliest first; one seek finds where each begins."""
    return sorted(
        (at, lane, handler, category)
        for lane, handler, category, at in tx.all("due_kinds", ("pending", *wanted.args(tx.now())))
        if wanted.allows(lane, handler)
    )


def _first(tx: SqliteTx, wanted: Wanted, kinds: Iterable[_Kind]) -> list[tuple[float, int]]:
    """Return time and number of the jobs that are due first, over all kinds that are wanted.

    Kinds are looked into by their first due time, and only up to the time that could still be among
    the first.
    """
    best: list[tuple[float, int]] = []
    latest = wanted.latest
    for at, *kind in kinds:
        if at > latest:
            break
        rows = tx.all("first_of_kind", _kind_args(wanted, kind, latest))
        best = sorted(best + rows)[: wanted.limit]
        if len(best) == wanted.limit:
            latest = best[-1][0]
    return best


def _kind_args(wanted: Wanted, kind: Sequence[str], latest: float) -> tuple[object, ...]:
    return ("pending", int(wanted.suspects), *kind, latest, wanted.limit)


def _first_of(tx: SqliteTx, wanted: Wanted, only: Collection[str]) -> list[tuple[float, int]]:
    """Return time and number of those of some jobs that are due first."""
    rows = tx.all("pending_of", (tx.array(only), *wanted.args(tx.now())))
    due = [(at, n) for at, n, lane, handler in rows if wanted.allows(lane, handler)]
    return sorted(due)[: wanted.limit]
