"""A shop with a clock that stands still and handlers that can be mended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import pgkit
from redrive import GiveUp, Policy, Redrive, constant
from redrive.runs.driver import Driver
from runs.scene import Scene
from stores.contract.kinds import KINDS, Place
from workkit import url_of


@dataclass
class Shop:
    """Jobs that died, and a handler that does what it is told."""

    place: Place
    broken: set[int] = field(default_factory=set)
    """The jobs that fail again, as they did before."""
    odd: set[int] = field(default_factory=set)
    """The jobs that fail of something else."""
    slow: set[int] = field(default_factory=set)
    """The jobs that fail now and are tried again in an hour."""
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.down = True
        self.app = self.open()

    def open(self) -> Redrive:
        """Give one more app on the same store, as another process would have it."""
        app = Redrive(self.place.open(), clock=self.place.clock, actor="ada")

        @app.handler("charge", policy=Policy(attempts=2, wait=constant(3600)))
        def charge(n: int) -> None:
            self.seen.append(n)
            if n in self.slow:
                raise ConnectionError("try me later")
            if n in self.odd:
                raise GiveUp("no vat_id")
            if self.down or n in self.broken:
                raise GiveUp("it is down")

        self.charge = charge
        return app

    def die(self, number: int) -> list[str]:
        """Have so many jobs die of one cause; gives their ids, oldest first."""
        first = len(self.seen)
        ids = [self.charge.submit(first + n).id for n in range(number)]
        self.down = True
        self.app.run_due()
        self.down = False
        assert [self.app.get(one).state for one in ids] == ["dead"] * number
        self.seen.clear()
        return ids

    def driver(self, name: str = "d1") -> Driver:
        """Give somebody who drives runs."""
        return Driver(self.app.store, self.app.submitter.bus, name)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    place = Place(next(kind for kind in KINDS if kind.name == "sqlite"), tmp_path)
    yield Shop(place)
    place.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    schema = pgkit.new_schema() if request.param == "postgresql" else ""
    url = pgkit.url_of(schema) if schema else url_of(request.param, tmp_path)
    scene = Scene(url, tmp_path)
    yield scene
    scene.close()
    if schema:
        pgkit.release(schema)
