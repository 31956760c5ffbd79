"""Each test that asks for `store` or `place` runs once for every kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.kinds import KINDS, Kind, Place


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*capabilities): only for stores that can (or can not) do this"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave out the kinds that cannot do what a test needs, rather than skip them at run time."""
    if "kind" not in metafunc.fixturenames:
        return
    marks = metafunc.definition.iter_markers("needs")
    needed = [capability for mark in marks for capability in mark.args]
    able = [kind for kind in KINDS if all(_can(kind, each) for each in needed)]
    metafunc.parametrize("kind", able, ids=[kind.name for kind in able], scope="function")


def _can(kind: Kind, capability: str) -> bool:
    """Tell whether a kind has a capability, or lacks one that is written with a "not "."""
    name = capability.removeprefix("not ")
    return bool(getattr(kind, name)) is (name == capability)


@pytest.fixture
def place(kind: Kind, tmp_path: Path) -> Iterator[Place]:
    place = Place(kind, tmp_path)
    yield place
    place.remove()


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()


@pytest.fixture
def clock(place: Place) -> ManualClock:
    return place.clock
