"""T7: people are told who works, and why what they asked for waits."""

from __future__ import annotations

import json

from kit import make_job
from redrive._clock import iso
from shopkit import Shop, name


def test_a_pass_that_ended_is_no_worker_but_keeps_its_lanes_served(empty: Shop) -> None:
    empty.add(make_job(name(1), due=empty.clock.now() - 5))
    with empty.app() as app:
        app.handler("mail")(lambda: None)
        app.run_due(limit=1)
        empty.add(make_job(name(2), due=empty.clock.now() - 5))
        empty.clock.advance(180)
        assert (app.workers(), app.unserved()) == ([], [])
    data = json.loads(empty.run("status", "--json").stdout)["data"]
    assert (data["workers"], data["last_pass"]) == ([], iso(empty.clock.now() - 180))
