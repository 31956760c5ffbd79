"""People are told who works, and why what they asked for waits."""

from __future__ import annotations

import json

import pytest

from kit import make_job
from redrive.alerts.conditions import look
from redrive.alerts.rules import Rules
from redrive.cli import runs
from redrive.jobs.clock import iso
from redrive.runs.driver import Driver
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


def test_a_lane_is_unserved_at_once_after_its_handler_was_renamed(empty: Shop) -> None:
    with empty.app() as app:
        app.handler("user.bye")(lambda: None)
        app.handler("mail")(lambda: None)
        app.run_due()
    empty.add(make_job(name(1), handler="user.bye", due=empty.clock.now() - 5))
    empty.clock.advance(60)
    with empty.app() as app:
        app.handler("user.farewell")(lambda: None)
        app.handler("mail")(lambda: None)
        app.run_due()
        world = look(app.desk, {}, Rules())
        assert "unserved user.bye" in [condition.subject for condition in world.conditions]
    assert "no worker serves: user.bye" in empty.run("doctor").stdout
    assert json.loads(empty.run("status", "--json").stdout)["data"]["unserved"] == ["user.bye"]


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


def worker_note(shop: Shop, **slots: object) -> str:
    now = shop.clock.now()
    running = [["pdf.print", 8, now - 41]]
    slots = {"total": 8, "busy": 8, "since": now - 41, "running": running, **slots}
    note = {"host": "w1", "pid": 7, "lanes": ["mail.send"], "lasts": 30.0, "slots": slots}
    return json.dumps(note)


def released(shop: Shop, note: str, expires: float = 29.0) -> list[str]:
    """Start a run, have its jobs released 20 seconds ago, and return what it waits for."""
    with shop.app() as app:
        app.desk.runs.start("handler:mail.send state:dead")
        assert Driver(app.store, app.submitter.bus, "w1").tick()
        shop.clock.advance(20)
        app.store.note("worker:x", note, expires_in=expires)
    return json.loads(shop.run("run", "R1", "--json").stdout)["data"]["waits"]


def test_a_run_that_finds_no_free_slot_says_what_the_workers_run(shop: Shop) -> None:
    lines = released(shop, worker_note(shop))
    assert lines == ["lane mail.send finds no free slot: 8 of 8 busy with pdf.print for 1m1s"]
    (worker,) = json.loads(shop.run("status", "--json").stdout)["data"]["workers"]
    assert (worker["slots"], worker["busy"]) == (8, 8)
    assert [(one["handler"], one["jobs"]) for one in worker["running"]] == [("pdf.print", 8)]


def test_a_run_waits_for_a_worker_that_is_silent_or_serves_other_lanes(shop: Shop) -> None:
    (wait,) = released(shop, worker_note(shop), expires=10.0)
    assert wait == "no heartbeat of w1:7, which alone serves lane mail.send, for 20s"
    with shop.app() as app:
        app.store.note("worker:x", '{"lanes": ["other"]}', expires_in=30)
    (wait,) = json.loads(shop.run("run", "R1", "--json").stdout)["data"]["waits"]
    assert wait == "no worker serves lane mail.send: start one whose program has its handlers"


def test_who_follows_a_run_is_told_once_what_it_waits_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(3))

    def sleep(_seconds: float) -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs.time, "sleep", sleep)
    with shop.app() as app:
        app.desk.lanes.pause("mail.send")
    said = shop.run("retry", "G1", "--yes", "--wait").stderr
    assert said.count("lane mail.send is paused by ada: redrive resume mail.send") == 1
    assert said.count("no worker is alive: redrive work module:app") == 1
