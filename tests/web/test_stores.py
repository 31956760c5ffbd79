"""The API walks the same on every store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kit import make_failure, make_job
from redrive import Reason, Redrive, State
from redrive.errors import StoreForeign
from redrive.stores import open_store
from stores.contract.kinds import KINDS, Kind, Place
from tablekit import each_row
from webkit import Web


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind: Kind = request.param
    made = Place(kind, tmp_path)
    yield made
    made.remove()


def test_from_submit_to_a_run(place: Place) -> None:
    app = Redrive(place.open(), clock=place.clock)
    dead = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "failure": make_failure("transient")}
    app.store.add([make_job(f"dead{n}", finished=1.0, **dead) for n in range(10, 13)])
    app.handler("mail")(lambda **more: None)
    web = Web(app)
    made = web.post("/api/v1/jobs", {"handler": "mail", "payload": {"to": "ada"}, "tags": ["vip"]})
    assert web.get("/api/v1/jobs", params={"q": "tag:vip"})["jobs"][0]["id"] == made["id"]
    assert web.get("/api/v1/groups")["groups"][0]["jobs"] == 3
    body = {"payload": {"to": "bob"}, "edits": 0}
    assert web.post(f"/api/v1/jobs/{made['id']}/edit", body)["payload"] == {"to": "bob"}
    body = {"verb": "retry", "q": "G1"}
    plan = web.post("/api/v1/actions", {**body, "dry_run": True})
    done = web.post("/api/v1/actions", {**body, "as_of": plan["as_of"], "confirm": 3})
    assert (done["done"], done["run"]) == (3, "R1")
    app.run_due()
    run = web.get("/api/v1/runs/R1")
    assert (run["phase"], run["succeeded"]) == ("done", 3)
    assert web.get("/api/v1/health")["counts"]["completed"] == 4
    assert web.ask("GET", "/readyz", token=None).status_code == 200
    actions = web.get("/api/v1/actions")["actions"]
    assert [action["verb"] for action in actions] == ["mark", "retry", "edit", "submit"]


@each_row("kind", ["sqlite", "jsonl"])
def test_a_store_of_another_version_is_refused_where_it_is_mounted(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    open_store(f"{kind}:{path}").close()
    if kind == "sqlite":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 1")
    else:
        path.write_bytes(path.read_bytes().replace(b'"version":3', b'"version":1', 1))
    before = path.read_bytes()
    with Redrive(f"{kind}:{path}") as app, pytest.raises(StoreForeign, match="schema 1"):
        Web(app)
    assert path.read_bytes() == before
