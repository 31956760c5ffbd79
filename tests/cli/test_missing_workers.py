"""T7: people are told who works, and why what they asked for waits."""

from __future__ import annotations

import json

import pytest

from kit import make_job
from redrive.cli import _follow
from redrive.jobs.clock import iso
from shopkit import Shop, name


def test_a_pass_that_ended_is_no_worker_but_keeps_its_lanes_served(empty: Shop) -> None:
    empty.add(make_job(name(1), due=empty.clock.now() - 5))
    with empty.app() as app:
        app.handler("mail")(lambda: None)
        app.run_due(limit=1)
        empty.add(make_job(name(2), due=empty.clock.now() - 5))
        empty.clock.advance(180)
        assert (app.desk.lanes.workers(), list(app.desk.lanes.unserved())) == ([], [])
    data = json.loads(empty.run("status", "--json").stdout)["data"]
    assert (data["workers"], data["last_pass"]) == ([], iso(empty.clock.now() - 180))


def test_a_retry_says_what_it_waits_for_in_the_plan_and_while_it_runs(shop: Shop) -> None:
    paused = "lane mail.send is paused by ada: redrive resume mail.send"
    nobody = "no worker is alive: redrive work module:app"
    with shop.app() as app:
        app.desk.lanes.pause("mail.send")
        app.desk.lanes.pause("other")
    for words in (["retry", "G1", "--dry-run"], ["retry", "G1", "--yes"], ["run", "R1"]):
        data = json.loads(shop.run(*words, "--json").stdout)["data"]
        assert data["waits"] == [paused, nobody], words
    assert {paused, nobody} < set(shop.run("run", "R1").stdout.splitlines())
    with shop.app() as app:
        app.desk.lanes.resume("mail.send")
        app.store.note("worker:x", "{}", expires_in=30)
    assert json.loads(shop.run("run", "R1", "--json").stdout)["data"]["waits"] == []


def test_who_follows_a_run_is_told_once_what_it_waits_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(3))

    def sleep(_seconds: float) -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(_follow.time, "sleep", sleep)
    with shop.app() as app:
        app.desk.lanes.pause("mail.send")
    said = shop.run("retry", "G1", "--yes", "--wait").stderr
    assert said.count("lane mail.send is paused by ada: redrive resume mail.send") == 1
    assert said.count("no worker is alive: redrive work module:app") == 1
