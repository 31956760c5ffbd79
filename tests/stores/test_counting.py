"""Counts over time: what counts, what waits, and what a group's record makes of it (F117)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kit import START, make_attempt, make_failure, make_job
from redrive.jobs.groups import GroupRecord, LaneCount
from redrive.jobs.job import (
    Claim,
    Completed,
    Dead,
    Job,
    Reason,
    Retry,
    Return,
    Settlement,
    State,
    Verdict,
)
from redrive.jobs.transitions import claim_all, settle_all
from redrive.stores import counting
from redrive.stores.counting import (
    Backlog,
    Counts,
    GroupCount,
    Tick,
    added,
    counts_added,
    counts_from_json,
    counts_of,
    counts_to_json,
    folded,
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


def died(at: float, deaths: int = 1, group: int = 7, release: str | None = None) -> Tick:
    counts = Counts({"mail": LaneCount(deaths, 0, 0, deaths)}, {})
    return Tick(at, counts._replace(groups={group: GroupCount(deaths, release)}))


def test_a_batch_counts_attempts_successes_first_failures_and_deaths() -> None:
    counts = ends(
        ("mail", GOOD, False),
        ("mail", GOOD, False),
        ("mail", Retry(5), True),
        ("mail", BAD, True),
        ("news", BAD, True),
    )
    assert counts.lanes == {"mail": LaneCount(4, 2, 2, 1), "news": LaneCount(1, 0, 1, 1)}
    assert counts.groups == {7: GroupCount(2, "r2")}


def test_a_second_failure_of_a_life_is_no_first_one_and_a_returned_claim_counts_nothing() -> None:
    assert ends(("mail", Retry(5), True), spent={"quota": 1}).lanes == {"mail": LaneCount(1)}
    assert ends(("mail", Return(), False)) == Counts({}, {})


def test_an_added_job_counts_if_it_has_just_died_and_was_not_imported() -> None:
    job = make_job("a", group=7, release="r1")
    dead = replace(job, state=State.DEAD, reason=Reason.CAPTURED, died_at=START, finished=START)
    assert counts_added([dead, job], START + 1).groups == {7: GroupCount(1, "r1")}
    assert counts_added([dead], START + HOUR) == Counts({}, {})
    assert counts_added([replace(dead, origin={"format": "sync"})], START) == Counts({}, {})


def test_counts_are_written_and_read_back() -> None:
    counts = Counts({'a "b"\n': LaneCount(4, 2, 1, 1)}, {7: GroupCount(1, None)})
    assert counts_from_json(counts_to_json(counts)) == counts
    assert added(counts, counts).groups[7] == GroupCount(2, None)
    for text in ("{}", "[]", '{"lanes":{"a":[1,2,3,4,5]},"groups":{}}', '{"lanes":0,"groups":{}}'):
        with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
            counts_from_json(text)


def test_deaths_are_written_at_once_with_all_that_waits() -> None:
    backlog = Backlog()
    good, bad = ends(("mail", GOOD, False)), ends(("mail", BAD, True))
    first = backlog.share(good, START)
    assert first.write == [Tick(START, good)]
    backlog.close(first, committed=True)
    second = backlog.share(good, START + 0.5)
    assert second.write == []
    backlog.close(second, committed=True)
    (waits,) = backlog.waiting()
    assert waits.counts == good
    third = backlog.share(bad, START + 0.6)
    assert [one.counts for one in third.write] == [good, bad]
    backlog.close(third, committed=True)
    assert backlog.waiting() == []


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


def test_what_waits_counts_for_the_minute_it_happened_in() -> None:
    backlog = Backlog()
    good = ends(("mail", GOOD, False))
    backlog.close(backlog.share(Counts({}, {}), NOON), committed=True)
    backlog.close(backlog.share(good, NOON + 0.9), committed=True)
    late = backlog.share(good, NOON + 300)
    assert [one.at for one in late.write] == [NOON, NOON + 300]


def test_ticks_add_up_to_minutes_and_hours() -> None:
    ticks = [died(NOON + 10), died(NOON + 50, 2), died(NOON + 61), died(NOON + HOUR)]
    result = folded({7: record()}, ticks, NOON + 2 * HOUR)
    start = int(NOON)
    assert result.groups == {
        (60, start, 7): 3,
        (60, start + 60, 7): 1,
        (60, start + 3600, 7): 1,
        (3600, start, 7): 4,
        (3600, start + 3600, 7): 1,
    }
    assert result.lanes[3600, start, "mail"] == LaneCount(4, 0, 0, 4)
    assert (result.records[7].deaths, result.records[7].last_seen) == (5, NOON + HOUR)


def test_a_clock_that_was_ahead_counts_as_now() -> None:
    result = folded({7: record()}, [died(NOON + DAY)], NOON)
    assert result.records[7].last_seen == NOON
    assert set(result.groups) == {(60, int(NOON), 7), (3600, int(NOON), 7)}


def test_an_incident_begins_with_the_first_death_in_a_day() -> None:
    ticks = [died(NOON), died(NOON + DAY), died(NOON + 2 * DAY + 1), died(NOON + 2 * DAY + 2)]
    one = folded({7: record()}, ticks[:2], NOON + 9 * DAY).records[7]
    assert (one.since, one.status) == (NOON, "open")
    two = folded({7: one}, ticks[2:], NOON + 9 * DAY).records[7]
    assert two.since == NOON + 2 * DAY + 1


def test_a_group_regresses_with_the_first_death_after_it_was_resolved() -> None:
    resolved = record(resolved=NOON, since=NOON - 60, last_seen=NOON - 1, deaths=4)
    before = folded({7: resolved}, [died(NOON - 1)], NOON + 9).records[7]
    assert (before.status, before.since) == ("resolved", NOON - 60)
    after = folded({7: before}, [died(NOON + 5), died(NOON + 7)], NOON + 9).records[7]
    assert (after.status, after.regressed, after.since) == ("regressed", NOON + 5, NOON + 5)
    again = replace(after, resolved=NOON + 60)
    assert again.status == "resolved"
    later = folded({7: again}, [died(NOON + 90)], NOON + 99).records[7]
    assert (later.status, later.regressed) == ("regressed", NOON + 90)


def test_folding_changes_nothing_that_people_wrote() -> None:
    noted = record(version=3, owner="ada", note="see #4", resolved=NOON)
    after = folded({7: noted}, [died(NOON + 1)], NOON + 2).records[7]
    assert (after.version, after.owner, after.note, after.resolved) == (3, "ada", "see #4", NOON)


def test_a_group_keeps_its_first_and_its_last_known_release() -> None:
    ticks = [died(NOON + 1, release="r1"), died(NOON + 2, release="r2"), died(NOON + 3)]
    after = folded({7: record()}, ticks, NOON + 9).records[7]
    assert (after.first_release, after.last_release) == ("r1", "r2")


def test_a_bucket_has_a_bound_and_what_is_beyond_counts_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counting, "MOST_GROUPS", 2)
    ticks = [died(NOON, group=one) for one in (1, 2, 3, 4)]
    start = int(NOON)
    known = {(60, start): {9}}
    groups = folded({}, ticks, NOON, groups=known).groups
    assert groups[60, start, counting.OTHER_GROUP] == 3
    assert groups[60, start, 1] == 1
    assert groups[3600, start, counting.OTHER_GROUP] == 2
