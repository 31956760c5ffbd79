"""What the tests of deliveries share: an app, a canary, and a watch over every connection."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import ip_address

import pytest

from postkit import Canary, Names
from redrive import Redrive
from redrive.delivery import guard
from redrive.testing import ManualClock

_watching: list[list[str]] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """Note where this process connects to; nothing may leave the machine, whatever is broken."""
    if event == "socket.connect" and _watching:
        place = arguments[1]
        if isinstance(place, tuple):
            _watching[-1].append(str(place[0]))
            if not ip_address(str(place[0])).is_loopback:
                raise ConnectionRefusedError(f"a test may not connect to {place[0]}")


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def connections() -> Iterator[list[str]]:
    """Every address that was connected to."""
    _watching.append([])
    yield _watching[-1]
    _watching.pop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(clock: ManualClock) -> Iterator[Redrive]:
    with Redrive("memory:", clock=clock) as made:
        yield made


@pytest.fixture
def canary() -> Iterator[Canary]:
    made = Canary()
    yield made
    made.close()


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    made = Names()
    monkeypatch.setattr(guard, "resolve", made)
    return made
