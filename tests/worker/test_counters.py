"""Counters are right with many processes, never go back, and count nothing twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pgkit
from kit import make_attempt, make_job
from redrive import Redrive
from redrive.attempts import counters
from redrive.attempts.counters import Counters
from redrive.errors import StoreError
from redrive.jobs.job import Claim, Completed, Reason, Settlement
from redrive.stores import open_store
from redrive.stores.memory import MemoryStore
from workkit import url_of

DONE = ("attempts", "mail", "done")


def done(seconds: float = 0.5, lane: str = "mail") -> tuple[Any, Settlement]:
    job = make_job(handler=lane)
    attempt = make_attempt(job, duration=seconds)
    return job, Settlement(Claim(job), Completed(Reason.DONE), attempt)


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Redrive]:
    schema = pgkit.new_schema() if request.param == "postgres" else ""
    url = pgkit.url_of(schema) if schema else url_of(request.param, tmp_path)
    with Redrive(url) as made:
        yield made
    if schema:
        pgkit.drop(schema)


def test_a_pass_is_counted_on_every_store(app: Redrive) -> None:
    @app.handler("mail", attempts=2)
    def mail(fails: bool) -> None:
        if fails:
            raise ValueError("no")

    for fails in (False, False, True):
        mail.submit(fails)
    app.run_due()
    app.run_due(ignore_backoff=True)
    total = counters.total(app.store)
    took = total.pop(("seconds", "mail"))
    assert took > 0
    assert sum(total.pop(("bucket", "mail", le), 0) for le in counters.LE) == 4
    assert total == {
        DONE: 2,
        ("attempts", "mail", "failed"): 2,
        ("captured", "mail"): 1,
        ("dead", "mail", "exhausted"): 1,
    }


def test_what_fails_in_place_is_counted_when_the_program_ends(tmp_path: Path) -> None:
    with Redrive(tmp_path / "jobs.db") as app:

        @app.handler("mail", attempts=1)
        def mail() -> None:
            raise ValueError("no")

        mail.try_now()
        with app.capture("row", {}, reraise=False):
            raise ValueError("no")
        assert counters.total(app.store) == {}
    with Redrive(tmp_path / "jobs.db") as app:
        total = counters.total(app.store)
    assert total["dead", "mail", "exhausted"] == total["dead", "row", "captured"] == 1
    assert total["captured", "mail"] == total["captured", "row"] == 1


def test_many_processes_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    """Each has a connection and counters of its own; they all add to one note at the same time."""

    def work() -> None:
        store, mine = open_store(str(tmp_path / "jobs.db")), Counters()
        for _ in range(20):
            mine.count(*done())
            mine.write(store)
        while mine._batch or mine._new:  # others were faster twenty times
            mine.write(store)
        store.close()

    open_store(str(tmp_path / "jobs.db")).close()
    threads = [threading.Thread(target=work) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    store = open_store(str(tmp_path / "jobs.db"))
    assert counters.total(store)[DONE] == 120
    store.close()


class Doubtful(MemoryStore):
    """Writes, or not, and then says that it could not."""

    broken = ""

    def note(self, *args: Any, **options: Any) -> Any:
        if self.broken == "before":
            raise StoreError("no")
        found = super().note(*args, **options)
        if self.broken == "after":
            raise StoreError("no answer")
        return found


@pytest.mark.parametrize("broken", ["before", "after"])
def test_an_addition_whose_answer_was_lost_is_made_once(broken: str) -> None:
    store, mine, other = Doubtful(), Counters(), Counters()
    mine.count(*done())
    store.broken = broken
    with pytest.raises(StoreError):
        mine.write(store)
    store.broken = ""
    other.count(*done())
    other.write(store)  # meanwhile another adds
    mine.count(*done())
    mine.write(store)
    mine.write(store)
    assert counters.total(store)[DONE] == 3


@pytest.mark.parametrize("counts", [True, False])
def test_a_forked_child_does_not_add_what_its_parent_counted(counts: bool, tmp_path: Path) -> None:
    mine = Counters()
    for _ in range(5):
        mine.count(*done())
    child = os.fork()
    if child == 0:
        if counts:
            mine.count(*done(lane="pay"))
        store = open_store(str(tmp_path / "child.db"))
        mine.write(store)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store = open_store(str(tmp_path / "child.db"))
    total = counters.total(store)
    store.close()
    assert total.get(("attempts", "pay", "done"), 0) == counts
    assert DONE not in total


def test_a_note_that_nobody_can_read_stops_no_work(caplog: pytest.LogCaptureFixture) -> None:
    store, mine = MemoryStore(), Counters()
    store.note("counters", "[1, 2")
    mine.count(*done())
    mine.write(store)
    assert counters.total(store)[DONE] == 1
    assert "counters" in caplog.text
