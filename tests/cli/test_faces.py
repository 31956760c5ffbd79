"""The same bulk retry from the terminal, the API and the console takes the same jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from consolekit import Page, Visitor
from redrive import Redrive
from redrive.cli import act
from shopkit import Shop, dead_letter, name
from webkit import Web

HOW = {"canary": 3, "rate": "20/s", "stop_on": "5%"}


@pytest.fixture
def outage(empty: Shop) -> Shop:
    """Forty dead letters of one cause."""
    empty.add(*(dead_letter(number) for number in range(1, 41)))
    return empty


def meanwhile(shop: Shop) -> None:
    """Between the look and the answer: jobs die, are resolved, retried, edited, purged and captured."""
    shop.clock.advance(60)
    with Redrive(shop.url, clock=shop.clock, actor="bob") as app:

        @app.handler("mail.send", attempts=1)
        def send(**_: object) -> None:
            raise ConnectionError("mail.example refused the connection")

        for _ in range(4):
            send.submit(to="eve")
        app.desk.resolve(name(1), name(2), name(3))
        app.desk.retry(name(4), name(5))
        app.run_due()
        app.desk.edit(name(6), '{"to":"eve"}')
        app.desk.resolve(name(7))
        app.desk.reopen(name(7))
        app.desk.discard(name(8), reason="spam")
        app.desk.jobs.purge([name(8)])
        app.desk.runs.start(name(9), name(10), actor="bob")
    shop.clock.advance(60)


def terminal(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(_: object, plan: Any, __: object) -> None:
        assert len(plan.ids) == 40
        meanwhile(shop)

    monkeypatch.setattr(act, "ask", ask)
    words = [f"--{key.replace('_', '-')}={value}" for key, value in HOW.items()]
    result = shop.run("retry", "handler:mail.*", *words, "--json")
    assert result.exit_code == 6, result.output
    return json.loads(result.stdout)["data"]


def api(shop: Shop, _: pytest.MonkeyPatch) -> Any:
    with shop.app() as app:
        web, body = Web(app), {"verb": "retry", "q": "handler:mail.*"}
        plan = web.post("/api/v1/actions", {**body, "dry_run": True})
        assert plan["eligible"] == 40
        meanwhile(shop)
        told = {**body, **HOW, "as_of": plan["as_of"], "confirm": 40}
        done = web.post("/api/v1/actions", told)
        again = web.post("/api/v1/actions", told)
        assert (again["done"], again["run"]) == (0, done["run"])
        return done


def console(shop: Shop, _: pytest.MonkeyPatch) -> Any:
    with shop.app() as app:
        visitor = Visitor(app)
        plan = visitor.plan("retry", "handler:mail.*")
        assert "Retry 40 jobs" in plan.text
        meanwhile(shop)
        told = {**{key: str(value) for key, value in HOW.items()}, "reason": "it is back"}
        run = visitor.carry_out(plan, **told).headers["location"].removeprefix("/runs/")
        again = Page(visitor.carry_out(plan, **told).text)
        assert "Done: 0 of 40 jobs" in again.text
        assert f"/runs/{run}" in again.links()
        found = app.desk.runs.get(run)
        skipped = {"total": sum(found.skipped.values()), "reasons": dict(found.skipped)}
        return {"matched": 40, "planned": 40, "done": found.total, "skipped": skipped, "run": run}


@pytest.mark.parametrize("face", [terminal, api, console], ids=lambda face: face.__name__)
def test_a_bulk_retry_during_an_incident(
    outage: Shop, face: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = face(outage, monkeypatch)
    assert (done["matched"], done["planned"], done["done"], done["run"]) == (40, 40, 30, "R2")
    assert done["skipped"]["reasons"] == {
        "changed since the plan was made, now resolved": 3,
        "changed since the plan was made, now dead": 4,
        "changed since the plan was made": 1,
        "is part of R1, which has not ended": 2,
    }
    with outage.app() as app:
        run = app.desk.runs.get("R2")
        assert (run.total, run.spec.canary, run.spec.rate, run.spec.stop_on) == (30, 3, 20.0, "5%")
        taken = {job.id for job in app.desk.jobs.find("R2", limit=100).jobs}
        assert taken == {name(number) for number in range(11, 41)}
