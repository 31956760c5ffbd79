"""What hostile or careless programs tried, and must not achieve."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import redrive
from redrive import Policy, Redrive, State
from redrive.errors import Kept, KeyConflict, UsageError
from redrive.policies import presets
from redrive.strategies import RetryStrategy
from redrive.testing import ManualClock
from redrive.worker.sweep import sweep


def in_child(work: Any) -> int:
    """Do something in a forked child; gives its exit code."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_what_would_be_called_but_never_run_is_refused(app: Redrive) -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def done(x: int) -> bool:
        return False

    with pytest.raises(UsageError, match="generator"):
        app.handler("g")(generator)
    with pytest.raises(UsageError, match="already_done"):
        app.handler("h", already_done=done)(lambda x: None)


def test_a_plain_function_that_gives_a_coroutine_has_not_done_the_work(app: Redrive) -> None:
    async def real() -> None: ...

    handler = app.handler("wrapped")(lambda: real())  # noqa: PLW0108 - hides that it is async
    job = handler.submit()
    app.run_due()
    assert (app.get(job.id).state, app.get(job.id).reason) == ("dead", "permanent")
    assert not handler.try_now().done


def test_the_same_key_under_another_handler_is_a_conflict(app: Redrive) -> None:
    """Or the second one's work would be dropped without a word."""
    charge = app.handler("charge")(lambda order: None)
    mail = app.handler("mail")(lambda order: None)
    charge.options(key="order-7").submit(7)
    for call in (mail.options(key="order-7").submit, mail.options(key="order-7").try_now):
        with pytest.raises(KeyConflict, match="charge"):
            call(7)


def test_a_renamed_handler_finds_the_job_of_its_old_name_under_the_key(app: Redrive) -> None:
    """A rename must not turn a harmless repeat into a conflict."""
    old = app.handler("pay")(lambda order: None).options(key="order-7").submit(7)
    renamed = Redrive(app.store)
    pay = renamed.handler("invoice.pay", formerly="pay")(lambda order: None)
    assert pay.options(key="order-7").submit(7).id == old.id
    assert pay.options(key="order-7").try_now(7).job == replace(old, is_new=False)
    with pytest.raises(KeyConflict, match="another payload"):
        pay.options(key="order-7").submit(8)


def test_a_poison_job_harms_no_other_even_on_its_last_attempt(
    tmp_path: Path,
) -> None:
    """Jobs are claimed one at a time, so only the guilty one is orphaned."""
    clock = ManualClock()
    app = Redrive(tmp_path / "jobs.db", clock=clock)

    @app.handler("one", attempts=1)
    def one(number: int) -> None:
        if number == 0:
            os._exit(9)

    jobs = [one.submit(number) for number in range(5)]
    assert in_child(app.run_due) == 9
    clock.advance(60)
    app.run_due()
    states = [app.get(job.id).state for job in jobs]
    assert states == [State.DEAD] + [State.COMPLETED] * 4
    app.close()


def test_ignore_backoff_takes_every_pending_job_once(app: Redrive) -> None:
    """Also when those that just failed are due before those that have not been tried."""
    tried: list[int] = []

    @app.handler("a", policy=presets.LLM)
    def a(number: int) -> None:
        tried.append(number)
        raise ConnectionError("no")

    for number in range(25):
        a.options(delay=2000 * (number % 2)).submit(number)
    assert app.run_due(ignore_backoff=True).failed == 25
    assert sorted(tried) == list(range(25))


class Odd(RetryStrategy):
    """Answers with what is no float, or leaves."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def calculate_backoff(self, attempt: int) -> float:
        return 1.0

    def get_backoff_with_jitter(self, attempt: int, rand: object = None) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [Decimal(5), "5", None, ValueError(1), float("nan")], ids=repr)
def test_no_strategy_can_stop_a_pass(app: Redrive, answer: object) -> None:
    """Whatever a strategy of one's own answers, the job waits and the others run."""
    ran: list[int] = []

    @app.handler("bad", policy=Policy(attempts=5, wait=Odd(answer)))
    def bad() -> None:
        raise ConnectionError("no")

    good = app.handler("good")(lambda: ran.append(1))
    job = bad.submit()
    good.submit()
    assert app.run_due().taken == 2
    waiting = app.get(job.id)
    assert waiting.state is State.PENDING
    assert waiting.due > waiting.updated


def test_a_handler_that_raises_keyboard_interrupt_itself_has_failed(app: Redrive) -> None:
    """Only a real Ctrl-C stops the pass; this one would stop every pass for ever."""
    ran: list[int] = []

    @app.handler("rude", attempts=2)
    def rude() -> None:
        raise KeyboardInterrupt

    good = app.handler("good")(lambda: ran.append(1))
    job = rude.submit()
    good.submit()
    assert app.run_due().failed == 1
    assert ran == [1]
    assert app.get(job.id).attempts == 1


def test_orphans_of_handlers_unknown_here_are_left_to_those_who_know_them(
    app: Redrive, clock: ManualClock
) -> None:
    """Their policy and their already_done are not ours to guess."""
    pay = app.handler("pay")(lambda: None)
    pay.submit()
    app.store.claim(["pay"], limit=1, holder="gone", lease_for=1)
    clock.advance(2)
    stranger = Redrive(app.store, clock=clock)
    stranger.handler("other")(lambda: None)
    stranger.run_due()
    assert next(app.desk.jobs.each()).holder == "gone"
    sweep(app.submitter.runtime())
    assert next(app.desk.jobs.each()).crashes == 1


def test_a_forked_child_holds_its_leases_under_another_name(app: Redrive) -> None:
    """After a restored backup the number alone repeats."""
    before = app.submitter.holder
    assert before == app.submitter.holder
    assert in_child(lambda: int(app.submitter.holder == before)) == 0


def test_a_durable_call_keeps_its_lease_while_it_runs(tmp_path: Path) -> None:
    """A call longer than the lease is not run by somebody else meanwhile."""
    with Redrive(tmp_path / "jobs.db", lease=0.2) as app:
        ran: list[int] = []

        @app.handler("long")
        def long() -> None:
            ran.append(1)
            renewed = app.store.get(redrive.current().job_id)
            assert renewed is not None
            while True:
                now = app.store.get(redrive.current().job_id)
                assert now is not None
                if (now.lease_end or 0) > (renewed.lease_end or 0):
                    return
                threading.Event().wait(0.005)

        tried = long.options(durable=True).try_now()
        assert tried.done
        assert ran == [1]


def test_a_relative_path_means_the_same_store_after_chdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    app = Redrive("jobs.db")
    handler = app.handler("h")(lambda: None)
    handler.submit()
    app.close()
    monkeypatch.chdir(tmp_path / "elsewhere")
    handler.submit()
    assert len(list(app.desk.jobs.each())) == 2
    app.close()


def test_errors_and_jobs_travel_between_processes(app: Redrive) -> None:
    job = app.handler("h")(lambda: None).submit()
    error = pickle.loads(pickle.dumps(Kept("it was kept", job=job)))
    assert (str(error), error.job) == ("it was kept", job)
    assert len({job, app.get(job.id)}) == 1


def test_a_worker_of_a_read_only_app_is_refused() -> None:
    with pytest.raises(UsageError, match="read_only"):
        Redrive("memory:", read_only=True).worker()
