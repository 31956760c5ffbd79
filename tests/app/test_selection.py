"""Which jobs a deed is meant for: never more than was said."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from redrive import Policy, Redrive, State
from redrive.errors import JobNotFound, Kept, KeyConflict, UsageError
from tablekit import each_row


@pytest.fixture
def jobs(app: Redrive) -> dict[str, str]:
    """One job of each kind: waiting, dead, resolved."""

    @app.handler("work", policy=Policy(attempts=1))
    def work(name: str) -> None:
        if name != "good":
            raise ValueError("bad")

    dead, closed = work.submit("dead"), work.submit("closed")
    app.run_due()
    app.desk.resolve(closed.id)
    waiting = work.options(delay="1h").submit("good")
    return {"dead": dead.id, "closed": closed.id, "waiting": waiting.id}


@each_row(
    "filters",
    [
        {"stat": "dead"},
        {"handlr": "x"},
        {"handler": ""},
        {"handler": None},
        {"state": ()},
        {"tag": ""},
    ],
)
def test_a_misspelled_or_empty_filter_is_refused_because_it_would_mean_everything(
    app: Redrive, jobs: dict[str, str], filters: dict[str, Any]
) -> None:
    for verb in (app.desk.retry, app.desk.resolve, app.desk.jobs.find, app.desk.groups.find):
        with pytest.raises(UsageError, match="filter"):
            verb(**filters)
    with pytest.raises(UsageError, match="filter"):
        app.desk.discard(reason="r", **filters)
    assert app.desk.log.actions()[0].verb == "resolve"
    assert len(app.desk.log.actions()) == 1


def test_groups_and_filters_mean_the_usual_states_and_ids_mean_themselves(
    app: Redrive, jobs: dict[str, str]
) -> None:
    assert [job.id for job in app.desk.discard(handler="work", reason="r").done] == [jobs["dead"]]
    assert {job.id for job in app.desk.reopen(handler="w*").done} == {jobs["dead"], jobs["closed"]}
    app.desk.resolve(jobs["closed"])
    moved = app.desk.retry(handler="work")
    assert {job.id for job in moved.done} == {jobs["dead"], jobs["waiting"]}
    assert [job.id for job in app.desk.retry(jobs["closed"]).done] == [jobs["closed"]]


def test_ids_with_filters_or_groups_are_refused(app: Redrive, jobs: dict[str, str]) -> None:
    for call in (
        lambda: app.desk.discard(jobs["waiting"], state="dead", reason="r"),
        lambda: app.desk.retry(jobs["waiting"], "G1"),
        app.desk.retry,
    ):
        with pytest.raises(UsageError):
            call()
    assert app.get(jobs["waiting"]).state is State.PENDING


def test_an_unknown_id_changes_nothing_at_all(app: Redrive, jobs: dict[str, str]) -> None:
    with pytest.raises(JobNotFound, match="nothing was changed"):
        app.desk.retry(jobs["dead"], "01J9ZQ4B7V5X2C8D3E6F1G0H4K")
    assert app.get(jobs["dead"]).state is State.DEAD


def test_each_goes_through_all_pages(app: Redrive) -> None:
    @app.handler("many")
    def many(number: int) -> None: ...

    ids = [many.submit(number).id for number in range(7)]
    assert [job.id for job in app.desk.jobs.each(handler="many")] == ids[::-1]


def test_a_bare_decorator_says_how_it_is_written(app: Redrive) -> None:
    with pytest.raises(UsageError, match=r'@app\.handler\("name"\)'):

        @app.handler  # type: ignore[arg-type]
        def function() -> None: ...


def test_an_isolation_that_nobody_knows_is_refused(app: Redrive) -> None:
    with pytest.raises(UsageError, match="'thread' or 'process'; found 'fork'"):
        app.handler("slow", isolation="fork")(print)  # type: ignore[arg-type]


def test_cancelling_atry_now_cancels_it_and_keeps_nothing(app: Redrive) -> None:
    """Who stops a task means the task, not the job."""
    started = asyncio.Event()

    @app.handler("slow")
    async def slow() -> None:
        started.set()
        await asyncio.Event().wait()

    async def cancelled(call: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(call)
        await started.wait()
        started.clear()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def program() -> None:
        await cancelled(slow.atry_now())
        await cancelled(slow.options(durable=True).atry_now())
        task = asyncio.create_task(slow.options(durable=True).atry_now())
        await asyncio.sleep(0)  # now it is being stored, on another thread
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(program())
    given_back = [(job.state, job.attempts) for job in app.desk.jobs.find().jobs]
    assert given_back == [(State.PENDING, 0)] * 2, "only the durable ones were stored"


def test_try_now_under_a_known_key_tells_what_became_of_it(app: Redrive) -> None:
    @app.handler("once")
    def once(number: int) -> int:
        return number

    once.options(key="k", durable=True).try_now(1)
    again = once.options(key="k").try_now(1)
    assert again.done
    with pytest.raises(Kept, match="already ran"):
        _ = again.value
    with pytest.raises(KeyConflict):
        once.options(key="k").try_now(2)


def test_a_captured_failure_can_be_seen_at_once(app: Redrive) -> None:
    with app.capture("row", {"n": 1}, reraise=False) as caught:
        raise ValueError("bad")
    assert caught.job is not None
    assert caught.job.reason == "captured"
    with app.capture("row", {"n": 2}) as fine:
        pass
    assert fine.job is None


def test_jobs_whose_handler_nobody_has_are_named_in_the_log(
    app: Redrive, caplog: pytest.LogCaptureFixture
) -> None:
    """They wait, spend nothing, and somebody is told."""
    with app.capture("row", {"n": 1}, reraise=False):
        raise ValueError("bad")
    app.desk.retry(state="dead")
    with caplog.at_level("WARNING", "redrive"):
        app.run_due()
    assert "this program has no such handler" in caplog.text
    assert "row" in caplog.text


def test_without_a_name_the_store_is_found_as_the_command_line_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDRIVE_STORE", raising=False)
    (tmp_path / "redrive.toml").write_text('store = "jsonl:here.jsonl"\n')
    with Redrive() as app:
        app.desk.jobs.counts()
        assert app.store.url == f"jsonl:{tmp_path / 'here.jsonl'}"
    monkeypatch.setenv("REDRIVE_STORE", "memory:")
    with Redrive() as app:
        assert app.store.url == "memory:"
