"""One decision for all: a simulation, a retry in place and a durable job wait and end alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import make_failure
from redrive import (
    DEAD,
    Category,
    Failure,
    GiveUp,
    Policy,
    Reason,
    Redrive,
    RetryLater,
    Rule,
    Skip,
    constant,
    exponential,
    retry,
    when,
)
from redrive.errors import UsageError
from redrive.policies.presets import DEFAULT, PRESETS, SYNC, WEBHOOKS
from redrive.testing import ManualClock, simulate
from tablekit import each_row


def middle() -> float:
    return 0.5


def test_the_waits_and_the_death_of_a_preset() -> None:
    told = simulate(WEBHOOKS, itertools.repeat("transient"), rand=middle)
    assert told.delays == (60.0, 120.0, 240.0, 480.0)
    assert (told.reason, told.detail) == (Reason.EXHAUSTED, "5 attempts, last: transient")


def test_errors_are_classified_and_their_hints_are_heard() -> None:
    class Busy(Exception):
        retry_after = 30

    policy = Policy(on=[when(Busy, "rate_limit")], wait=constant(5, jitter="none"))
    failures = [Busy(), ConnectionError(), RetryLater(after=7), Planned("auth")]
    told = simulate(policy, failures, rand=lambda: 0.0)
    assert told.delays == (30.0, 5.0, 7.0)
    assert told.reason is Reason.PERMANENT


def test_what_is_no_policy_is_refused_where_it_is_given() -> None:
    with pytest.raises(UsageError, match=r"a policy is a Policy.*found 'fast'"):
        simulate("fast", [])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"a policy is a Policy.*found 'fast'"):
        Redrive("memory:").handler("work", policy="fast")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="failures must be a list; found 'transient'"):
        simulate(SYNC, "transient")


def test_failures_that_run_out_leave_it_alive() -> None:
    told = simulate(SYNC, ["transient", Category.RATE_LIMIT], rand=middle)
    assert (told.delays, told.reason, told.detail) == ((1.0, 10.0), None, "")
    assert simulate(SYNC, []).delays == ()


def test_a_failure_record_speaks_for_itself() -> None:
    hinted: Failure = make_failure("rate_limit", hint=12.0, hint_source="retry-after")
    assert simulate(DEFAULT, [hinted], rand=lambda: 0.0).delays == (12.0,)
    assert simulate(DEFAULT, [make_failure("crash")] * 9).reason is Reason.CRASH


def test_signals() -> None:
    assert simulate(WEBHOOKS, [GiveUp("no")]).reason is Reason.PERMANENT
    assert simulate(WEBHOOKS, [Skip("done before")]).reason is Reason.SKIPPED
    stopped = simulate(WEBHOOKS, [KeyboardInterrupt(), "transient"], rand=middle)
    assert stopped.delays == (60.0,)  # an interruption spends nothing


def test_the_greatest_age_ends_it() -> None:
    policy = Policy(max_age=100, wait=exponential(10, jitter="none"))
    told = simulate(policy, itertools.repeat("transient"))
    assert (told.delays, told.reason) == ((10.0, 20.0, 40.0), Reason.EXPIRED)


@each_row("wrong", ["nonsense", 7, ConnectionError])
def test_what_is_no_failure_is_refused_in_words(wrong: object) -> None:
    with pytest.raises(UsageError, match=r"category"):
        simulate(WEBHOOKS, [wrong])  # type: ignore[list-item]


class Planned(Exception):
    """An error that names its own category."""

    def __init__(self, category: str, hint: float | None = None) -> None:
        super().__init__(category)
        self.redrive_category = category
        if hint is not None:
            self.retry_after = hint


RULES = (
    st.none()
    | st.just(DEAD)
    | st.builds(
        Rule, attempts=st.integers(1, 6), wait=st.none() | st.builds(constant, st.integers(0, 50))
    )
)
OWN = st.builds(
    Policy,
    attempts=st.none() | st.integers(1, 8),
    max_age=st.none() | st.integers(0, 500).map(lambda whole: whole + 0.25),
    wait=st.none() | st.builds(exponential, st.integers(0, 20)),
    transient=RULES,
    rate_limit=RULES,
    auth=RULES,
    unknown=RULES,
    alike=st.booleans(),
    hints=st.sampled_from(["replace", "floor", "ignore"]),
)
# A crash is never raised: it is what a worker finds that was left behind.
ERRORS = st.builds(
    Planned,
    st.sampled_from([c.value for c in Category if c is not Category.CRASH]),
    st.none() | st.integers(0, 200),
)


def chance(seed: int) -> Iterator[float]:
    """The same random numbers for each of the three."""
    while True:
        seed = (seed * 1103515245 + 12345) % 2**31
        yield seed / 2**31


@settings(deadline=None)
@given(
    st.sampled_from(list(PRESETS.values())) | OWN,
    st.lists(ERRORS, max_size=12),
    st.integers(0, 999),
)
def test_simulation_retry_and_durable_job_are_of_one_mind(
    policy: Policy, errors: list[Planned], seed: int
) -> None:
    told = simulate(policy, errors, rand=chance(seed).__next__)
    tries = len(told.delays) + 1

    clock, slept, left = ManualClock(1000.0), list[float](), list(errors)

    def work() -> None:
        if left:
            raise left.pop(0)

    def sleep(delay: float) -> None:
        slept.append(delay)
        clock.advance(delay)

    retried = retry(policy, sleep=sleep, clock=clock.now, rand=chance(seed).__next__)(work)
    if told.reason is None:
        retried()
    else:
        with pytest.raises(Planned) as caught:
            retried()
        assert caught.value is errors[tries - 1]
        count = "1 attempt," if tries == 1 else f"{tries} attempts,"
        assert f"{count} {told.reason}: " in caught.value.__notes__[-1]
    assert slept == pytest.approx([delay for delay in told.delays if delay > 0])

    left, due = list(errors), list[float]()
    app = Redrive("memory:", clock=clock, rand=chance(seed).__next__)
    job = app.handler("work", policy=policy)(work).submit()
    for _ in range(tries):
        began = clock.now()
        app.run_due()
        job = app.get(job.id)
        if job.state != "pending":
            break
        due.append(job.due - began)
        clock.advance(job.due - began)
    assert due == pytest.approx(list(told.delays), abs=1e-6)
    assert job.reason == (told.reason or "done")
