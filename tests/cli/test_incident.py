"""A generated incident whose truth is known, investigated with the command line alone."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from redrive import Policy, Redrive
from redrive.attempts import worker_notes
from redrive.jobs.clock import iso
from shopkit import HOUR, Shop

REGIONS = ("eu", "us", "asia")
WORKER = worker_notes.WORKER + "w7:4711"


class Truth:
    """What really happened, drawn anew for each seed."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.region = draw.choice(REGIONS)
        self.minutes = draw.randrange(11, 40)
        self.release = f"1.8.{draw.randrange(2, 9)}"
        self.port = draw.choice([443, 8443])
        self.began = 0.0
        self.died = 0

    def charge(self, order: int, region: str) -> None:
        """Call the provider of a region, which refuses once the release is out."""
        if self.began and region == self.region:
            host = f"pay-{order:02x}.{region}.internal"
            raise ConnectionRefusedError(111, f"Connection refused: {host}:{self.port}")


def happen(shop: Shop, seed: int) -> Truth:
    """Play a day: all is well, then a release whose calls of one region are refused."""
    truth = Truth(seed)
    with Redrive(shop.url, clock=shop.clock, release="1.8.1") as app:
        sell(app, truth, shop, times=20, every=HOUR)
    truth.began = shop.clock.now()
    with Redrive(shop.url, clock=shop.clock, release=truth.release) as app:
        sell(app, truth, shop, times=truth.minutes, every=60.0)
        truth.died = 2 * truth.minutes
        running = [["pay.charge", 8, shop.clock.now() - 41]]
        slots = {"total": 8, "busy": 8, "since": shop.clock.now() - 41, "running": running}
        fields = {"host": "w7", "pid": 4711, "lanes": ["pay.charge"], "lasts": 30.0}
        text = json.dumps({**fields, "release": truth.release, "slots": slots})
        app.store.note(WORKER, text, expires_in=30.0)
    return truth


def sell(app: Redrive, truth: Truth, shop: Shop, *, times: int, every: float) -> None:
    @app.handler("pay.charge", policy=Policy(attempts=1))
    def charge(order: int, region: str) -> None:
        truth.charge(order, region)

    for time in range(times):
        for number in range(6):
            charge.submit(order=time * 6 + number, region=REGIONS[number % 3])
        app.run_due()
        shop.clock.advance(every)


def data(shop: Shop, *words: str) -> Any:
    return json.loads(shop.run(*words, "--json").stdout)["data"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_command_line_tells_the_truth_about_an_incident(empty: Shop, seed: int) -> None:
    truth = happen(empty, seed)
    status = data(empty, "status")
    assert status["verdict"] == "INCIDENT"
    assert "G1 grows" in status["why"]
    group = data(empty, "group", "G1")
    assert group["since"] == group["first_seen"] == iso(truth.began)
    assert group["deaths"] == group["jobs"] == truth.died
    assert (group["first_release"], group["last_release"]) == (truth.release, truth.release)
    assert f"pay-*.{truth.region}.internal:{truth.port}" in group["title"]
    shared = {(fact["fact"], fact["value"]): fact for fact in group["shared"]}
    region = shared["payload.region", truth.region]
    assert region["share"] == 1.0
    assert region["completed"] < 0.4
    assert ("submitted-release", truth.release) in shared
    assert (
        len(data(empty, "list", f"release:{truth.release}", "state:dead", "--limit", "99"))
        == truth.died
    )
    (worker,) = status["workers"]
    assert (worker["host"], worker["busy"], worker["slots"]) == ("w7", 8, 8)
    assert worker["running"][0]["handler"] == "pay.charge"
