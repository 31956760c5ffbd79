"""The API walks the same on every store (T1)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit import make_failure, make_job
from redrive import Reason, Redrive, State
from redrive.errors import StoreOutdated
from stores.contract.kinds import KINDS, Kind, Place
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
    plan = web.post("/api/v1/plans", {"verb": "retry", "q": "G1"})
    done = web.post(f"/api/v1/plans/{plan['plan']}/carry-out", {"confirm": 3})
    assert (done["done"], done["run"]) == (3, "R1")
    app.run_due()
    run = web.get("/api/v1/runs/R1")
    assert (run["phase"], run["succeeded"]) == ("done", 3)
    assert web.get("/api/v1/health")["counts"]["completed"] == 4
    assert web.ask("GET", "/readyz", token=None).status_code == 200
    actions = web.get("/api/v1/actions")["actions"]
    assert [action["verb"] for action in actions] == ["mark", "retry", "edit", "submit"]


OLD = Path(__file__).parents[1] / "stores" / "upgrade" / "stores"
FILES = [("sqlite", "store.db", "sqlite.file"), ("jsonl", "store.jsonl", "jsonl.store")]


@pytest.fixture(params=FILES, ids=lambda one: one[0])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str, str]:
    """An older file store, its URL, and the module that migrates it when it is opened."""
    scheme, name, module = request.param
    path = tmp_path / name
    shutil.copy(OLD / name, path)
    path.chmod(0o600)
    return path, f"{scheme}:{path}", f"redrive.stores.{module}"


def test_a_store_is_opened_and_migrated_where_it_is_mounted_not_by_a_request(
    old: tuple[Path, str, str],
) -> None:
    url = old[1]
    with Redrive(url) as app:
        web = Web(app)
        with Redrive(url, read_only=True) as reader:  # which would refuse an older one
            assert reader.desk.jobs.counts()
        assert web.get("/api/v1/jobs")["jobs"]


def test_a_large_older_store_is_refused_where_it_is_mounted(
    old: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, url, module = old
    monkeypatch.setattr(f"{module}.MIGRATED_ON_OPENING", 0)
    before = path.read_bytes()
    with Redrive(url) as app, pytest.raises(StoreOutdated, match="redrive migrate"):
        Web(app)
    assert path.read_bytes() == before
