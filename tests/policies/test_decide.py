"""What becomes of a job: every kind of end under every policy, as tables (P4-P6, P8, E)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import START, make_failure, make_job
from redrive.jobs.job import (
    Category,
    Completed,
    Dead,
    Failure,
    Reason,
    Retry,
    Return,
    Verdict,
)
from redrive.jobs.outcomes import AlreadyDone, Done, Failed, Interrupted, Outcome, Skipped
from redrive.jobs.transitions import action_changes, changed, claimed, settled
from redrive.policies.decide import HANDLER, LONGEST_HINT, decide, max_attempts_after
from redrive.policies.policy import DEAD, Policy, Rule
from redrive.policies.presets import BATCH, DEFAULT, EVENTS, LLM, PRESETS, SYNC, WEBHOOKS
from redrive.strategies import RetryStrategy, constant, exponential
from tablekit import each_row

HOPELESS = ["auth", "invalid", "permanent"]


def lowest() -> float:
    return 0.0


def middle() -> float:
    return 0.5


def highest() -> float:
    return math.nextafter(1.0, 0.0)


def after(failure: Failure, policy: Policy, *, now: float = START, **fields: Any) -> Verdict:
    """The verdict on a job's first failure, or a later one as the fields say."""
    job = make_job(**{"attempts": 1, **fields})
    return decide(job, Failed(failure), policy, now, lowest)


def walk(
    policy: Policy, *failures: Failure | str, rand: object = middle, **fields: Any
) -> tuple[list[float], Verdict]:
    """Fail in this order, the last for ever, until dead: the waits in between, and the end."""
    job, now = make_job(**fields), START
    waits: list[float] = []
    for n in range(100):
        job = claimed(job, holder="w", now=now, lease_end=0.0)
        what = failures[min(n, len(failures) - 1)]
        failure = make_failure(what) if isinstance(what, str) else what
        verdict = decide(job, Failed(failure), policy, now, rand)  # type: ignore[arg-type]
        job = settled(job, verdict, failure, now=now, group=None)
        if not isinstance(verdict, Retry):
            return waits, verdict
        waits.append(verdict.delay)
        now = job.due
    raise AssertionError("it never died")


@each_row("policy", PRESETS.values())
@each_row(
    "outcome, verdict",
    [
        (Done(), Completed(Reason.DONE)),
        (Skipped("too old"), Completed(Reason.SKIPPED, "too old")),
        (AlreadyDone(), Completed(Reason.ALREADY_DONE)),
        (Interrupted(), Return()),
    ],
)
def test_what_did_not_fail_never_spends_or_dies(
    policy: Policy, outcome: Outcome, verdict: Verdict
) -> None:
    worn_out = make_job(attempts=99, crashes=5, spent={"transient": 99}, since=0.0)
    assert decide(worn_out, outcome, policy, START, lowest) == verdict


# The presets, walked to the end: the waits between failures of one category, and the death.

DOUBLING_9 = [1.0, 2, 4, 8, 16, 32, 64, 128, 256]
DOUBLING_TO_6_H = [2.0**n for n in range(15)] + [21600.0] * 4
BY_HALF = {  # with the random source in the middle of its window
    "WEBHOOKS": [60.0, 120, 240, 480],
    "LLM": [300.0, 600, 1200, 2400, 4800],
    "BATCH": [0.0, 0.0],
    "SYNC": DOUBLING_9,
    "EVENTS": [1.0, 2, 4],
}


@each_row("name", BY_HALF)
@each_row("category", [c for c in Category if c is not Category.CRASH])
def test_the_waits_of_every_named_preset_are_exact(name: str, category: Category) -> None:
    waits, end = walk(PRESETS[name], category)
    if name in {"SYNC", "EVENTS"} and category in HOPELESS:
        assert (waits, end) == ([], Dead(Reason.PERMANENT, f"because of {category}"))
        return
    expected = BY_HALF[name]
    if name == "SYNC" and category is Category.RATE_LIMIT:
        expected = [10.0, 10, 10]
    assert waits == pytest.approx(expected)
    assert isinstance(end, Dead)
    assert end.reason is Reason.EXHAUSTED
    assert end.detail == f"{len(waits) + 1} attempts, last: because of {category}"


