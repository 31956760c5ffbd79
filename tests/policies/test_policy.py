"""Policies as values: the table, what a policy states, what it leaves to the table, and presets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from redrive.errors import UsageError
from redrive.jobs.job import Category
from redrive.policies.policy import (
    DEAD,
    DEFAULTS,
    MAX_ATTEMPTS,
    Keep,
    Pause,
    Policy,
    Rule,
    When,
    when,
)
from redrive.policies.presets import BATCH, DEFAULT, EVENTS, LLM, PRESETS, SYNC, WEBHOOKS
from redrive.strategies import RetryStrategy, constant, exponential, fibonacci
from tablekit import each_row

DAY = 86400.0
HOPELESS = {Category.AUTH, Category.INVALID, Category.PERMANENT}


@each_row(
    "category, attempts, wait",
    [
        ("transient", 20, exponential(1, cap="6h")),
        ("rate_limit", 4, constant(10)),
        ("quota", 12, exponential(300, cap=86400)),
        ("timeout", 20, exponential(1, cap="6h")),
        ("crash", 3, exponential(1, cap=300)),
        ("unknown", 3, exponential(5, cap=300)),
    ],
)
def test_the_table_of_categories(category: str, attempts: int, wait: RetryStrategy) -> None:
    assert Policy().rule(Category(category)) == Rule(attempts, wait=wait)
    assert DEFAULT.rule(Category(category)) == Rule(attempts, wait=wait)


@each_row("category", sorted(HOPELESS))
def test_hopeless_categories_stay_dead_at_once_unless_named(category: Category) -> None:
    """`attempts` and `wait` of a policy do not revive auth, invalid and permanent."""
    assert Policy().rule(category).dead
    assert Policy(attempts=9, wait=constant(1)).rule(category).dead
    named = Policy(**{category.value: Rule(attempts=2)}).rule(category)
    assert (named.dead, named.attempts, named.wait) == (False, 2, DEFAULTS[Category.TRANSIENT].wait)


@each_row("category", sorted(set(Category) - HOPELESS - {Category.CRASH}))
def test_attempts_and_wait_hold_for_every_category_not_named(category: Category) -> None:
    policy = Policy(attempts=7, wait=fibonacci(2))
    assert policy.rule(category) == Rule(7, wait=fibonacci(2))


def test_crash_stays_three_in_all_whatever_the_policy_says() -> None:
    assert Policy(attempts=50).rule(Category.CRASH).attempts == 3
    assert Policy(crash=Rule(9)).rule(Category.CRASH).attempts == 3
    assert Policy(crash=Rule(2)).rule(Category.CRASH).attempts == 2
    assert Policy(attempts=50, wait=constant(4)).rule(Category.CRASH).wait == constant(4)


def test_what_a_rule_leaves_out_comes_from_the_policy_and_then_from_the_table() -> None:
    policy = Policy(attempts=7, quota=Rule(wait=constant(9)), unknown=Rule(attempts=2))
    assert policy.rule(Category.QUOTA) == Rule(7, wait=constant(9))
    assert policy.rule(Category.UNKNOWN) == Rule(2, wait=DEFAULTS[Category.UNKNOWN].wait)
    assert Policy(quota=Rule(wait=constant(9))).rule(Category.QUOTA).attempts == 12


def test_a_category_can_be_declared_hopeless() -> None:
    assert Policy(unknown=DEAD).rule(Category.UNKNOWN).dead
    assert Policy(attempts=9, rate_limit=DEAD).rule(Category.RATE_LIMIT).dead


def test_alike_makes_every_category_not_named_one() -> None:
    policy = Policy(attempts=5, wait=constant(1), alike=True, quota=Rule(2), auth=DEAD)
    alike = set(Category) - {Category.QUOTA, Category.AUTH}
    for category in alike:
        assert policy.rule(category) == Rule(5, wait=constant(1))
        assert policy.pooled(category) == alike
    assert policy.pooled(Category.QUOTA) == {Category.QUOTA}
    assert policy.rule(Category.AUTH).dead
    assert Policy(attempts=5).pooled(Category.QUOTA) == {Category.QUOTA}


def test_the_limit_of_all_categories_is_the_policys_attempts_or_25() -> None:
    assert Policy().max_attempts == MAX_ATTEMPTS == 25
    assert Policy(attempts=3).max_attempts == 3
    assert Policy(attempts=40).max_attempts == 40


def test_a_jobs_own_limit_wins_over_the_policys() -> None:
    policy = Policy(attempts=5, wait=constant(1))
    assert policy.limited(None) is policy
    assert policy.limited(2) == Policy(attempts=2, wait=constant(1))
    assert policy.limited(40).rule(Category.TRANSIENT).attempts == 40


def test_max_age_is_any_duration() -> None:
    assert Policy(max_age="7d").oldest == Policy(max_age=timedelta(days=7)).oldest == 7 * DAY
    assert Policy(max_age=0).oldest == 0.0
    assert Policy().oldest is None


@each_row(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": 2.5},
        {"attempts": True},
        {"attempts": "5"},
        {"max_age": -1},
        {"max_age": "a week"},
        {"wait": 5},
        {"wait": abs},
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Policy(**wrong)


@each_row("wrong", [{"attempts": 0}, {"attempts": -1}, {"attempts": 1.5}])
def test_a_rule_that_cannot_work_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Rule(**wrong)


def is_odd(error: BaseException) -> bool:
    return bool(error.args)


@each_row(
    "made, expected",
    [
        (lambda: when(KeyError, "transient"), When(then=Category.TRANSIENT, error=KeyError)),
        (lambda: when("a.b.C", "quota"), When(then=Category.QUOTA, name="a.b.C")),
        (lambda: when(is_odd, "auth"), When(then=Category.AUTH, test=is_odd)),
        (lambda: when(status=418, then="permanent"), When(then=Category.PERMANENT, status=418)),
        (
            lambda: when(code="busy", then=Category.RATE_LIMIT),
            When(then=Category.RATE_LIMIT, code="busy"),
        ),
        (
            lambda: when(OSError, "timeout", code="ETIMEDOUT"),
            When(then=Category.TIMEOUT, error=OSError, code="ETIMEDOUT"),
        ),
    ],
)
def test_when_names_evidence_and_a_category(made: Callable[[], When], expected: When) -> None:
    assert made() == expected


@each_row(
    "make",
    [
        lambda: when(KeyError),
        lambda: when(then="transient"),
        lambda: when(KeyError, "sometimes"),
        lambda: when(status=500, then="failed"),
    ],
)
def test_when_refuses_half_a_rule(make: Callable[[], When]) -> None:
    with pytest.raises(UsageError):
        make()


# The presets (P8, J7); what they make of failures is in test_decide.


@each_row(
    "preset, keep",
    [
        (DEFAULT, Keep(DAY, DAY, None)),
        (WEBHOOKS, Keep(DAY, DAY, 7 * DAY)),
        (LLM, Keep(DAY, DAY, None)),
        (BATCH, Keep(None, None, None)),
        (SYNC, Keep(DAY, None, None)),
        (EVENTS, Keep(DAY, DAY, None)),
    ],
)
def test_how_long_each_preset_keeps_finished_jobs(preset: Policy, keep: Keep) -> None:
    assert preset.keep == keep


def test_without_a_word_completed_and_resolved_are_kept_a_day_and_dead_for_ever() -> None:
    assert Policy().keep == Keep() == Keep(completed=DAY, resolved=DAY, dead=None)


def test_only_the_default_pauses_lanes_and_ends_by_age() -> None:
    assert DEFAULT.pause == Pause(after=10, probe=60, release=100)
    assert DEFAULT.oldest == 7 * DAY
    for name in ("WEBHOOKS", "LLM", "BATCH", "SYNC", "EVENTS"):
        assert PRESETS[name].pause is None
        assert PRESETS[name].oldest is None


@each_row(
    "name, hints",
    [
        ("DEFAULT", "replace"),
        ("WEBHOOKS", "ignore"),
        ("LLM", "floor"),
        ("BATCH", "ignore"),
        ("SYNC", "floor"),
        ("EVENTS", "ignore"),
    ],
)
def test_what_each_preset_makes_of_a_servers_hint(name: str, hints: str) -> None:
    assert PRESETS[name].hints == hints


def test_how_long_jobs_stay_may_be_text_and_is_checked() -> None:
    keep = Keep(completed="12h", resolved=timedelta(days=1), dead="90d")
    assert keep.ages == {"completed": 43200.0, "resolved": 86400.0, "dead": 7776000.0}
    assert keep == Keep(completed=43200, resolved=86400, dead=7776000)
    with pytest.raises(UsageError, match="dead must be"):
        Keep(dead="soon")
