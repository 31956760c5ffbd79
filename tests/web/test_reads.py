"""What the console shows is in the API, too: shared facts, lanes, handlers, counts, the pace of a run."""

from __future__ import annotations

from pathlib import Path

from redrive import Keep, Policy, Redrive
from redrive.jobs.clock import iso
from shopkit import name
from webkit import Web

DAY = 86_400


def test_groups_by_status_and_in_order(web: Web, app: Redrive) -> None:
    def names(**query: str) -> list[str]:
        return [group["group"] for group in web.get("/api/v1/groups", params=query)["groups"]]

    assert names() == ["G1", "G2", "G3"]
    app.desk.groups.mark("G3", resolved=True)
    assert names(status="open") == ["G1", "G2"]
    assert names(status="resolved") == ["G3"]
    app.desk.resolve("G3")
    assert names(status="resolved") == ["G3"]  # without jobs, too
    assert names(status="regressed") == []
    assert names(status="new", sort="age") == ["G1", "G2"]
    assert names(sort="growth", limit="1") == ["G1"]
    assert web.ask("GET", "/api/v1/groups?sort=odd").status_code == 400


def test_what_a_group_shares(web: Web) -> None:
    shared = web.get("/api/v1/groups/G1")
    assert (shared["shared_of"], shared["completed_of"]) == (2, 1)
    assert {
        "fact": "payload.to",
        "value": "ada@example.com",
        "share": 1.0,
        "completed": None,
    } in shared["shared"]
    assert [job["id"] for job in shared["newest"]] == [name(2), name(1)]
    assert shared["deaths_last_hour"] == 0
    assert web.ask("GET", "/api/v1/groups/G99").status_code == 404


def test_lanes_with_jobs_pauses_and_who_serves_them(web: Web, app: Redrive) -> None:
    app.desk.lanes.pause("later", reason="not yet", actor="mira")
    lanes = {lane["lane"]: lane for lane in web.get("/api/v1/lanes")["lanes"]}
    assert list(lanes)[:2] == ["pay.charge", "later"]
    charge = lanes["pay.charge"]
    assert (charge["pending"], charge["dead"], charge["unserved"]) == (2, 1, True)
    assert charge["oldest_due_seconds"] > 80_000
    assert lanes["later"]["pause"]["by"] == "mira"
    assert lanes["mail.send"]["completed"] == 1


def test_handlers_of_the_program(web: Web) -> None:
    (handler,) = web.get("/api/v1/handlers")["handlers"]
    assert (handler["handler"], handler["lane"]) == ("mail.send", "mail.send")
    assert handler["arguments"] == ["to", "text", "times", "password"]
    assert handler["already_done"] is False


def test_the_store_and_how_long_jobs_stay_in_it(web: Web, app: Redrive) -> None:
    @app.handler("bill.send", policy=Policy(keep=Keep(completed=60, resolved=3600, dead=7 * DAY)))
    def bill() -> None:
        """Never runs here."""

    system = web.get("/api/v1/system")
    assert (system["kind"], system["schema"], system["durability"]) == ("sqlite", 3, "full")
    files = [
        path for path in Path(app.store.url[7:]).parent.iterdir() if path.name != "jobs.db-shm"
    ]
    assert 0 < system["bytes"] <= sum(path.stat().st_size for path in files)
    assert system["kept"] == [
        {"handlers": ["bill.send"], "completed": 60, "resolved": 3600, "dead": 7 * DAY},
        {"handlers": ["mail.send"], "completed": DAY, "resolved": DAY, "dead": None},
        {"handlers": None, "completed": DAY, "resolved": DAY, "dead": None},
    ]
    removals = {one["state"]: one for one in system["removals"]}
    oldest = min(job.updated for job in app.desk.jobs.find("state:dead").jobs)
    assert removals["dead"] == {
        "state": "dead",
        "oldest": iso(oldest),
        "not_before": iso(oldest + 7 * DAY),
    }
    assert removals["completed"]["not_before"] == system["now"]  # a minute is long over


def test_a_server_without_a_program_does_not_guess_how_long_jobs_stay() -> None:
    with Redrive("memory:") as app:
        system = Web(app).get("/api/v1/system")
    assert (system["kind"], system["bytes"], system["schema"]) == ("memory", None, None)
    assert system["kept"] == []
    assert {one["not_before"] for one in system["removals"]} == {None}


def test_counting_what_matches(web: Web) -> None:
    assert web.get("/api/v1/count", params={"q": "state:dead"}) == {"count": 4, "more": False}
    assert web.get("/api/v1/count", params={"q": "error:*refused*"})["count"] == 3
    assert web.ask("GET", "/api/v1/count").status_code == 400


def test_the_pace_of_a_run(web: Web, app: Redrive) -> None:
    app.desk.runs.start("G1", rate="1/s")
    run = web.get("/api/v1/runs/R1")
    assert (run["pace"]["numbers"], run["rate_now"], run["arrived"]) == ([], 0.0, 0)
    assert "no worker is alive" in run["waits"][0]


def test_actions_by_actor_verb_target_and_time(web: Web, app: Redrive) -> None:
    app.desk.groups.mark("G1", note="x", actor="mira")
    app.desk.resolve(name(1), actor="kenji")

    def verbs(**query: str) -> list[str]:
        return [a["verb"] for a in web.get("/api/v1/actions", params=query)["actions"]]

    assert verbs() == ["resolve", "note"]
    assert verbs(actor="mira") == ["note"]
    assert verbs(verb="resolve") == ["resolve"]
    assert verbs(target="G1") == ["note"]
    app.submitter.settings.clock.advance(100)  # type: ignore[attr-defined]
    assert verbs(since="50") == []
    assert verbs(since="150") == ["resolve", "note"]
