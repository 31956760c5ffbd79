"""Decide the next state of a job after an attempt. Pure: time and randomness are arguments.

The attempt was counted when the job was claimed. Its failure has a category, and the policy has a
rule for each category. The checks, in this order:

1. The handler gave up, or the policy never retries the category: dead, permanent.
2. It took its worker down for the third time: dead, crash.
3. The category's attempts, or those of all categories together, are used up: dead, exhausted.
4. Otherwise it waits: as the handler asked, as the server asked, or by the category's back-off.
5. If that wait would end after `max_age`: dead, expired.

A crash is handled like any other failure. A job that could not be tried at all is returned: it has
no failure, so none of this applies, and `max_age` does not end it.
"""

from __future__ import annotations

from typing import assert_never

from redrive.jobs import durations
from redrive.jobs.job import Category, Completed, Dead, Failure, Job, Reason, Retry, Return, Verdict
from redrive.jobs.outcomes import AlreadyDone, Done, Failed, Interrupted, Outcome, Returned, Skipped
from redrive.policies.policy import CRASH_LIMIT, DEFAULTS, Policy, Rule
from redrive.strategies import Rand, delay_after

LONGEST_HINT = 86400.0  # seconds. A longer hint of the other side is taken for a mistake and cut.
_DONE = Completed(Reason.DONE)
HANDLER = "RetryLater"
"""The hint source of a handler that named its own delay; such a wait is kept to the second."""


def decide(job: Job, outcome: Outcome, policy: Policy, now: float, rand: Rand) -> Verdict:
    """Return the next state of a job from its outcome and its history."""
    match outcome:
        case Done():
            return _DONE
        case Skipped(reason):
            return Completed(Reason.SKIPPED, reason)
        case AlreadyDone():
            return Completed(Reason.ALREADY_DONE)
        case Interrupted():
            return Return()
        case Returned(why, wait):
            return Return(None if wait is None else _spread(wait, rand), f"returned: {why}")
        case Failed(_, captured=True):
            return Dead(Reason.CAPTURED, "no handler of that name is registered")
        case Failed(failure):
            return _after_failure(job, failure, policy.limited(job.own_max_attempts), now, rand)
        case _:
            assert_never(outcome)


def _spread(wait: float, rand: Rand) -> float:
    """Make returned jobs due at different times: a tenth later at most, within 5 to 30 seconds."""
    return max(1.0, wait) + rand() * min(max(wait / 10, 5.0), 30.0)


def max_attempts_after(job: Job, outcome: Outcome, policy: Policy) -> int:
    """Return how many attempts this life may reach, as things stand; people see it as n/max."""
    policy = policy.limited(job.own_max_attempts)
    if not isinstance(outcome, Failed):
        return policy.max_attempts
    category = outcome.failure.category
    rule = policy.rule(category)
    if outcome.failure.final or outcome.captured or rule.dead:
        return job.attempts
    left = (rule.attempts or 1) - _failures(job, category, policy)
    return min(policy.max_attempts, job.attempts + max(0, left))


def _failures(job: Job, category: Category, policy: Policy) -> int:
    """Count this life's failures of a category and those pooled with it, this one included."""
    if not policy.alike:
        return 1 + job.spent.get(category, 0)
    return 1 + sum(job.spent.get(pooled, 0) for pooled in policy.pooled(category))


def _after_failure(
    job: Job, failure: Failure, policy: Policy, now: float, rand: Rand
) -> Retry | Dead:
    rule = policy.rule(failure.category)
    if failure.final or rule.dead:
        return Dead(Reason.PERMANENT, failure.why)
    if failure.category is Category.CRASH and job.crashes + 1 >= CRASH_LIMIT:
        return Dead(Reason.CRASH, failure.why)
    failures = _failures(job, failure.category, policy)
    if failures >= (rule.attempts or 1) or job.attempts >= policy.max_attempts:
        attempts = "1 attempt" if job.attempts == 1 else f"{job.attempts} attempts"
        return Dead(Reason.EXHAUSTED, f"{attempts}, last: {failure.why}")
    delay, detail = _wait(failure, rule, failures - 1, policy, rand)
    if policy.oldest is not None and now + delay > job.since + policy.oldest:
        return Dead(
            Reason.EXPIRED,
            f"the next attempt would be after max_age, {durations.words(policy.oldest)}",
        )
    return Retry(delay, detail)


def _wait(
    failure: Failure, rule: Rule, index: int, policy: Policy, rand: Rand
) -> tuple[float, str]:
    """Return the delay, and its reason if it is not the back-off."""
    if failure.hint is not None and failure.hint_source == HANDLER:
        return max(0.0, failure.hint), "the handler asked for it"
    delay, detail = _backoff(rule, index, rand)
    if failure.hint is None or policy.hints == "ignore":
        return delay, detail
    hint = min(max(0.0, failure.hint), LONGEST_HINT)
    hint += rand() * min(hint * 0.1, 30.0)
    asked = f"{failure.hint_source or 'the server'} asked for {durations.words(failure.hint)}"
    if policy.hints == "floor":
        return (hint, asked) if hint > delay else (delay, detail)
    return hint, asked


def _backoff(rule: Rule, index: int, rand: Rand) -> tuple[float, str]:
    """Ask the rule's strategy; one of the user's own that raises is replaced by the default."""
    usual = DEFAULTS[Category.TRANSIENT].wait
    strategy = rule.wait or usual
    assert strategy is not None  # noqa: S101 - the table always has one
    try:
        return delay_after(strategy, index, rand), ""
    except Exception as error:  # noqa: BLE001 - user code; no job is lost to it
        assert usual is not None  # noqa: S101
        detail = f"{type(strategy).__name__} raised {type(error).__name__}: default back-off used"
        return delay_after(usual, index, rand), detail
