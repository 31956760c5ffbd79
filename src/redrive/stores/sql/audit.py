"""What `verify` finds in the rows of both dialects: broken rules, and values that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from redrive.errors import StoreDamaged
from redrive.jobs.job import Job
from redrive.jobs.transitions import is_suspect
from redrive.stores.counting import counts_from_json
from redrive.stores.group_codec import group_from
from redrive.stores.record_codec import at_of, category_of
from redrive.stores.report import Problem
from redrive.stores.sql.rows import UNREADABLE, action_from_row, attempt_from_json
from redrive.stores.sql.tx import Row, Tx

Found = Iterator[tuple[str, str]]
"""Where something is wrong, and what."""

_MOST = 1000  # rows that are read at once, and problems of one kind that are named
_REPORT = "export the jobs and import them into a new store; please report it"


def problems(
    tx: Tx, place: str, rules: Mapping[str, str], job_of: Callable[[Row], Job], remedy: str
) -> Iterator[Problem]:
    """Return the rows that contradict each other, then what cannot be read, some rows at a time.

    `rules` are queries that find nothing in a sound store, and what is wrong with a job they find.
    """
    for query, what in rules.items():
        for (job,) in tx.all(query):
            yield Problem(f"{place}: job {job}", what, _REPORT)
    for found in (_jobs(tx, job_of), _attempts(tx), _actions(tx), _ticks(tx), _groups(tx)):
        for where, what in islice(found, _MOST):
            yield Problem(f"{place}: {where}", what, remedy)


def _jobs(tx: Tx, job_of: Callable[[Row], Job]) -> Found:
    last = 0
    while rows := tx.all("checked", (last, _MOST)):
        for suspect, category, at, action, *row in rows:
            last = row[0]
            try:
                job = job_of(tuple(row))
            except StoreDamaged as error:
                yield f"job {row[1]}", str(error).partition(";")[0].removeprefix(f"job {row[1]} ")
                continue
            filed = (is_suspect(job), category_of(job), at_of(job), (None, *job.actions)[-1])
            if (suspect, category, at, action) != filed:
                yield f"job {row[1]}", "is filed under a wrong time or among the wrong jobs"


def _attempts(tx: Tx) -> Found:
    last = (0, 0)
    while rows := tx.all("records", (*last, _MOST)):
        for job, number, ordinal, record in rows:
            last = (number, ordinal)
            if not _reads(attempt_from_json, record):
                yield f"job {job}", f"has an attempt {ordinal} that cannot be read"


def _actions(tx: Tx) -> Found:
    before = 2**62
    while rows := tx.all("acts", (before, _MOST)):
        for row in rows:
            before = row[0]
            if not _reads(action_from_row, row):
                yield f"action A{before}", "has a detail that cannot be read"


def _ticks(tx: Tx) -> Found:
    for at, text in tx.all("ticks"):
        if not _reads(counts_from_json, text):
            yield f"the counts of {at:.0f}", "cannot be read"


def _groups(tx: Tx) -> Found:
    for number, *_, seen, people in tx.all("all_groups"):
        if not _reads(group_from, {"number": number, "fingerprint": ""}, seen, people):
            yield f"group G{number}", "has a record that cannot be read"


def _reads(read: Callable[..., object], *values: object) -> bool:
    try:
        read(*values)
    except (StoreDamaged, *UNREADABLE):
        return False
    return True
