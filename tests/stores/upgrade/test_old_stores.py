"""Stores that were written by commit 1ad7865 open, and hold all they held (`make_stores` made them)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pgkit
from kit import START, make_failure, make_job
from redrive import Redrive
from redrive.jobs.job import State
from redrive.stores.contract import UPGRADED, Query, Store
from redrive.stores.jsonl import JsonlStore
from redrive.stores.postgres import PostgresStore
from redrive.stores.sqlite import SqliteStore
from redrive.testing import ManualClock
from stores.upgrade.contents import contents
from workkit import until

STORES = Path(__file__).parent / "stores"
EXPECTED: dict[str, Any] = json.loads((STORES / "expected.json").read_text("utf-8"))
RENAMED = {"limit": "max_attempts", "max_attempts": "own_max_attempts"}
"""Fields of a job that had another name at 1ad7865."""
EVERYTHING = Query(states=frozenset(State), limit=1000)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(EXPECTED["now"])


@pytest.fixture(params=["store.db", "store.jsonl", "store.sql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    """A copy of one of the old stores, brought up to this version, at the time it was written."""
    name = request.param
    opened: Store
    if name == "store.sql":
        opened = PostgresStore(pgkit.loaded(STORES / name), clock=clock, migrating=True)
    else:
        kind = SqliteStore if name == "store.db" else JsonlStore
        opened = kind(shutil.copy(STORES / name, tmp_path), clock=clock)
    opened.migrate()
    yield opened
    opened.close()
    if name == "store.sql":
        pgkit.drop(opened.url.rpartition("schema=")[2])


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """Name the places where what was expected is not found; what is new is fine."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line
            for name, value in expected.items()
            for line in differences(value, found.get(name, "(nothing)"), f"{place}.{name}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = zip(expected, found, strict=True)
        return [
            line for n, pair in enumerate(pairs) for line in differences(*pair, f"{place}[{n}]")
        ]
    return [] if expected == found else [f"{place}: {expected!r} is now {found!r}"]


def _renamed(job: dict[str, Any]) -> dict[str, Any]:
    return {RENAMED.get(name, name): value for name, value in job.items()}


def _expected(part: str) -> Any:
    """Return what an old store held, as this version keeps it."""
    expected = EXPECTED[part]
    if part == "jobs":
        expected = {job_id: _renamed(job) for job_id, job in expected.items()}
        for job in expected.values():
            job["holder"] = job["holder"] and UPGRADED + job["holder"]
    if part == "notes":
        return {name: note for name, note in expected.items() if not name.startswith("group:")}
    return expected


@pytest.mark.parametrize("part", ["jobs", "groups", "acts", "notes", "runs"])
def test_an_old_store_holds_all_it_held(store: Store, part: str) -> None:
    found = contents(store, EVERYTHING)
    assert differences(_expected(part), found[part]) == []
    assert found[part].keys() == EXPECTED[part].keys() if part == "jobs" else True


def test_the_comparison_notices_a_lost_field_and_a_changed_one() -> None:
    assert differences({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3], "new": 0}}) == [
        ".a.b[1]: 2 is now 3"
    ]
    assert differences({"a": 1}, {}) == [".a: 1 is now '(nothing)'"]
    assert differences([1], [1, 2]) == [": [1] is now [1, 2]"]


def test_an_old_store_is_sound(store: Store) -> None:
    assert store.verify().problems == []


def test_a_group_keeps_its_number_when_its_only_job_was_purged(store: Store) -> None:
    purged = EXPECTED["purged_group"]
    failure = make_failure("auth", fingerprint=purged["fingerprint"])
    job = make_job("new", state=State.DEAD, failure=failure, finished=START)
    assert store.add([job])[0].group == purged["number"]


def test_the_jobs_of_an_old_store_are_claimed_and_returned_as_before(store: Store) -> None:
    handlers = ["mail", "pay", "sync"]
    claims = store.claim(handlers, limit=100, holder="new", lease_for=60.0, ignore_waits=True)
    pending = {job_id for job_id, job in EXPECTED["jobs"].items() if job["state"] == "pending"}
    crashed = {job_id for job_id in pending if EXPECTED["jobs"][job_id]["crashes"]}
    assert {claim.job.id for claim in claims} == pending - crashed
    lost = store.seize(by="new", lease_for=60.0, holder=UPGRADED + "w3")
    assert [claim.job.id for claim in lost] == ["r-seized"]


def test_jobs_that_ran_during_the_upgrade_are_returned_by_a_worker(
    store: Store, clock: ManualClock
) -> None:
    """They spend nothing and have not crashed, though their lease ended without a word."""
    ran = {job_id: job for job_id, job in EXPECTED["jobs"].items() if job["state"] == "running"}
    app = Redrive(store, clock=clock, lease=2.0)
    for name in {job["handler"] for job in ran.values()}:
        app.handler(name)(lambda **_: None)
    for lane in {job["lane"] for job in ran.values()}:
        app.desk.lanes.pause(lane)  # so that they stay as they were returned
    clock.advance(1.1e9)  # one of them has a very long lease
    with app.worker():
        until(lambda: not any(count.state is State.RUNNING for count in store.counts()))
    for job_id, before in ran.items():
        job = store.get(job_id)
        assert job is not None
        assert job.crashes == before["crashes"]
        outcomes = [attempt.outcome for attempt in job.history]
        assert outcomes == [one["outcome"] for one in before["history"]], "no new attempt, no crash"
        assert (job.state, job.detail) == (State.PENDING, "the store was upgraded while it ran")
        assert job.attempts == before["attempts"] - 1


def test_what_people_said_of_groups_and_their_deaths_are_in_the_records(store: Store) -> None:
    records = store.group_records()
    for name, note in EXPECTED["notes"].items():
        if name.startswith("group:"):
            mark = json.loads(note["value"])
            record = records[int(name.removeprefix("group:"))]
            assert (record.resolved, record.resolved_by, record.reason) == (
                mark["resolved"],
                mark["by"],
                mark["reason"],
            )
            assert (record.note, record.noted, record.noted_by) == (
                mark["note"],
                mark["noted"],
                mark["noted_by"],
            )
    dead = [job for job in EXPECTED["jobs"].values() if job["state"] == "dead" and job["group"]]
    assert sum(record.deaths for record in records.values()) == len(dead)
    if not isinstance(store, PostgresStore):  # its migration counts 30 days by the server's clock
        assert sum(map(sum, store.group_curve(3600, 720, list(records)).values())) == len(dead)
    assert all(record.first_seen for number, record in records.items() if record.deaths)


def test_dead_jobs_know_when_they_died(store: Store) -> None:
    for job in store.find(Query(states=frozenset({State.DEAD}), limit=1000)).jobs:
        assert job.died_at is not None
        assert job.finished is not None
        assert job.died_at <= job.finished
