"""A1 on every store: a cause's life, told by whichever process looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alertkit import Kept, die, tick
from redrive import Redrive, State
from redrive.alerts import Alerts
from redrive.alerts.conditions import NAME
from stores.contract.kinds import KINDS, Kind, Place


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind: Kind = request.param
    made = Place(kind, tmp_path)
    yield made
    made.remove()


def test_the_life_of_a_cause_is_told_once_on_every_store(place: Place) -> None:
    kept, store = Kept(), place.open()
    here, there = (
        Redrive(store, clock=place.clock, alerts=Alerts(kept), lease=30) for _ in range(2)
    )
    for step in range(40):
        for _ in range(3):
            die(here, ConnectionError("refused"), "shop.pay", order=step)
        tick(here if step % 2 else there)
        place.clock.advance(35)  # longer than a turn: both get theirs
    here.desk.resolve("G1", reason="paid by hand")
    for app in (here, there):
        place.clock.advance(61)
        tick(app)
    place.clock.advance(61)
    die(there, ConnectionError("refused"), "shop.pay")
    for app in (here, there):
        tick(app)
        place.clock.advance(61)
    states = [state for _, state in kept.told()]
    assert states == ["new", "growing", "growing", "resolved", "regressed"]
    jobs = here.desk.jobs.find(handler=NAME).jobs
    assert [job.state for job in jobs] == [State.COMPLETED] * 5
    assert len({job.key for job in jobs}) == 5
