"""A3: counters are right with many processes, never go back, and count nothing twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pgkit
from kit import make_attempt, make_failure, make_job
from redrive import Redrive, State
from redrive.attempts import counters
from redrive.attempts.counters import Counters
from redrive.errors import StoreError
from redrive.jobs.job import Claim, Completed, Dead, Reason, Settlement
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


def test_in_place_it_is_written_as_soon_as_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "EVERY", 0.0)
    with Redrive("memory:") as app:
        with app.capture("row", {}, reraise=False):
            raise ValueError("no")
        assert counters.total(app.store)["captured", "row"] == 1


@pytest.mark.parametrize(
    ("seconds", "le"),
    [(0.0, "0.01"), (0.01, "0.01"), (0.011, "0.1"), (600.0, "600.0"), (1e9, "+Inf")],
)
def test_an_attempt_is_counted_under_the_time_it_took_at_most(seconds: float, le: str) -> None:
    store, mine = MemoryStore(), Counters()
    mine.count(*done(seconds))
    mine.write(store)
    assert counters.total(store)["bucket", "mail", le] == 1
    assert counters.total(store)["seconds", "mail"] == seconds


def test_a_crash_is_an_attempt_without_a_duration() -> None:
    store, mine = MemoryStore(), Counters()
    job = make_job()
    attempt = make_attempt(job, make_failure("crash"))
    mine.count(job, Settlement(Claim(job), Dead(Reason.CRASH, "3 crashes"), attempt))
    mine.write(store)
    assert not [key for key in counters.total(store) if key[0] in {"bucket", "seconds"}]
    assert counters.total(store)["attempts", "mail", "crashed"] == 1


def test_a_claim_that_was_given_back_is_no_attempt() -> None:
    store, mine = MemoryStore(), Counters()
    job, settlement = done()
    mine.count(job, Settlement(settlement.claim, settlement.verdict))
    mine.write(store)
    assert counters.total(store) == {}
    assert not store.notes(), "nothing to say, nothing written"


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


def test_the_note_does_not_grow_with_the_processes_that_ever_were() -> None:
    store = MemoryStore()
    for _ in range(counters._REMEMBERED + 50):
        one = Counters()
        one.count(*done())
        one.write(store)
    assert counters.total(store)[DONE] == counters._REMEMBERED + 50
    (note,) = store.notes("counters")
    assert len(note.value) < 40 * counters._REMEMBERED


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


def test_jobs_of_runs_and_alerts_are_counted_when_they_end() -> None:
    store, mine = MemoryStore(), Counters()
    for run, verdict in ((3, Completed(Reason.DONE)), (3, Dead(Reason.PERMANENT, "")), (-3, None)):
        job = make_job(run=run, state=State.RUNNING, reason=Reason.PERMANENT)
        failure = make_failure("permanent") if isinstance(verdict, Dead) else None
        ended = verdict or Completed(Reason.DONE)
        mine.count(job, Settlement(Claim(job), ended, make_attempt(job, failure)))
    job = make_job(handler="redrive.alert", payload='{"channel":"slack"}')
    mine.count(job, Settlement(Claim(job), Completed(Reason.DONE), make_attempt(job)))
    mine.write(store)
    total = counters.total(store)
    assert total["run_jobs", "succeeded"] == total["run_jobs", "failed"] == 1
    assert total["alerts", "slack", "sent"] == 1


def test_a_note_that_nobody_can_read_stops_no_work(caplog: pytest.LogCaptureFixture) -> None:
    store, mine = MemoryStore(), Counters()
    store.note("counters", "[1, 2")
    mine.count(*done())
    mine.write(store)
    assert counters.total(store)[DONE] == 1
    assert "counters" in caplog.text
