"""How each verb changes a job's record, and that nothing else can be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import START, make_attempt, make_failure, make_job
from redrive.errors import Refused, UsageError
from redrive.jobs.job import (
    TERMINAL,
    TRANSITIONS,
    Claim,
    Completed,
    Dead,
    Job,
    Reason,
    Resolution,
    Retry,
    Return,
    Settlement,
    State,
)
from redrive.jobs.reports import events_of
from redrive.jobs.transitions import (
    KEEP_FIRST,
    KEEP_LAST,
    Verb,
    action_changes,
    amended,
    changed,
    claim_all,
    claimed,
    is_suspect,
    seized,
    settle_all,
    settled,
    with_action,
    with_attempt,
)
from tablekit import each_row

NOW = START + 1000.0


def job_in(state: State) -> Job:
    """A job as it is when it got to this state the usual way."""
    job = make_job("j", attempts=2, lease=2, max_attempts=5)
    match state:
        case State.RUNNING:
            return replace(job, state=state, attempts=3, lease=3, holder="w", lease_end=50.0)
        case State.DEAD:
            return replace(job, state=state, reason=Reason.EXHAUSTED, finished=START + 5)
        case State.COMPLETED:
            return replace(job, state=state, reason=Reason.DONE, finished=START + 5)
        case State.RESOLVED:
            closed = Resolution(actor="bob", reason="old", at=START + 5, was=Reason.EXPIRED)
            return replace(
                job, state=state, reason=Reason.RESOLVED, finished=START + 5, resolution=closed
            )
        case State.PENDING:
            return job


def move(job: Job, verb: Verb, delay: float = 0.0) -> Job:
    return changed(
        job, action_changes(job, verb, actor="ada", reason="fixed it", now=NOW, delay=delay)
    ).job


VERBS: dict[str, Callable[[Job], Job]] = {
    "claim": lambda job: claimed(job, holder="x", now=NOW, lease_end=9.0),
    "done": lambda job: settled(job, Completed(Reason.DONE), None, now=NOW, group=None),
    "retry later": lambda job: settled(job, Retry(5), make_failure(), now=NOW, group=1),
    "give back": lambda job: settled(job, Return(), None, now=NOW, group=None),
    "die": lambda job: settled(job, Dead(Reason.EXHAUSTED), make_failure(), now=NOW, group=1),
    "retry": lambda job: move(job, "retry"),
    "resolve": lambda job: move(job, "resolve"),
    "discard": lambda job: move(job, "discard"),
    "reopen": lambda job: move(job, "reopen"),
    "enlist": lambda job: (
        changed(job, action_changes(job, "enlist", actor="ada", reason="", now=NOW, run=-4)).job
    ),
}

P, R, C, D, X = State.PENDING, State.RUNNING, State.COMPLETED, State.DEAD, State.RESOLVED


def test_the_transitions_are_these_and_no_others() -> None:
    """Written out again here, so that a change needs two hands."""
    assert dict(TRANSITIONS) == {P: {R, D, X}, R: {C, P, D, X}, D: {P, X}, X: {P, D}, C: set()}
    assert {C, D, X} == TERMINAL


# Each verb, from each state: where it leads, or None where it is refused. Settling is done by the
# store only for a running job; dying may also befall a pending one (no handler at its greatest age).
TABLE: dict[str, dict[State, State | None]] = {
    "claim": {P: R, R: None, C: None, D: None, X: None},
    "done": {P: None, R: C, C: None, D: None, X: None},
    "retry later": {R: P, C: None},
    "give back": {R: P, C: None},
    "die": {P: D, R: D, C: None, D: None},
    "retry": {P: P, R: None, C: None, D: P, X: P},
    "resolve": {P: X, R: X, C: None, D: X, X: None},
    "discard": {P: X, R: X, C: None, D: X, X: None},
    "reopen": {P: None, R: None, C: None, D: None, X: D},
    "enlist": {P: P, R: None, C: None, D: D, X: X},
}


@each_row("verb, before", [(verb, before) for verb, row in TABLE.items() for before in row])
def test_each_verb_leads_where_the_table_says_or_is_refused(verb: str, before: State) -> None:
    expected = TABLE[verb][before]
    if expected is None:
        with pytest.raises(Refused, match=before.value):
            VERBS[verb](job_in(before))
    else:
        assert VERBS[verb](job_in(before)).state is expected


@each_row("verb, before", list(product(VERBS, State)))
def test_no_verb_writes_a_change_that_the_transitions_lack(verb: str, before: State) -> None:
    job = job_in(before)
    try:
        after = VERBS[verb](job)
    except Refused as refused:
        assert str(refused)  # noqa: PT017 - which verbs are refused is the other test
    else:
        assert after.state is before or after.state in TRANSITIONS[before]
        assert (after.id, after.payload, after.created) == (job.id, job.payload, job.created)
        assert after.lease >= job.lease


def test_every_transition_is_reached_by_some_verb() -> None:
    reached = {(before, row[before]) for row in TABLE.values() for before in row if row[before]}
    assert {(a, b) for a in State for b in TRANSITIONS[a]} <= reached


def test_a_claim_counts_the_attempt_and_the_lease_before_the_handler_starts() -> None:
    job = claimed(job_in(P), holder="w", now=NOW, lease_end=77.0)
    assert (job.attempts, job.lease, job.holder) == (3, 3, "w")
    assert (job.lease_end, job.updated) == (77.0, NOW)


def test_a_seizure_raises_the_lease_and_counts_nothing() -> None:
    before = job_in(R)
    after = seized(before, by="sweeper", lease_end=99.0)
    assert after == replace(before, lease=4, holder="sweeper", lease_end=99.0)


def test_settling_lets_the_lease_go_but_never_its_number() -> None:
    for verdict in (Completed(Reason.DONE), Dead(Reason.CRASH), Retry(1), Return()):
        job = settled(job_in(R), verdict, None, now=NOW, group=None)
        assert (job.lease, job.holder, job.lease_end) == (3, None, None)
        assert job.updated == NOW


def test_a_retry_is_due_after_its_delay_and_keeps_the_attempts() -> None:
    job = settled(job_in(R), Retry(30, "asked"), make_failure(), now=NOW, group=4, max_attempts=7)
    assert (job.due, job.detail, job.attempts, job.max_attempts) == (NOW + 30, "asked", 3, 7)
    assert (job.reason, job.finished, job.group) == (None, None, 4)


def test_a_released_claim_gets_its_attempt_back_and_keeps_its_due_time() -> None:
    before = job_in(R)
    job = settled(before, Return(), None, now=NOW, group=None)
    assert (job.attempts, job.due, dict(job.spent)) == (2, before.due, {})
    assert settled(before, Return(delay=8), None, now=NOW, group=None).due == NOW + 8
    assert settled(before, Return(delay=0), None, now=NOW, group=None).due == NOW


def test_an_end_has_a_reason_words_and_a_time() -> None:
    for verdict in (Completed(Reason.SKIPPED, "old"), Dead(Reason.EXPIRED, "old")):
        job = settled(job_in(R), verdict, None, now=NOW, group=None)
        assert (job.reason, job.detail, job.finished) == (verdict.reason, "old", NOW)


def test_failures_are_counted_by_category_and_crashes_apart() -> None:
    job = job_in(R)
    for category in ("transient", "transient", "quota", "crash"):
        job = settled(job, Retry(0), make_failure(category), now=NOW, group=1)
        job = claimed(job, holder="w", now=NOW, lease_end=1.0)
    assert dict(job.spent) == {"transient": 2, "quota": 1, "crash": 1}
    assert job.crashes == 1


def test_the_first_failure_time_is_never_rewritten() -> None:
    """Not by a later failure, not by a fresh life."""
    job = settled(job_in(R), Retry(0), make_failure(), now=NOW, group=1)
    assert job.first_failed == NOW
    job = claimed(job, holder="w", now=NOW + 5, lease_end=1.0)
    job = settled(job, Dead(Reason.EXHAUSTED), make_failure(), now=NOW + 9, group=1)
    assert move(job, "retry").first_failed == NOW


def test_the_job_keeps_its_last_failure_without_the_traceback() -> None:
    failure = make_failure("quota", traceback="Traceback …")
    job = settled(job_in(R), Retry(0), failure, now=NOW, group=1)
    assert job.failure == replace(failure, traceback="")


@each_row("before", [D, X])
def test_a_retry_by_a_person_starts_a_fresh_life(before: State) -> None:
    job = replace(
        job_in(before), spent={"transient": 2}, crashes=2, redrives=1, failure=make_failure()
    )
    after = move(job, "retry", delay=60)
    assert (after.attempts, dict(after.spent), after.crashes) == (0, {}, 0)
    assert (after.redrives, after.lease) == (2, job.lease)
    assert (after.due, after.since, after.updated) == (NOW + 60, NOW + 60, NOW)
    assert (after.reason, after.finished, after.resolution) == (None, None, None)
    assert after.failure == job.failure


def test_a_retry_of_a_pending_job_makes_it_due_and_spends_the_same_budget() -> None:
    job = replace(job_in(P), due=NOW + 9999, spent={"quota": 2}, crashes=1)
    assert move(job, "retry") == replace(job, due=NOW)
    assert move(job, "retry", delay=5) == replace(job, due=NOW + 5)


@each_row("verb, how", [("resolve", Reason.RESOLVED), ("discard", Reason.DISCARDED)])
def test_closing_a_job_keeps_who_why_and_what_it_was_dead_of(verb: Verb, how: Reason) -> None:
    job = move(job_in(D), verb)
    assert job.reason is how
    assert job.resolution == Resolution(
        actor="ada", reason="fixed it", at=NOW, was=Reason.EXHAUSTED
    )
    assert (job.finished, job.updated, job.detail) == (NOW, NOW, "fixed it")
    pending = move(job_in(P), verb)
    assert pending.resolution is not None
    assert pending.resolution.was is None


def test_closing_a_running_job_takes_its_lease_away() -> None:
    job = move(job_in(R), "resolve")
    assert (job.holder, job.lease_end, job.lease) == (None, None, 3)


def test_reopening_restores_the_reason_it_was_dead_of_or_says_manual() -> None:
    assert move(job_in(X), "reopen").reason is Reason.EXPIRED
    assert move(move(job_in(P), "resolve"), "reopen").reason is Reason.MANUAL
    again = move(move(job_in(D), "discard"), "reopen")
    assert (again.state, again.reason, again.resolution) == (D, Reason.EXHAUSTED, None)


@each_row("before", [P, D, X])
def test_an_edit_keeps_the_first_payload_and_changes_the_delivery_key(before: State) -> None:
    job = replace(job_in(before), key="order-7", payload='{"a":1}')
    once = amended(job, '{"a":2}', now=NOW)
    twice = amended(once, '{"a":3}', now=NOW)
    assert (twice.payload, twice.original, twice.edits) == ('{"a":3}', '{"a":1}', 2)
    assert [j.delivery_key for j in (job, once, twice)] == ["order-7", "order-7.1", "order-7.2"]
    assert replace(once, key=None).delivery_key == "j.1"
    assert once.state is before


@each_row("before", [R, C])
def test_a_running_or_completed_job_cannot_be_edited(before: State) -> None:
    with pytest.raises(Refused, match=before.value):
        amended(job_in(before), "{}", now=NOW)


@given(st.integers(min_value=0, max_value=120))
def test_the_middle_of_a_long_history_is_folded_and_counted(total: int) -> None:
    job = job_in(R)
    for ordinal in range(1, total + 1):
        job = with_attempt(job, make_attempt(job, ordinal=ordinal))
    kept = [attempt.ordinal for attempt in job.history]
    assert len(kept) + job.folded == total
    assert len(kept) <= KEEP_FIRST + KEEP_LAST
    everything = list(range(1, total + 1))
    assert kept[:KEEP_FIRST] == everything[:KEEP_FIRST]
    assert kept[-KEEP_LAST:] == everything[-KEEP_LAST:]


def test_jobs_say_whether_they_can_be_retried_and_whether_they_are_over() -> None:
    assert [job_in(s).is_terminal for s in (P, R, C, D, X)] == [False, False, True, True, True]
    assert make_job(attempts=4, max_attempts=5).can_retry
    assert not make_job(attempts=5, max_attempts=5).can_retry


def test_the_verbs_of_people_are_all_here() -> None:
    assert set(get_args(Verb)) <= set(VERBS)


def test_an_action_adds_its_number_and_the_newest_twenty_stay() -> None:
    change = changed(replace(job_in(P), actions=tuple(range(1, 21))), {"detail": "x"})
    added = with_action(change, 21)
    assert (added.was, added.job.detail) == (change.was, "x")
    assert added.job.actions == tuple(range(2, 22))


def test_a_batch_refuses_what_a_single_claim_or_end_refuses() -> None:
    with pytest.raises(Refused):
        claim_all([job_in(P), job_in(R)], holder="w", now=NOW, lease_end=9.0)
    done = Settlement(Claim(job_in(D)), Completed(Reason.DONE))
    with pytest.raises(Refused):
        settle_all([(job_in(R), done), (job_in(D), done)], now=NOW, place=lambda _: None)


def test_only_a_death_moves_the_time_of_death() -> None:
    dead = settled(job_in(R), Dead(Reason.EXHAUSTED), make_failure(), now=NOW, group=1)
    assert dead.died_at == NOW
    later = [
        changed(dead, action_changes(dead, verb, actor="ada", reason="", now=NOW + 5)).job
        for verb in ("retry", "resolve", "discard")
    ]
    later += [amended(dead, "{}", now=NOW + 6), move(later[1], "reopen")]
    again = claimed(later[0], holder="w", now=NOW + 7, lease_end=9.0)
    later += [again, settled(again, Completed(Reason.DONE), None, now=NOW + 8, group=None)]
    assert {job.died_at for job in later} == {NOW}
    twice = settled(again, Dead(Reason.CRASH), make_failure(), now=NOW + 9, group=1)
    assert twice.died_at == NOW + 9


def test_a_job_that_is_dead_only_by_reopening_died_then() -> None:
    assert move(move(job_in(P), "resolve"), "reopen").died_at == NOW


@each_row("delay", [float("nan"), float("inf"), -float("inf")])
def test_a_delay_that_is_no_finite_number_is_refused(delay: float) -> None:
    for verdict in (Retry(delay), Return(delay)):
        with pytest.raises(UsageError, match=f"finite number of seconds; found {delay}"):
            settled(job_in(R), verdict, None, now=NOW, group=None)
    with pytest.raises(UsageError, match="finite"):
        move(job_in(D), "retry", delay=delay)


def test_an_open_job_that_crashed_is_a_suspect_also_while_it_runs() -> None:
    assert {state for state in State if is_suspect(replace(job_in(state), crashes=1))} == {P, R}
    assert not any(is_suspect(job_in(state)) for state in State)


EVENTS: dict[str, dict[State, str]] = {
    "claim": {},
    "done": {R: "completed"},
    "retry later": {},
    "give back": {},
    "die": {P: "died", R: "died"},
    "retry": {D: "retried", X: "retried"},
    "resolve": {P: "resolved", R: "resolved", D: "resolved"},
    "discard": {P: "resolved", R: "resolved", D: "resolved"},
    "reopen": {X: "reopened"},
    "enlist": {},
}


@each_row(
    "verb, before",
    [(verb, before) for verb, row in TABLE.items() for before, after in row.items() if after],
)
def test_each_verb_reports_one_event_or_none(verb: str, before: State) -> None:
    job = job_in(before)
    expected = EVENTS[verb].get(before)
    assert events_of(job, VERBS[verb](job), now=NOW) == ([expected] if expected else [])
    own = replace(job, handler="redrive.on.slack")
    assert events_of(own, VERBS[verb](own), now=NOW) == []


def test_a_purge_and_a_captured_job_are_reported_and_an_import_is_not() -> None:
    dead = replace(job_in(D), died_at=NOW)
    assert events_of(dead, None, now=NOW) == ["purged"]
    assert events_of(None, dead, now=NOW + 1) == ["died"]
    assert events_of(None, dead, now=NOW + 3600) == []
    assert events_of(None, replace(dead, origin={"format": "sync"}), now=NOW) == []
    assert events_of(None, job_in(P), now=NOW) == []
    assert events_of(None, None, now=NOW) == []
