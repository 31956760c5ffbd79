"""First attempts that go well: nearly all there are, so they have a shorter way through the file.

A job that nothing has happened to yet is read by few columns and made in its claimed form at once.
It carries the number of its row, so its good end needs no look at the row before it is written: the
statement itself checks the fence and says how many it wrote. Everything else goes the general way,
and so does a batch in which a fence turns out to have fallen. What claiming and ending change is
still said by `jobs.transitions` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from redrive.jobs.job import Claim, Completed, Job, Settlement
from redrive.jobs.records import BLANK, job_of
from redrive.jobs.transitions import claimed, end_changes
from redrive.stores._codec import attempt_to_json
from redrive.stores.sql.rows import texts
from redrive.stores.sql.settle import settle
from redrive.stores.sql.tx import Row
from redrive.stores.sqlite.tx import SqliteTx

_ROW, _FILE = "_row", "_file"
"""What a job carries beside its fields: its number, and whose number that is."""


_OF_ONE_KIND = 11
"""How many columns `as_submitted` has; lane and handler may follow."""


_AT_ONCE = 75
"""How many values `insert_attempts` takes: three a row."""


class Due(NamedTuple):
    """What is due, as if it waited for its first attempt: rows of `as_submitted`."""

    rows: list[Row]
    lane: str = ""
    """Of all of them, where lane and handler are not in the rows."""
    handler: str = ""


class Fallen(Exception):
    """A fence does not stand; nothing is written, and the general way finds out whose.

    No error: it never leaves the store.
    """


def lease(tx: SqliteTx, due: Due, holder: str, lease_for: float, name: str) -> list[Claim]:
    """Claim jobs that wait for their first attempt.

    One of UNREADABLE, and nothing is written, if one of them is something else.
    """
    if not due.rows:
        return []
    now = tx.now()
    boot, seconds = tx.lease_clock()
    end = seconds + lease_for
    blank = claimed(BLANK, holder=holder, now=now, lease_end=end, boot=boot)
    alike: dict[str, object] = {
        **blank.__dict__,
        "lane": due.lane,
        "handler": due.handler,
        _ROW: 0,
        _FILE: name,
    }
    claims = list(map(Claim, _jobs(due.rows, alike)))
    numbers = [row[0] for row in due.rows]
    which = _range(numbers)
    if which:
        tx.run("claim_range", (holder, end, boot, now, *which))
    else:
        tx.run("claim", (holder, end, boot, now, tx.array(numbers)))
    return claims


def _range(numbers: list[int]) -> tuple[int, ...]:
    """Give the first and the last of numbers that follow one another, else nothing.

    SQLite goes through a range in one sweep; for others it makes a table of them first.
    """
    start, stop = numbers[0], numbers[0] + len(numbers)
    return (start, stop - 1) if numbers == list(range(start, stop)) else ()


def _jobs(rows: Iterable[Row], alike: dict[str, object]) -> Iterable[Job]:
    """Give the jobs of rows that have all the rest in common."""
    copy = alike.copy
    for row in rows:
        fields = copy()
        fields[_ROW] = row[0]
        fields["id"] = row[1]
        fields["key"] = row[2]
        fields["created"] = row[3]
        fields["due"] = fields["since"] = row[4]
        fields["own_max_attempts"] = row[5]
        fields["max_attempts"] = row[6]
        if row[7] is not None:
            fields["tags"] = texts(row[7])
        fields["release"] = row[8]
        fields["payload"] = row[9]
        if row[10] is not None:
            msg = "something happened to it before"
            raise ValueError(msg)
        if len(row) > _OF_ONE_KIND:
            fields["lane"], fields["handler"] = row[11:]
        yield job_of(fields)


def end(tx: SqliteTx, results: Sequence[Settlement], name: str) -> list[Job | None]:
    """End claims, in one go those whose first attempt went well; Fallen if a fence does not stand."""
    good = _GoodEnds(name, tx.now())
    answers = [good.take(result) for result in results]
    others = [place for place, answer in enumerate(answers) if answer is None]
    # One claim given twice is ended by the first, of whatever kind: only the general way sees to that.
    if others and len({result.claim.job.id for result in results}) < len(results):
        return settle(tx, results)
    good.write(tx)
    if not others:
        return answers
    for place, answer in zip(others, settle(tx, [results[one] for one in others]), strict=True):
        answers[place] = answer
    return answers


class _GoodEnds:
    """The good ends of first attempts, so that those which are alike are written in one go."""

    def __init__(self, name: str, now: float) -> None:
        self._name = name
        self._now = now
        self._alike: dict[Row, tuple[dict[str, object], list[int]]] = {}
        self._attempts: list[int | str] = []
        """The columns of one row after those of the other."""
        self._how: Row = ()
        """How the last one ended; its `_changes` and the `_numbers` of those alike go with it."""

    def take(self, result: Settlement) -> Job | None:
        """Give the job as it ends; None if this is something else."""
        job, verdict, attempt = result.claim.job, result.verdict, result.attempt
        fields = job.__dict__
        if (
            attempt is None
            or attempt.failure is not None
            or type(verdict) is not Completed
            or fields.get(_FILE) != self._name
            or job.failure is not None
        ):
            return None
        limit = result.max_attempts or job.max_attempts
        reason, detail = verdict.reason._value_, verdict.detail
        how = (reason, detail, limit, job.lease, job.holder, job.updated)
        if how != self._how:
            if how not in self._alike:
                self._alike[how] = (
                    end_changes(job, verdict, None, now=self._now, group=None, max_attempts=limit),
                    [],
                )
            self._how, (self._changes, self._numbers) = how, self._alike[how]
        number = fields[_ROW]
        self._numbers.append(number)
        self._attempts += number, attempt.ordinal, attempt_to_json(attempt)
        return job_of(fields | self._changes)

    def write(self, tx: SqliteTx) -> None:
        """Write them; Fallen if a fence does not stand."""
        for (reason, detail, limit, *fence), (_, numbers) in self._alike.items():
            numbers.sort()
            which = _range(numbers)
            name = "complete_range" if which else "complete_some"
            args = (self._now, reason, detail, limit, *fence, *(which or [tx.array(numbers)]))
            if not tx.changed(name, args, len(numbers)):
                raise Fallen
        rows, whole = self._attempts, len(self._attempts) // _AT_ONCE * _AT_ONCE
        for place in range(0, whole, _AT_ONCE):
            tx.run("insert_attempts", rows[place : place + _AT_ONCE])
        tx.many("insert_attempt", [rows[one : one + 3] for one in range(whole, len(rows), 3)])
