"""Counts over time: what counts, what waits, and what a group's record makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kit import START, make_attempt, make_failure, make_job
from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import (
    Claim,
    Completed,
    Dead,
    Job,
    Reason,
    Return,
    Settlement,
    Verdict,
)
from redrive.jobs.transitions import claim_all, settle_all
from redrive.stores.counting import (
    Backlog,
    Counts,
    counts_of,
)

HOUR, DAY = 3600.0, 86400.0
NOON = START - START % DAY + DAY / 2
GOOD, BAD = Completed(Reason.DONE), Dead(Reason.EXHAUSTED)


def ends(*verdicts: tuple[str, Verdict, bool], spent: Mapping[str, int] | None = None) -> Counts:
    """Count the ends of jobs: lane, verdict, whether the attempt failed."""
    jobs = [make_job(lane=lane, spent=spent or {}, release="r1") for lane, _, _ in verdicts]
    leased = claim_all(jobs, holder="w", now=START, lease_end=9.0)
    results: list[tuple[Job, Settlement]] = []
    for (_, _, job), (_, verdict, failed) in zip(leased, verdicts, strict=True):
        failure = make_failure() if failed else None
        attempt = None if isinstance(verdict, Return) else make_attempt(job, failure, release="r2")
        results.append((job, Settlement(Claim(job), verdict, attempt)))
    changes = settle_all(results, now=START + 1, place=lambda _: 7)
    return counts_of(zip((result for _, result in results), changes, strict=True))


def record(number: int = 7, **fields: object) -> GroupRecord:
    return replace(GroupRecord(number=number, fingerprint="f"), **fields)


def test_what_was_not_committed_is_neither_lost_nor_counted_twice() -> None:
    backlog = Backlog()
    good = ends(("mail", GOOD, False))
    backlog.close(backlog.share(good, START), committed=True)
    failed = backlog.share(good, START + 0.1)  # the caller settles these again
    backlog.close(failed, committed=False)
    assert backlog.waiting() == []
    backlog.close(backlog.share(good, START + 0.2), committed=True)
    failed = backlog.share(good, START + 5)
    assert len(failed.write) == 2
    backlog.close(failed, committed=False)
    assert [one.counts for one in backlog.waiting()] == [good]
    rest = backlog.rest()
    assert [one.counts for one in rest.write] == [good]
    backlog.close(rest, committed=False)
    assert [one.counts for one in backlog.rest().write] == [good]