@each_row(
    "policy, windows",
    [
        (WEBHOOKS, [(30, 90), (90, 150), (210, 270), (450, 510)]),
        (EVENTS, [(0.8, 1.2), (1.6, 2.4), (3.2, 4.8)]),
        (LLM, [(300, 300), (600, 600), (1200, 1200), (2400, 2400), (4800, 4800)]),
        (BATCH, [(0, 0), (0, 0)]),
        (SYNC, [(wait, wait) for wait in DOUBLING_9]),
    ],
)
def test_the_windows_of_every_named_preset_are_exact(
    policy: Policy, windows: list[tuple[float, float]]
) -> None:
    low, _ = walk(policy, "transient", rand=lowest)
    high, _ = walk(policy, "transient", rand=highest)
    assert low == pytest.approx([window[0] for window in windows])
    assert high == pytest.approx([window[1] for window in windows])


def test_hooks_at_its_cap_waits_3570_to_3600() -> None:
    strategy = WEBHOOKS.rule(Category.TRANSIENT).wait
    assert strategy is not None
    assert strategy.calculate_backoff(4) == 960.0
    for attempt in (6, 20, 2**63):
        assert strategy.get_backoff_with_jitter(attempt, lowest) == 3570.0
        assert strategy.get_backoff_with_jitter(attempt, highest) == pytest.approx(3600.0)


@each_row(
    "category, waits",
    [
        ("transient", DOUBLING_TO_6_H),
        ("timeout", DOUBLING_TO_6_H),
        ("rate_limit", [10.0, 10, 10]),
        ("quota", [300.0 * 2**n for n in range(9)] + [86400.0] * 2),
        ("unknown", [5.0, 10]),
        *((category, []) for category in HOPELESS),
    ],
)
def test_the_table_of_categories_walked_to_the_end(category: str, waits: list[float]) -> None:
    """E, without the week that DEFAULT allows at most."""
    found, end = walk(replace(DEFAULT, max_age=None), category, rand=lowest)
    assert found == pytest.approx([wait * 0.8 for wait in waits])
    assert isinstance(end, Dead)
    assert end.reason is (Reason.PERMANENT if category in HOPELESS else Reason.EXHAUSTED)


@each_row("category", ["transient", "timeout"])
def test_a_lone_job_outlasts_a_day_of_outage(category: str) -> None:
    """Even with the shortest waits that the jitter draws."""
    waits, _ = walk(DEFAULT, category, rand=lowest)
    assert sum(waits) > 24 * 3600


@each_row("policy", PRESETS.values())
def test_the_third_crash_ends_a_job_under_every_policy(policy: Policy) -> None:
    """M5. BATCH allows three attempts, so there the counts meet; the crash is the reason."""
    waits, end = walk(policy, "crash")
    assert (len(waits), end) == (2, Dead(Reason.CRASH, "because of crash"))


def test_crashes_wait_as_transient_failures_do() -> None:
    assert walk(DEFAULT, "crash")[0] == [1.0, 2.0]


def test_crashes_between_other_failures_count_to_three() -> None:
    order = ["crash", "transient", "crash", "quota", "crash"]
    assert walk(DEFAULT, *order)[1] == Dead(Reason.CRASH, "because of crash")


@each_row("policy", [*PRESETS.values(), Policy(permanent=Rule(9))])
@each_row("category", Category)
def test_what_is_final_dies_under_every_policy(policy: Policy, category: Category) -> None:
    """GiveUp; sent, no answer."""
    failure = make_failure(category, final=True, hint=5.0)
    assert after(failure, policy) == Dead(Reason.PERMANENT, failure.why)


# Budgets.


def test_counts_are_kept_by_category() -> None:
    """Three failures of unknown are enough, however the others lie between them."""
    order = ["unknown", "transient", "unknown", "quota", "timeout", "unknown"]
    waits, end = walk(DEFAULT, *order)
    assert waits == pytest.approx([5.0, 1.0, 10.0, 300.0, 1.0])
    assert isinstance(end, Dead)
    assert end.reason is Reason.EXHAUSTED


def test_all_categories_together_stay_under_the_ceiling() -> None:
    policy = Policy(transient=Rule(30), timeout=Rule(30), quota=Rule(30), wait=constant(0))
    waits, end = walk(policy, *["transient", "timeout", "quota"] * 20)
    assert len(waits) == 24
    assert end == Dead(Reason.EXHAUSTED, "25 attempts, last: because of transient")


def test_a_policys_attempts_are_the_ceiling() -> None:
    waits, _ = walk(Policy(attempts=4), "transient", "timeout", "transient", "timeout")
    assert len(waits) == 3


