"""What the other side asked us to wait is found, read and bounded, and never raises."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.classify.clues import gather
from redrive.classify.hints import find_hint
from redrive.policies.decide import LONGEST_HINT
from tablekit import each_row

NOW = 1_750_000_000.0
DAY = 86400.0


def hint_of(error: Exception, now: float) -> tuple[float, str] | None:
    return find_hint(gather(error), now)


def http_date(offset: float) -> str:
    return format_datetime(datetime.fromtimestamp(NOW + offset, UTC), usegmt=True)


def carrying(**attributes: object) -> Exception:
    error = Exception("slow down")
    vars(error).update(attributes)
    return error


def answered(headers: dict[str, str]) -> Exception:
    return carrying(response=SimpleNamespace(headers=headers))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        pytest.param("30", 30.0, id="whole seconds"),
        pytest.param(" 1.5 ", 1.5, id="fraction, with blanks"),
        pytest.param("0", 0.0, id="now"),
        pytest.param("-5", 0.0, id="negative is now"),
        pytest.param("99999999", DAY, id="three years are cut to a day"),
        pytest.param("1000000000000", DAY, id="10^12 is cut to a day"),
        pytest.param("1" * 400, None, id="a number beyond all floats"),
        pytest.param(f"{NOW + 60:.0f}", 60.0, id="seconds since 1970"),
        pytest.param(f"{(NOW + 60) * 1000:.0f}", 60.0, id="milliseconds since 1970"),
        pytest.param(f"{NOW - 60:.0f}", 0.0, id="seconds since 1970, past"),
        pytest.param(http_date(90), 90.0, id="HTTP date"),
        pytest.param(http_date(-90), 0.0, id="HTTP date in the past is now"),
        pytest.param(http_date(10 * DAY), DAY, id="HTTP date far off is cut"),
        pytest.param("2025-06-15T15:07:10Z", 30.0, id="ISO date"),
        pytest.param("2025-06-15T15:07:10", 30.0, id="naive date is UTC"),
        pytest.param("1m30s", 90.0, id="spelled duration"),
        pytest.param("nan", None, id="NaN"),
        pytest.param("inf", None, id="infinity"),
        pytest.param("-inf", None, id="minus infinity"),
        pytest.param("soon", None, id="garbage"),
        pytest.param("Mon, 99 Foo 9999 99:99:99 GMT", None, id="garbled date"),
        pytest.param("", None, id="empty"),
    ],
)
def test_reads_retry_after(value: str, seconds: float | None) -> None:
    """Negative, 10^12, a past date and garbage end in [0, 24 h] or in no hint."""
    expected = None if seconds is None else (seconds, "retry-after")
    assert hint_of(answered({"Retry-After": value}), NOW) == expected


def test_counts_a_date_by_the_servers_own_clock() -> None:
    headers = {"Date": http_date(3600), "Retry-After": http_date(3660)}
    assert hint_of(answered(headers), NOW) == (60.0, "retry-after")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param({"retry_after": 7}, (7.0, "retry_after"), id="number"),
        pytest.param({"retry_after": timedelta(minutes=2)}, (120.0, "retry_after"), id="timedelta"),
        pytest.param({"retry_after": "8"}, (8.0, "retry_after"), id="text"),
        pytest.param({"retry_after": 10**400}, (DAY, "retry_after"), id="huge"),
        pytest.param({"retry_after": True}, None, id="True is no number"),
        pytest.param({"retry_after": object()}, None, id="no number at all"),
        pytest.param({"cooldown_time": 2.5}, (2.5, "cooldown_time"), id="cooldown"),
    ],
)
def test_reads_attributes(
    attributes: dict[str, object], expected: tuple[float, str] | None
) -> None:
    assert hint_of(carrying(**attributes), NOW) == expected


RESETS = {
    "x-ratelimit-remaining-requests": "3",
    "x-ratelimit-reset-requests": "2h",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "6m0s",
    "x-ratelimit-remaining-images": "0",
    "x-ratelimit-reset-images": "12ms",
}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({"retry-after-ms": "1500"}, (1.5, "retry-after-ms"), id="ms"),
        pytest.param({"x-ms-retry-after-ms": "20"}, (0.02, "x-ms-retry-after-ms"), id="azure"),
        pytest.param({"x-amz-retry-after": "2500"}, (2.5, "x-amz-retry-after"), id="aws"),
        pytest.param({"grpc-retry-pushback-ms": "70"}, (0.07, "grpc-retry-pushback-ms"), id="grpc"),
        pytest.param({"grpc-retry-pushback-ms": "-1"}, None, id="grpc says never"),
        pytest.param(RESETS, (360.0, "x-ratelimit-reset-tokens"), id="longest exhausted limit"),
        pytest.param({**RESETS, "Retry-After": "5"}, (5.0, "retry-after"), id="a wish beats it"),
        pytest.param(
            {**RESETS, "Retry-After": "soon"}, (360.0, "x-ratelimit-reset-tokens"), id="+"
        ),
        pytest.param({"x-ratelimit-reset": "60"}, None, id="reset without remaining"),
        pytest.param(
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2025-06-15T15:07:10Z",
            },
            (30.0, "anthropic-ratelimit-tokens-reset"),
            id="reset as a date",
        ),
        pytest.param(
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{NOW + 9:.0f}"},
            (9.0, "x-ratelimit-reset"),
            id="reset since 1970",
        ),
    ],
)
def test_reads_headers_from_the_plainest_to_the_vaguest(
    headers: dict[str, str], expected: tuple[float, str] | None
) -> None:
    assert hint_of(answered(headers), NOW) == expected


def message(name: str, value: str) -> Message:
    built = Message()
    built[name] = value
    return built


@each_row(
    "error",
    [
        carrying(headers={"RETRY-AFTER": "9"}),
        carrying(headers={b"retry-after": b"9"}),
        carrying(headers={"Retry-After": ["9"]}),
        carrying(headers=[("Retry-After", "9")]),
        carrying(headers=message("Retry-After", "9")),
        carrying(response={"ResponseMetadata": {"HTTPHeaders": {"retry-after": "9"}}}),
        carrying(litellm_response_headers={"retry-after": "9"}),
        carrying(meta=SimpleNamespace(headers={"retry-after": "9"})),
        carrying(headers={}, response=SimpleNamespace(headers={"retry-after": "9"})),
    ],
)
def test_finds_headers_wherever_they_are(error: Exception) -> None:
    assert hint_of(error, NOW) == (9.0, "retry-after")


@each_row(
    "error",
    [
        carrying(details={"error": {"details": [{"@type": "Help"}, {"retryDelay": "34s"}]}}),
        carrying(details=[1], body={"error": {"details": [{"retryDelay": "34s"}]}}),
        carrying(details=[SimpleNamespace(retry_delay=SimpleNamespace(seconds=34, nanos=0))]),
        carrying(details=[SimpleNamespace(retry_delay=timedelta(seconds=34))]),
    ],
)
def test_reads_retry_info_of_google(error: Exception) -> None:
    assert hint_of(error, NOW) == (34.0, "RetryInfo")


class Endless:
    def items(self) -> Iterator[tuple[str, str]]:
        while True:
            yield "x", "y"


class Failing:
    def items(self) -> Iterator[tuple[str, str]]:
        yield "retry-after", "4"
        raise SystemExit


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param(Endless(), None, id="endless"),
        pytest.param(Failing(), (4.0, "retry-after"), id="fails half way"),
        pytest.param({1: 2, "retry-after": None}, None, id="other types"),
        pytest.param(17, None, id="a number"),
        pytest.param(["one", "two"], None, id="no pairs"),
    ],
)
def test_survives_strange_headers(headers: object, expected: tuple[float, str] | None) -> None:
    assert hint_of(carrying(headers=headers), NOW) == expected


@given(st.one_of(st.text(), st.floats().map(str), st.integers().map(str)), st.floats(0, 1e11))
def test_is_always_within_a_day(value: str, now: float) -> None:
    hint = hint_of(answered({"retry-after": value, "date": value}), now)
    assert hint is None or 0 <= hint[0] <= LONGEST_HINT
