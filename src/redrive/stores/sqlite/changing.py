"""Changing jobs: one composed UPDATE for all that change alike, with the fence in its WHERE.

The changes come from `jobs.transitions`; the statement writes the columns that they name or that follow
from them. It changes a job only while it is exactly
as the caller knew it: same state, lease, holder and time of its last change (for a running job, that of
its claim).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from redrive.jobs.job import Job
from redrive.jobs.transitions import Changed
from redrive.stores.record_codec import more_of
from redrive.stores.sqlite.rows import columns_changed, leaves_rest
from redrive.stores.sqlite.tx import SqliteTx

_ROW, _FILE = "_row", "_file"
"""What a claimed job carries beside its fields: its number, and whose number that is."""


class Fallen(Exception):
    """A fence does not stand; nothing is written, and whoever repeats it carefully finds out whose.

    No error: it never leaves the store.
    """


def write_changes(
    tx: SqliteTx, changes: Sequence[tuple[int, Changed]], *, careful: bool = False
) -> list[bool]:
    """Write changes of jobs, by number; returns for each whether its fence stood, and it is written.

    Unless `careful`, Fallen is raised where one did not: to name those that took costs a third more.
    """
    alike: dict[tuple[object, ...], tuple[str | None, list[int]]] = {}
    for place, (_, change) in enumerate(changes):
        was = change.was
        more = None if leaves_rest(change) else more_of(change.job)
        kind = (id(change.changes), was.state._value_, was.lease, was.holder, was.updated, more)
        found = alike.get(kind)
        if found is None:
            alike[kind] = (more, [place])
        else:
            found[1].append(place)
    taken = [not careful] * len(changes)
    for more, places in alike.values():
        _, change = changes[places[0]]
        rows = _write(tx, change, more, [changes[place][0] for place in places], careful=careful)
        if careful:
            for place in places:
                taken[place] = changes[place][0] in rows
    return taken


def _write(
    tx: SqliteTx, change: Changed, more: str | None, numbers: list[int], *, careful: bool
) -> set[int]:
    """Write one change of some jobs; returns the numbers of those whose fence stood, if careful."""
    columns = columns_changed(change, more)
    was = change.was
    which, args = _which(tx, numbers)
    fence = (was.state._value_, was.lease, was.holder, was.updated)
    text = _update(tuple(columns), which, careful=careful)
    values = (*columns.values(), *args, *fence)
    if careful:
        return {number for (number,) in tx.execute(text, values)}
    if tx.changed(text, values) != len(numbers):
        raise Fallen
    return set()


def _which(tx: SqliteTx, numbers: list[int]) -> tuple[str, tuple[object, ...]]:
    """Return a condition for some numbers. SQLite goes through a range in one sweep.

    For others it makes a table of them first.
    """
    if len(numbers) == 1:
        return "= ?", (numbers[0],)
    first = numbers[0]
    if numbers == list(range(first, first + len(numbers))):
        return "BETWEEN ? AND ?", (first, numbers[-1])
    return "IN (SELECT value FROM json_each(?))", (tx.array(numbers),)


@cache
def _update(columns: tuple[str, ...], which: str, *, careful: bool) -> str:
    """Compose the statement; the plus keeps SQLite from going through all jobs of the state."""
    return (
        f"UPDATE jobs SET {', '.join(f'{name} = ?' for name in columns)} WHERE n {which} "  # noqa: S608
        "AND +state = ? AND lease = ? AND holder IS ? AND updated = ?"
        f"{' RETURNING n' if careful else ''}"
    )


def numbers_of(tx: SqliteTx, jobs: Iterable[Job], file: str) -> dict[str, int]:
    """Return the numbers of jobs by id, of those that are stored; claimed ones carry them."""
    found: dict[str, int] = {}
    others: list[str] = []
    for job in jobs:
        fields = job.__dict__
        if fields.get(_FILE) == file:
            found[job.id] = fields[_ROW]
        else:
            others.append(job.id)
    if others:
        found.update(tx.all("numbers", (tx.array(others),)))
    return found


def mark(job: Job, number: int, file: str) -> Job:
    """Let a claimed job, which nobody else has yet, carry its number in this file."""
    job.__dict__[_ROW], job.__dict__[_FILE] = number, file
    return job
