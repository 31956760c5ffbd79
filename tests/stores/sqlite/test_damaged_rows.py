"""A row that somebody else wrote nonsense into: it is named, and the others go on."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest

from kit import make_action, make_job
from redrive.errors import StoreDamaged
from redrive.jobs.job import State
from redrive.stores.contract import Query
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import add, bring_to, claim, claim_one, found, ids, move

NONSENSE = [
    ("more", "x"),
    ("more", "[]"),
    ("more", "[" * 50_000),
    ("more", '{"failure":[]}'),
    ("more", '{"reason":"weird"}'),
    ("given", '{"tags":5}'),
    ("more", '{"resolution":{}}'),
    ("more", '{"spent":[1]}'),
    ("given", '{"origin":"x"}'),
]


def spoil(path: Path, statement: str, *args: object) -> None:
    shell = sqlite3.connect(path)
    with shell:
        shell.execute(statement, args)
    shell.close()


@pytest.fixture(params=NONSENSE, ids=lambda one: f"{one[0]}={one[1][:15]}")
def column(request: pytest.FixtureRequest, store: SqliteStore, path: Path) -> str:
    """The column that is spoilt, of the job that is due first."""
    add(store, make_job("a"), make_job("b"), make_job("c"))
    name, text = request.param
    spoil(path, f"UPDATE jobs SET {name} = ? WHERE id = 'a'", text)
    return str(name)


def test_a_job_that_cannot_be_read_is_named_and_verify_says_which_column(
    store: SqliteStore, column: str
) -> None:
    for read in (lambda: store.get("a"), lambda: store.find(Query())):
        with pytest.raises(StoreDamaged, match=f"job a .*{column}.*redrive verify"):
            read()
    report = store.verify()
    (problem,) = report.problems
    assert "job a" in problem.where
    assert column in problem.what
    assert problem.remedy


def test_a_job_that_cannot_be_read_does_not_keep_the_others_from_running(
    store: SqliteStore, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    assert ids(claim(store, limit=1)) == ["b"]
    assert ids(claim(store, limit=10)) == ["c"]
    assert claim(store, limit=10) == []
    assert sum(count.jobs for count in store.counts()) == 3


def test_a_bulk_deed_skips_a_job_that_cannot_be_read(store: SqliteStore, column: str) -> None:
    moved = store.move(["a", "b", "c"], "discard", make_action("discard"))
    assert [job.id for job in moved.done] == ["b", "c"]
    ((skipped, why),) = moved.skipped
    assert skipped == "a"
    assert column in why


def test_the_log_tells_of_a_job_that_cannot_be_read_once(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(store, make_job("told-once"), make_job("other"))
    spoil(path, "UPDATE jobs SET more = 'x' WHERE id = 'told-once'")
    for _ in range(3):
        claim(store)
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "job told-once cannot be read: its more" in record.getMessage()


def test_a_running_job_that_cannot_be_read_does_not_keep_others_from_being_taken_over(
    store: SqliteStore, path: Path
) -> None:
    add(store, make_job("a"), make_job("b"))
    for one in ("a", "b"):
        claim_one(store, only=[one], lease_for=0)
    spoil(path, "UPDATE jobs SET more = 'x' WHERE id = 'a'")
    assert ids(store.seize(by="s", lease_for=30)) == ["b"]


def test_counts_that_cannot_be_read_are_logged_and_do_not_stop_the_fold(
    store: SqliteStore, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bring_to(store, State.DEAD, "a")
    spoil(path, "UPDATE ticks SET counts = 'x'")
    (problem,) = store.verify().problems
    assert problem.what == "cannot be read"
    bring_to(store, State.DEAD, "b")
    store.fold()
    assert "cannot be read: x; they are left out" in caplog.text
    assert store.verify().ok
    assert [one.deaths for one in store.group_records().values()] == [1]


def test_an_attempt_and_an_act_that_cannot_be_read_are_named(
    store: SqliteStore, path: Path
) -> None:
    bring_to(store, State.DEAD, "a")
    move(store, "retry", "a")
    spoil(path, "UPDATE attempts SET record = '{}'")
    spoil(path, "UPDATE acts SET detail = 'x'")
    with pytest.raises(StoreDamaged, match="job a: an attempt cannot be read"):
        store.get("a")
    with pytest.raises(StoreDamaged, match="action A1 cannot be read"):
        store.actions()
    assert found(store) == ["a"]
    problems = store.verify().problems
    assert [one.where.rpartition(": ")[2] for one in problems] == ["job a", "action A1"]
    assert ["attempt 1" in problems[0].what, "detail" in problems[1].what] == [True, True]


def test_a_record_that_is_gone_does_not_hide_the_other_groups(
    store: SqliteStore, path: Path
) -> None:
    bring_to(store, State.DEAD, "a")
    spoil(path, "DELETE FROM groups")
    (group,) = store.groups(Query())
    assert (group.jobs, "redrive verify" in group.title) == (1, True)
    assert "group that does not exist" in store.verify().problems[0].what
