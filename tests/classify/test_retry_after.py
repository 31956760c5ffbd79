"""From a header of the answer to the wait of the job, through classify and decide."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from kit import START, make_job
from redrive.classify import classify
from redrive.jobs.job import Dead, Reason, Retry
from redrive.jobs.outcomes import Failed
from redrive.policies.decide import decide
from redrive.policies.policy import Policy
from redrive.policies.presets import BATCH, DEFAULT, EVENTS, LLM, SYNC, WEBHOOKS

HOUR = 3600.0
DAY = 24 * HOUR


def http_date(offset: float) -> str:
    return format_datetime(datetime.fromtimestamp(START + offset, UTC), usegmt=True)


def waits(retry_after: str, policy: Policy = DEFAULT, status: int = 503) -> tuple[float, float]:
    """Fail once with this header; give the wait with the least and with the most jitter."""
    error = type("Busy", (Exception,), {"status_code": status})("busy")
    error.headers = {"Retry-After": retry_after}
    failed = Failed(classify(error, now=START))
    found = [
        decide(make_job(attempts=1), failed, policy, START, lambda end=end: end)
        for end in (0.0, 1.0)
    ]
    low, high = (verdict.delay for verdict in found if isinstance(verdict, Retry))
    return low, high


BACKOFF = (0.8, 1.2)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param("20", (20.0, 22.0), id="a tenth more at most"),
        pytest.param("21600", (6 * HOUR, 6 * HOUR + 30), id="six hours, past every cap"),
        pytest.param(http_date(6 * HOUR), (6 * HOUR, 6 * HOUR + 30), id="six hours as a date"),
        pytest.param("86400", (DAY, DAY + 30), id="a day"),
        pytest.param("86401", (DAY, DAY + 30), id="more than a day is a day"),
        pytest.param("1000000000000", (DAY, DAY + 30), id="10^12"),
        pytest.param(http_date(400 * DAY), (DAY, DAY + 30), id="a date far off"),
        pytest.param("0", (0.0, 0.0), id="now"),
        pytest.param("-30", (0.0, 0.0), id="negative is now"),
        pytest.param(http_date(-90), (0.0, 0.0), id="a date in the past is now"),
        pytest.param("soon", BACKOFF, id="garbage"),
        pytest.param("nan", BACKOFF, id="not a number"),
        pytest.param("inf", BACKOFF, id="infinity"),
        pytest.param("Wed, 99 Foo 2026 99:99:99 GMT", BACKOFF, id="garbled date"),
        pytest.param("", BACKOFF, id="empty"),
    ],
)
def test_what_the_server_asks_for_is_waited(said: str, expected: tuple[float, float]) -> None:
    assert waits(said) == pytest.approx(expected)


def test_a_rate_limit_waits_as_asked_or_ten_seconds() -> None:
    assert waits("90", status=429) == pytest.approx((90.0, 99.0))
    assert waits("soon", status=429) == pytest.approx((8.0, 12.0))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(LLM, (300.0, 300.0), id="LLM: no less than its own"),
        pytest.param(SYNC, (120.0, 132.0), id="SYNC: the longer of the two"),
        pytest.param(WEBHOOKS, (30.0, 90.0), id="WEBHOOKS: ignored"),
        pytest.param(BATCH, (0.0, 0.0), id="BATCH: ignored"),
        pytest.param(EVENTS, (0.8, 1.2), id="EVENTS: ignored"),
    ],
)
def test_the_presets_treat_two_minutes(policy: Policy, expected: tuple[float, float]) -> None:
    assert waits("120", policy) == pytest.approx(expected)


def test_a_wait_beyond_the_greatest_age_is_death() -> None:
    error = type("Busy", (Exception,), {"status_code": 503, "headers": {"retry-after": "7200"}})()
    failed = Failed(classify(error, now=START))
    verdict = decide(make_job(attempts=1), failed, Policy(max_age="1h"), START, lambda: 0.0)
    assert isinstance(verdict, Dead)
    assert verdict.reason is Reason.EXPIRED
