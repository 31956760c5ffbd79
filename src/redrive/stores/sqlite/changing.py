"""Changing jobs: one composed UPDATE for all that change alike.

The changes come from `jobs.transitions`; the statement writes the columns that they name or that follow
from them. Nobody else writes in the transaction that read a job. A claim was read in an earlier one: its
fence is part of the statement that ends it, or `standing` checks it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from redrive.jobs.job import Job, State
from redrive.jobs.records import evolve
from redrive.jobs.transitions import Changed
from redrive.stores.record_codec import more_of
from redrive.stores.sql.tx import Args
from redrive.stores.sqlite.rows import FILE, ROW, Written, values_written, written
from redrive.stores.sqlite.tx import SqliteTx

_RUNNING = State.RUNNING  # a class of enums looks every name up in Python


def standing(tx: SqliteTx, jobs: Sequence[Job], file: str) -> list[Job | None]:
    """Return claimed jobs, each with its number; None for one whose fence does not stand.

    It stands while the job runs with the lease, the holder and the time of the claim that it had.
    """
    held = _numbered(tx, jobs, file)
    fences: dict[tuple[object, ...], set[int]] = {}
    for job in held:
        if job is not None:
            fences.setdefault(_fence(job), set()).add(job.__dict__[ROW])
    stored: set[tuple[object, ...]] = set()
    for fence, numbers in fences.items():
        which, args = _which(tx, numbers)
        stored.update((n, *fence) for (n,) in tx.execute(_held(which), (*args, *fence)))
    return [job if job and (job.__dict__[ROW], *_fence(job)) in stored else None for job in held]


def _fence(job: Job) -> tuple[object, ...]:
    return job.lease, job.holder, job.updated


def is_held_here(job: Job, file: str) -> bool:
    """Return True if a job was claimed through this store, and runs as far as it says."""
    return job.__dict__.get(FILE) == file and job.state is _RUNNING


def _numbered(tx: SqliteTx, jobs: Sequence[Job], file: str) -> list[Job | None]:
    """Return jobs, each with its number, which those claimed here have; None if it is not stored."""
    others = [job.id for job in jobs if job.__dict__.get(FILE) != file]
    if not others:
        return list(jobs)
    numbers: dict[str, int] = dict(tx.all("numbers", (tx.array(others),)))
    return [
        job
        if job.__dict__.get(FILE) == file
        else evolve(job, **{ROW: numbers[job.id], FILE: file})
        if job.id in numbers
        else None
        for job in jobs
    ]


class FenceFell(Exception):
    """Some claims are no longer held; nothing is to be written. It never leaves the store."""


def write_changes(tx: SqliteTx, changes: Collection[Changed], *, fenced: bool = False) -> None:
    """Write changes of jobs, each of which carries its number.

    FenceFell if `fenced` and one of them is no longer as it was claimed, or is given twice.
    """
    plans: dict[int, Written] = {}
    alike: dict[tuple[Any, ...], list[Changed]] = {}
    for change in changes:
        was, new, job = change
        plan = plans.get(id(new))
        if plan is None:
            plan = plans[id(new)] = written(change)
        more = more_of(job) if plan.derives else None
        key = (id(new), more, was.lease, was.holder, was.updated) if fenced else (id(new), more)
        alike.setdefault(key, []).append(change)
    statements: dict[str, list[Args]] = {}
    for key, some in alike.items():
        plan = plans[key[0]]
        which, args = _which(tx, [change.was.__dict__[ROW] for change in some])
        values = values_written(some[0], plan, key[1])
        nulls = tuple([value is None for value in values])
        text = _update(plan.columns, nulls, which, _FENCE if fenced else "")
        bound = [value for value in values if value is not None]
        statements.setdefault(text, []).append((*bound, *args, *key[2:]))
    count = 0
    for text, rows in statements.items():
        count += tx.execute_all(text, rows)
    if fenced and count != len(changes):
        raise FenceFell


def _which(tx: SqliteTx, numbers: Collection[int]) -> tuple[str, tuple[object, ...]]:
    """Return a condition for some numbers; the same one twice counts once, so two ends of a claim fall.

    SQLite goes through a range in one sweep; for others it makes a table of them first.
    """
    first, last = min(numbers), max(numbers)
    if first == last:
        return "= ?", (first,)
    if last - first == len({*numbers}) - 1:
        return "BETWEEN ? AND ?", (first, last)
    return "IN (SELECT value FROM json_each(?))", (tx.array(numbers),)


# The plus keeps SQLite from going through all jobs that run.
_FENCE = "AND +state = 'running' AND lease = ? AND holder IS ? AND updated = ?"


@cache
def _held(which: str) -> str:
    return f"SELECT n FROM jobs WHERE n {which} {_FENCE}"  # noqa: S608


@cache
def _update(columns: tuple[str, ...], nulls: tuple[bool, ...], which: str, fence: str) -> str:
    """Compose the statement; to bind a null takes Python ten times as long as another value."""
    sets = zip(columns, nulls, strict=True)
    changed = ", ".join(f"{name} = {'NULL' if is_null else '?'}" for name, is_null in sets)
    return f"UPDATE jobs SET {changed} WHERE n {which} {fence}"  # noqa: S608


def mark(job: Job, file: str) -> Job:
    """Let a claimed job, which nobody else has yet, say whose number it carries."""
    job.__dict__[FILE] = file
    return job
