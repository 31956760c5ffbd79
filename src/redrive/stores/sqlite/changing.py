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
from redrive.stores.sqlite.rows import FILE, ROW, columns_written, values_written
from redrive.stores.sqlite.tx import SqliteTx


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
    return job.__dict__.get(FILE) == file and job.state is State.RUNNING


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
    alike: dict[int, list[Changed]] = {}
    for change in changes:
        alike.setdefault(id(change.changes), []).append(change)
    statements: dict[str, list[Args]] = {}
    for some in alike.values():
        written = columns_written(some[0])
        for (more, *fence), few in _groups(some, written, fenced=fenced).items():
            which, args = _which(tx, [change.was.__dict__[ROW] for change in few])
            text = _update(written, which, fenced=fenced)
            values = values_written(few[0], written, more)
            statements.setdefault(text, []).append((*values, *args, *fence))
    count = sum(tx.execute_all(text, rows) for text, rows in statements.items())
    if fenced and count != len(changes):
        raise FenceFell


def _groups(
    alike: list[Changed], written: tuple[str, ...], *, fenced: bool
) -> dict[tuple[Any, ...], list[Changed]]:
    """Return jobs with the same changes by what they have in `more` after them, and their fence."""
    writes_more = "more" in written
    found: dict[tuple[Any, ...], list[Changed]] = {}
    for change in alike:
        more = more_of(change.job) if writes_more else None
        key = (more, *_fence(change.was)) if fenced else (more,)
        found.setdefault(key, []).append(change)
    return found


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
def _update(columns: tuple[str, ...], which: str, *, fenced: bool) -> str:
    changed = ", ".join(f"{name} = ?" for name in columns)
    return f"UPDATE jobs SET {changed} WHERE n {which} {_FENCE if fenced else ''}"  # noqa: S608


def mark(job: Job, file: str) -> Job:
    """Let a claimed job, which nobody else has yet, say whose number it carries."""
    job.__dict__[FILE] = file
    return job