def test_alike_pools_the_categories_that_are_not_named() -> None:
    waits, end = walk(WEBHOOKS, "transient", "auth", "unknown", "permanent", "quota")
    assert waits == [60.0, 120, 240, 480]
    assert isinstance(end, Dead)
    named = Policy(
        attempts=5, wait=exponential(1), alike=True, rate_limit=Rule(4, wait=constant(9))
    )
    waits, _ = walk(named, "transient", "rate_limit", "quota", "rate_limit", "timeout")
    assert waits == pytest.approx([1.0, 9.0, 2.0, 9.0])


@each_row("own, waits", [(1, 0), (2, 1), (4, 3), (12, 11)])
def test_a_jobs_own_limit_wins(own: int, waits: int) -> None:
    assert len(walk(WEBHOOKS, "transient", own_max_attempts=own)[0]) == waits
    assert len(walk(Policy(), "transient", own_max_attempts=own)[0]) == waits


def test_a_jobs_own_limit_revives_nothing_hopeless_and_no_crash() -> None:
    assert after(make_failure("auth"), Policy(), own_max_attempts=50) == Dead(
        Reason.PERMANENT, "because of auth"
    )
    assert len(walk(Policy(), "crash", own_max_attempts=50)[0]) == 2


def test_a_category_declared_dead_dies_at_once() -> None:
    assert walk(Policy(attempts=9, unknown=DEAD), "unknown")[0] == []


def test_a_fresh_life_has_the_whole_budget_again() -> None:
    job = make_job(attempts=5, spent={"transient": 4}, state="running", holder="w", lease=5)
    dead = settled(job, Dead(Reason.EXHAUSTED), make_failure(), now=START, group=None)
    again = changed(dead, action_changes(dead, "retry", actor="ada", reason="", now=START)).job
    fields = {name: getattr(again, name) for name in ("attempts", "spent", "crashes", "since")}
    assert walk(WEBHOOKS, "transient", **fields)[0] == [60.0, 120, 240, 480]


def test_a_changed_policy_holds_for_jobs_that_already_wait() -> None:
    spent: dict[str, Any] = {"attempts": 4, "spent": {"transient": 3}}
    assert isinstance(after(make_failure(), Policy(attempts=4), **spent), Dead)
    assert isinstance(after(make_failure(), Policy(attempts=5), **spent), Retry)


# Age.


@each_row("age, dead", [(0.0, False), (89.0, False), (90.0, False), (90.5, True), (1e9, True)])
def test_a_wait_that_would_end_past_the_greatest_age_is_the_end(age: float, dead: bool) -> None:
    policy = Policy(max_age=100, wait=constant(10, jitter="none"))
    verdict = after(make_failure(), policy, now=START + age)
    assert isinstance(verdict, Dead) is dead
    if isinstance(verdict, Dead):
        assert verdict.reason is Reason.EXPIRED
        assert "1m40s" in verdict.detail


def test_age_counts_from_the_start_of_this_life() -> None:
    policy = Policy(max_age=100, wait=constant(10, jitter="none"))
    young = {"created": START - 1e6, "due": START - 1e6, "since": START}
    assert isinstance(after(make_failure(), policy, **young), Retry)


def test_age_bounds_a_servers_hint_and_a_handlers_wish_too() -> None:
    policy = Policy(max_age=100)
    for source in (HANDLER, "Retry-After"):
        verdict = after(make_failure(hint=101.0, hint_source=source), policy)
        assert isinstance(verdict, Dead)
        assert verdict.reason is Reason.EXPIRED


def test_exhausted_is_said_before_expired() -> None:
    verdict = after(make_failure(), Policy(attempts=1, max_age=0))
    assert isinstance(verdict, Dead)
    assert verdict.reason is Reason.EXHAUSTED


# Hints (P6). The back-off here is 50 to 150 s with a lowest draw of 50.

WAIT = constant(100, cap=1000, jitter=0.5)


