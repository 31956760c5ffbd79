"""Durations: what is accepted, what is refused, and how they are said."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import RedriveError, UsageError
from redrive.jobs import durations
from tablekit import each_row


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (0, 0.0),
        (90, 90.0),
        (0.25, 0.25),
        (timedelta(minutes=5), 300.0),
        (timedelta(days=7, microseconds=1), 604800.000001),
        ("90", 90.0),
        ("1.5", 1.5),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("7d", 604800.0),
        ("2w", 1209600.0),
        ("250ms", 0.25),
        ("1m500ms", 60.5),
        (" 5m ", 300.0),
    ],
)
def test_seconds_reads_what_people_write(given_: Any, expected: float) -> None:
    assert durations.seconds(given_) == expected


@each_row(
    "bad",
    [
        -1,
        -0.001,
        math.nan,
        math.inf,
        -math.inf,
        10**400,
        timedelta(seconds=-1),
        "",
        "-5m",
        "5 m",
        "m",
        "5x",
        "1h-30m",
        "5m!",
        "1e3",
        "inf",
        "nan",
        "1" * 400,
        True,
        None,
        b"5m",
        [],
        object(),
    ],
)
def test_seconds_refuses_what_is_no_length_of_time_and_names_the_argument(bad: Any) -> None:
    with pytest.raises(UsageError, match="max_age") as caught:
        durations.seconds(bad, name="max_age")
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, RedriveError)


@each_row(
    "value, said",
    [
        (0, "0s"),
        (0.25, "250ms"),
        (1, "1s"),
        (59, "59s"),
        (60, "1m"),
        (61, "1m1s"),
        (3600, "1h"),
        (3601, "1h"),
        (5400, "1h30m"),
        (86400, "1d"),
        (90000, "1d1h"),
        (200000, "2d7h"),
        (604800, "7d"),
    ],
)
def test_words_says_at_most_two_units(value: float, said: str) -> None:
    assert durations.words(value) == said


@given(st.floats(min_value=0, max_value=1e12))
def test_what_words_says_can_be_read_back_and_is_close(value: float) -> None:
    back = durations.seconds(durations.words(value))
    assert math.isclose(back, value, rel_tol=0.05, abs_tol=0.6)
