"""X4: times of other programs, with their zones."""

from __future__ import annotations

import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.desk.transfer.formats.times import NaiveTime, iso, moment, naive, no_zone, zone_of
from redrive.errors import UsageError

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("name", ["UTC", "Z", "utc", "+00:00", "-0000", "Etc/UTC"])
def test_there_are_many_names_for_one_zone(name: str) -> None:
    zone = zone_of(name)
    assert moment("1970-01-01T00:00:05", lambda: zone) == 5.0


@pytest.mark.parametrize(
    "name", ["", "Mars/Base", "+25:00", "../../etc/passwd", "/etc/hosts", "a\0b"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a known time zone"):
        zone_of(name)


def test_nobody_guesses_a_zone() -> None:
    with pytest.raises(NaiveTime, match="--assume-tz"):
        moment("2023-11-14T22:13:20", no_zone)
    assert moment("2023-11-14T22:13:20Z", no_zone) == 1_700_000_000


@pytest.mark.parametrize("odd", ["", "soon", "2023-13-01", [], True, None, {"seconds": []}])
def test_what_is_no_time_is_said(odd: object) -> None:
    with pytest.raises((ValueError, TypeError), match="is not a time"):
        moment(odd, no_zone)


def test_the_local_zone_has_its_summer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        local = zone_of("local")
        for text in ("2024-01-15T12:00:00", "2024-07-15T12:00:00", "2024-10-27T02:30:00"):
            expected = datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()
            assert moment(text, lambda: local) == expected
            assert naive(expected, lambda: local) == text
    finally:
        monkeypatch.undo()
        time.tzset()


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001 - naive on purpose
def test_a_time_read_and_written_is_the_same_moment(at: datetime) -> None:
    """Also in the hour that a clock shows twice, and in the one it never shows."""
    found = moment(at.isoformat(), lambda: BERLIN)
    assert moment(naive(found, lambda: BERLIN), lambda: BERLIN) == found
    assert moment(iso(found), no_zone) == found