@each_row(
    "hints, hint, low, high",
    [
        ("replace", 20.0, 20.0, 22.0),
        ("replace", 0.0, 0.0, 0.0),
        ("replace", -5.0, 0.0, 0.0),
        ("replace", 2000.0, 2000.0, 2030.0),
        ("replace", 1e9, LONGEST_HINT, LONGEST_HINT + 30),
        ("floor", 20.0, 50.0, 150.0),
        ("floor", 149.0, 149.0, 163.9),
        ("floor", 2000.0, 2000.0, 2030.0),
        ("ignore", 20.0, 50.0, 150.0),
        ("ignore", 2000.0, 50.0, 150.0),
    ],
)
def test_what_a_servers_hint_does_to_the_wait(
    hints: str, hint: float, low: float, high: float
) -> None:
    """Jittered upwards only; the strategy's cap does not bind it; a day is the most."""
    policy = Policy(wait=WAIT, hints=hints)  # type: ignore[arg-type]
    failure = make_failure(hint=hint, hint_source="Retry-After")
    found = [
        decide(make_job(attempts=1), Failed(failure), policy, START, rand)
        for rand in (lowest, highest)
    ]
    assert [verdict.delay for verdict in found if isinstance(verdict, Retry)] == pytest.approx(
        [low, high]
    )


def test_the_verdict_says_whose_wish_the_wait_was() -> None:
    policy = Policy(wait=WAIT)
    said = after(make_failure(hint=90.0, hint_source="Retry-After"), policy)
    assert said == Retry(90.0, "Retry-After asked for 1m30s")
    assert after(make_failure(hint=90.0), policy) == Retry(90.0, "the server asked for 1m30s")
    assert after(make_failure(), policy) == Retry(50.0, "")


@each_row("policy", PRESETS.values())
@each_row("wish", [0.0, 0.25, 7.0, 200000.0])
def test_a_handlers_own_delay_is_kept_to_the_second(policy: Policy, wish: float) -> None:
    """RetryLater(after=…): no jitter, no cap, under every policy; it still spends an attempt."""
    failure = make_failure(hint=wish, hint_source=HANDLER)
    job = make_job(attempts=1)
    for rand in (lowest, highest):
        verdict = decide(job, Failed(failure), policy, START, rand)
        assert verdict == Retry(wish, "the handler asked for it")
    waits, end = walk(replace(policy, max_age=None), failure)
    assert set(waits) == {wish}
    assert isinstance(end, Dead)


# Users' own strategies.


class Broken(RetryStrategy):
    def calculate_backoff(self, attempt: int) -> float:
        raise ZeroDivisionError


def test_a_users_strategy_that_raises_costs_no_job() -> None:
    """The default back-off stands in, and the record says so."""
    verdict = after(make_failure(), Policy(wait=Broken()), attempts=3, spent={"transient": 2})
    assert verdict == Retry(3.2, "Broken raised ZeroDivisionError: default back-off used")


def test_the_index_of_a_strategy_is_the_failures_of_its_category() -> None:
    seen: list[int] = []

    class Watching(RetryStrategy):
        def calculate_backoff(self, attempt: int) -> float:
            seen.append(attempt)
            return 0.0

    policy = Policy(wait=Watching(), transient=Rule(9), timeout=Rule(9))
    walk(policy, "transient", "timeout", "transient", "timeout", "transient", "auth")
    assert seen == [0, 0, 1, 1, 2]


# The limit that is shown as n/max.


@each_row(
    "outcome, fields, limit",
    [
        (Done(), {}, 25),
        (Failed(make_failure("transient")), {}, 20),
        (Failed(make_failure("unknown")), {}, 3),
        (Failed(make_failure("auth")), {}, 1),
        (Failed(make_failure("transient", final=True)), {"attempts": 4}, 4),
        (Failed(make_failure("unknown")), {"attempts": 5, "spent": {"quota": 4}}, 7),
        (Failed(make_failure("transient")), {"own_max_attempts": 2}, 2),
        (Failed(make_failure("unknown")), {"attempts": 9, "spent": {"unknown": 8}}, 9),
    ],
)
def test_the_limit_shown_is_what_this_life_may_reach(
    outcome: Outcome, fields: dict[str, Any], limit: int
) -> None:
    assert max_attempts_after(make_job(**{"attempts": 1, **fields}), outcome, DEFAULT) == limit


@given(
    st.sampled_from(sorted(PRESETS)),
    st.lists(st.sampled_from(sorted(Category)), min_size=1, max_size=30),
    st.floats(min_value=0, max_value=1, exclude_max=True),
)
def test_every_job_comes_to_an_end_and_no_wait_is_odd(
    name: str, order: list[Category], drawn: float
) -> None:
    waits, end = walk(PRESETS[name], *order, rand=lambda: drawn)
    assert isinstance(end, Dead)
    assert end.detail
    assert len(waits) < PRESETS[name].max_attempts
    assert all(0 <= wait <= 86400 for wait in waits)
