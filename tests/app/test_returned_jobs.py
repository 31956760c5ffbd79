"""Jobs that could not be tried are returned unspent, and a person's retry asks all the same.

On every store: while all providers of a `fallback` are in cooldown, and where a library is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redrive import GiveUp, Policy, Redrive, RetryLater, constant, fallback
from redrive.desk import waits
from redrive.errors import AllProvidersFailed
from redrive.worker.passes import Pass
from stores.contract.kinds import KINDS, Place
from tablekit import each_row
from workkit import until


class Limited(Exception):
    status_code = 429


class Broken(Exception):
    status_code = 500


LATER = Policy(attempts=6, wait=constant(600), max_age="2h")


class Shop:
    """A store, and programs on it whose one provider fails as told."""

    def __init__(self, place: Place) -> None:
        self.place, self.clock = place, place.clock
        self.asked: list[str] = []
        self.down: Exception | None = None
        self.bad: set[str] = set()
        """The texts on which the provider fails with status 500."""
        self.store = place.open()
        self.app = self.open()

    def open(self, rand: float = 0.0, policy: Policy = LATER) -> Redrive:
        """Start a program on the store, as another process would."""
        app = Redrive(self.store, clock=self.clock, rand=lambda: rand, policy=policy)
        ask = fallback(openai=self.provider, claude=self.provider)

        @app.handler("ask")
        def handle(text: str) -> None:
            ask(text)

        @app.handler("later", isolation="thread", timeout=60)
        async def later(text: str) -> None:
            await asyncio.sleep(0)
            ask(text)

        self.handle, self.later = handle, later
        return app

    def provider(self, text: str) -> str:
        self.asked.append(text)
        if self.down is not None:
            raise self.down
        if text in self.bad:
            raise Broken
        return text

    def cool(self) -> None:
        """Have both providers in cooldown, for 30 s."""
        self.down = Limited()
        job = self.handle.submit("first")
        assert self.app.run_due(only=[job.id]).failed == 1
        assert len(self.app.store.notes("pause:")) == 2
        self.asked.clear()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    place = Place(next(kind for kind in KINDS if kind.name == "sqlite"), tmp_path)
    yield Shop(place)
    place.remove()


def unspent(app: Redrive, job_id: str) -> bool:
    job = app.get(job_id)
    spent = (job.attempts, dict(job.spent), job.history, job.failure)
    return job.state == "pending" and spent == (0, {}, (), None)


def test_all_in_cooldown_jobs_are_returned_until_the_first_cooldown_ends(shop: Shop) -> None:
    shop.cool()
    jobs = [shop.handle.submit("a"), shop.later.submit("b")]
    assert shop.app.run_due() == Pass(returned=2)
    assert shop.asked == []
    for job in jobs:
        assert unspent(shop.app, job.id)
        waiting = shop.app.get(job.id)
        assert waiting.due - shop.clock.now() == pytest.approx(30)
        assert waiting.detail.startswith("returned: no provider could be asked: openai: rate_limit")
    assert shop.app.run_due() == Pass(), "they wait"
    shop.down = None
    shop.clock.advance(31)
    assert shop.app.run_due() == Pass(taken=3, succeeded=3)


def test_returned_jobs_do_not_all_come_back_at_once(shop: Shop) -> None:
    shop.cool()
    app = shop.open(rand=1.0)
    job = shop.handle.submit("a")
    assert app.run_due().returned == 1
    assert app.get(job.id).due - shop.clock.now() == pytest.approx(35)


def test_no_age_and_no_number_of_returns_ends_a_job(shop: Shop) -> None:
    for name in ("openai", "claude"):
        shop.app.desk.lanes.pause(f"provider:{name}")
    job = shop.handle.submit("a")
    for _ in range(12):
        assert shop.app.run_due() == Pass(returned=1)
        assert shop.app.get(job.id).due - shop.clock.now() == pytest.approx(60)
        shop.clock.advance(3600)
    assert unspent(shop.app, job.id)
    for name in ("openai", "claude"):
        shop.app.desk.lanes.resume(f"provider:{name}")
    assert shop.app.run_due().succeeded == 1


def test_tried_now_the_caller_finds_the_job_kept_and_unspent(shop: Shop) -> None:
    shop.cool()
    for options in ({}, {"durable": True}):
        tried = shop.handle.options(**options).try_now("a")
        assert not tried.done
        assert tried.job is not None
        assert unspent(shop.app, tried.job.id)
        assert shop.app.get(tried.job.id).due - shop.clock.now() == pytest.approx(30)


def _raises_its_own(ask: Callable[[str], object], text: str) -> None:
    try:
        ask(text)
    except AllProvidersFailed as error:
        msg = "no summary"
        raise RuntimeError(msg) from error


def _asks_in_a_group(ask: Callable[[str], object], text: str) -> None:
    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(asyncio.to_thread(ask, text))

    asyncio.run(both())


@pytest.mark.parametrize("way", [_raises_its_own, _asks_in_a_group])
def test_an_error_around_that_of_the_fallback_changes_nothing(
    shop: Shop, way: Callable[[Callable[[str], object], str], None]
) -> None:
    shop.cool()
    ask = fallback(openai=shop.provider, claude=shop.provider)
    job = shop.app.handler("around")(lambda text: way(ask, text)).submit("b")
    assert shop.app.run_due() == Pass(returned=1)
    assert shop.app.get(job.id).attempts == 0


@pytest.mark.parametrize("error", [GiveUp("no"), RetryLater(5)])
def test_what_a_handler_says_outright_counts(shop: Shop, error: Exception) -> None:
    shop.cool()
    ask = fallback(openai=shop.provider, claude=shop.provider)

    def told(text: str) -> None:
        try:
            ask(text)
        except AllProvidersFailed as found:
            raise error from found

    shop.app.handler("told")(told).submit("b")
    assert shop.app.run_due().failed == 1


def test_limit_counts_returned_jobs_too(shop: Shop) -> None:
    shop.cool()
    for _ in range(4):
        shop.handle.submit("a")
    assert shop.app.run_due(limit=3) == Pass(returned=3)


@pytest.mark.parametrize("error", [TimeoutError(), Broken()])
def test_one_bad_job_starts_no_cooldown_but_three_different_ones_do(
    shop: Shop, error: Exception
) -> None:
    bad = shop.handle.submit("bad")
    shop.down = error
    for _ in range(4):
        assert shop.app.run_due(only=[bad.id], ignore_backoff=True).failed == 1
    assert shop.app.store.notes("pause:") == []
    for _ in range(2):
        shop.app.run_due(only=[shop.handle.submit("other").id])
    assert len(shop.app.store.notes("pause:")) == 2


def test_jobs_behind_a_bad_one_are_done(shop: Shop) -> None:
    shop.bad.add("bad")
    bad = shop.handle.submit("bad")
    for _ in range(3):
        shop.handle.submit("good")
    assert shop.app.run_due() == Pass(taken=4, succeeded=3, failed=1)
    while shop.app.get(bad.id).state == "pending":
        shop.clock.advance(601)
        shop.app.run_due()
    assert shop.app.get(bad.id).reason in {"exhausted", "expired"}


def test_a_person_ends_the_cooldown_and_retries(shop: Shop) -> None:
    shop.cool()
    job = shop.handle.submit("a")
    shop.app.run_due()
    shop.app.desk.retry(job.id)
    assert shop.app.run_due() == Pass(returned=1), "a retry alone asks nobody in cooldown"
    assert shop.asked == []
    shop.app.desk.lanes.resume("provider:openai")
    shop.down = None
    shop.app.desk.retry(job.id)
    assert shop.app.run_due() == Pass(taken=1, succeeded=1)
    assert [note.name for note in shop.app.store.notes("pause:")] == ["pause:provider:claude"]


def test_a_run_waits_for_the_cooldown_and_says_so(shop: Shop) -> None:
    shop.cool()
    jobs = [shop.handle.submit(str(n)).id for n in range(5)]
    assert shop.app.run_due() == Pass(returned=5)
    shop.app.desk.runs.start(*jobs, stop_on="2")
    assert shop.app.run_due() == Pass(returned=5)
    assert shop.asked == []
    (run,) = shop.app.desk.runs.recent()
    cooldowns = [line for line in waits.of_run(shop.app.desk, run) if "cooldown" in line]
    assert cooldowns[0].startswith(
        "provider claude is in cooldown (redrive resume provider:claude)"
    )
    shop.down = None
    shop.app.desk.lanes.resume("provider:openai")
    shop.clock.advance(36)
    assert shop.app.run_due().succeeded >= 5
    (run,) = shop.app.desk.runs.recent()
    assert run.phase == "done"


# A missing library


def lacking(app: Redrive, **options: Any) -> Any:
    @app.handler("lacks", **options)
    def lacks() -> None:
        import no_such_library  # noqa: PLC0415, F401

    return lacks


def test_a_missing_library_spends_nothing_and_the_process_serves_it_no_more(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    lacks = lacking(shop.app)
    jobs = [lacks.submit() for _ in range(3)]
    shop.handle.submit("fine")
    assert shop.app.run_due() == Pass(taken=1, succeeded=1, returned=1)
    assert all(unspent(shop.app, job.id) for job in jobs)
    assert shop.app.run_due() == Pass(), "this process serves it no more"
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "handler lacks cannot run here: No module named 'no_such_library'" in errors[0]
    assert list(shop.app.desk.lanes.unserved()) == ["lacks"]
    why = "handler lacks cannot run: No module named 'no_such_library'"
    assert shop.app.desk.lanes.unserved_because() == {"lacks": why}


def test_a_program_that_can_run_none_of_its_handlers_takes_nothing(shop: Shop) -> None:
    app = Redrive(shop.store, clock=shop.clock)
    job = lacking(app).submit()
    assert app.run_due() == Pass(returned=1)
    assert app.run_due(ignore_backoff=True) == Pass()
    assert unspent(app, job.id)


def test_a_new_process_serves_it_again(shop: Shop) -> None:
    lacking(shop.app).submit()
    shop.app.run_due()
    shop.clock.advance(1)
    other = shop.open()
    other.handler("lacks")(lambda: None)
    assert list(other.desk.lanes.unserved()) == ["lacks"]
    assert other.run_due().succeeded == 1
    assert (list(other.desk.lanes.unserved()), other.desk.lanes.unserved_because()) == ([], {})


def test_an_import_error_behind_another_error_is_a_failure_like_any_other(shop: Shop) -> None:
    @shop.app.handler("wraps")
    def wraps() -> None:
        try:
            import no_such_library  # noqa: PLC0415, F401
        except ImportError as error:
            raise RuntimeError("it is broken") from error

    wraps.submit()
    assert shop.app.run_due().failed == 1
    assert shop.app.desk.lanes.unserved_because() == {}


def missing() -> str:
    import no_such_library  # noqa: PLC0415

    return str(no_such_library)


@pytest.mark.parametrize("other", [lambda: "fine", missing], ids=["fine", "missing too"])
def test_a_provider_whose_library_is_missing_is_not_put_in_cooldown(
    shop: Shop, other: Callable[[], str]
) -> None:
    ask = fallback(openai=missing, claude=other)
    handle = shop.app.handler("two")(lambda: ask().value)
    for _ in range(4):
        handle.submit()
    done = shop.app.run_due()
    assert shop.app.store.notes("pause:") == []
    if other is missing:
        assert done == Pass(returned=1)
        assert list(shop.app.desk.lanes.unserved()) == ["two"]
        assert "provider openai: No module named" in shop.app.desk.lanes.unserved_because()["two"]
    else:
        assert done == Pass(taken=4, succeeded=4)


def test_tried_now_a_missing_library_costs_nothing_either(shop: Shop) -> None:
    tried = lacking(shop.app).try_now()
    assert not tried.done
    assert tried.job is not None
    assert unspent(shop.app, tried.job.id)
    assert shop.app.run_due() == Pass()


def test_captured_without_a_handler_it_is_dead_as_before(shop: Shop) -> None:
    with shop.app.capture("nobody", {}, reraise=False) as captured:
        missing()
    assert captured.job is not None
    assert (captured.job.state, captured.job.reason) == ("dead", "captured")


# In a worker


@each_row("kind", ["beside", "sqlite"])
@each_row("is_async", [False, True])
def test_a_worker_returns_and_goes_on_with_other_handlers(
    kind: str, is_async: bool, tmp_path: Path
) -> None:
    from workkit import app_on, number  # noqa: PLC0415

    with app_on(kind, tmp_path) as app:
        ask = fallback(openai=lambda: "fine")

        def plain() -> None:
            ask()

        async def later() -> None:
            ask()

        async def lacks_later() -> None:
            missing()

        cooled: Any = app.handler("cooled")(later if is_async else plain)
        lacks: Any = app.handler("lacks")(lacks_later if is_async else missing)
        fine = app.handler("fine")(lambda: None)
        app.desk.lanes.pause("provider:openai")
        jobs = [handler.submit().id for handler in (cooled, lacks) for _ in range(5)]
        with app.worker(concurrency=2):
            until(lambda: all(app.get(one).lease for one in jobs[:5]), 60)
            until(lambda: "lacks" in app.submitter.registry.withdrawn, 60)
            for _ in range(5):
                fine.submit()
            until(lambda: number(app, "completed") == 5, 60)
        assert all(unspent(app, one) for one in jobs)
        assert app.get(jobs[0]).due > app.store.now() + 30, "they do not come back at once"
