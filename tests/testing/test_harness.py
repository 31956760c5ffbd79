"""The test harness that users get: an empty store in memory, a clock that stands still, `run_all`."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from datetime import date
from pathlib import Path

import pytest

from redrive import GiveUp, Policy, Redrive, RetryLater, current, exponential, retry, when
from redrive.errors import UsageError
from redrive.policies import presets
from redrive.testing import Harness, in_memory, no_waiting

NO_JITTER = Policy(attempts=5, wait=exponential(60, cap=3600, jitter="none"))


@pytest.fixture
def app(tmp_path: Path) -> Redrive:
    """An app that exists before the test begins, as one at the top of a module does."""
    return Redrive(tmp_path / "real.db")


def test_an_app_that_exists_keeps_its_jobs_in_memory(
    app: Redrive, redrive_jobs: Harness, tmp_path: Path
) -> None:
    """The fixture comes after the app here; nothing may be written to its own store."""

    @app.handler("mail.send")
    def send(to: str) -> None: ...

    send.submit("ada")
    assert redrive_jobs.run_all().succeeded == 1
    app.close()
    assert [job.state for job in app.desk.jobs.find().jobs] == ["completed"]
    assert list(tmp_path.iterdir()) == []


def test_an_open_store_comes_back_with_its_jobs(app: Redrive) -> None:
    @app.handler("mail.send")
    def send(to: str) -> None: ...

    before = send.submit("ada")
    clock = app.submitter.settings.clock
    with in_memory() as outer:
        send.submit("bob")
        with in_memory() as jobs:
            assert jobs.submitted() == []
        assert len(outer.submitted()) == 1
    assert app.get(before.id).state == "pending"
    assert app.submitter.settings.clock is clock
    assert len(app.desk.jobs.find().jobs) == 1


def test_an_app_of_an_earlier_test_takes_no_jobs_of_this_one(tmp_path: Path) -> None:
    """It may still be in memory, with a handler of the same name and a store at the same place."""
    ran: list[int] = []
    apps = [Redrive(tmp_path / "shop.db") for _ in range(3)]
    handlers = [app.handler("mail.send")(lambda n=n: ran.append(n)) for n, app in enumerate(apps)]
    for number in (2, 0, 1):
        with in_memory() as jobs:
            handlers[number].submit()
            jobs.run_all()
    assert ran == [2, 0, 1]


def test_run_all_runs_what_jobs_submit(app: Redrive, redrive_jobs: Harness) -> None:
    sent: list[str] = []

    @app.handler("mail.send")
    def send(to: str) -> None:
        sent.append(to)

    @app.handler("order.place")
    def place(order: int) -> None:
        send.submit(f"customer {order}")

    place.submit(7)
    ran = redrive_jobs.run_all()
    assert (ran.taken, ran.succeeded, sent) == (2, 2, ["customer 7"])


def test_the_clock_stands_still_until_it_is_moved(app: Redrive, redrive_jobs: Harness) -> None:
    @app.handler("mail.send", policy=NO_JITTER)
    def send(to: str) -> None:
        raise ConnectionError

    send.submit("ada")
    start = redrive_jobs.clock.now()
    assert redrive_jobs.run_all().failed == 1
    assert redrive_jobs.run_all().taken == 0
    assert redrive_jobs.submitted(send).one().due == start + 60
    redrive_jobs.clock.advance("1m")
    assert redrive_jobs.run_all().failed == 1
    assert redrive_jobs.clock.now() == start + 60


def test_advance_moves_the_clock_until_no_job_waits(app: Redrive, redrive_jobs: Harness) -> None:
    times: list[float] = []
    start = redrive_jobs.clock.now()

    @app.handler("mail.send", policy=NO_JITTER)
    def send(to: str) -> None:
        times.append(redrive_jobs.clock.now() - start)
        raise ConnectionError("the mail server is down")

    send.options(delay="1h").submit("ada")
    ran = redrive_jobs.run_all(advance=True)
    assert (ran.failed, ran.died) == (5, 1)
    assert times == [3600, 3660, 3780, 4020, 4500]
    assert redrive_jobs.dead("mail.send", to="ada").one().reason == "exhausted"


def test_advance_by_a_time_stops_there(app: Redrive, redrive_jobs: Harness) -> None:
    @app.handler("mail.send")
    def send(to: str) -> None: ...

    for hours in (1, 2, 3):
        send.options(delay=f"{hours}h").submit("ada")
    assert redrive_jobs.run_all(advance="2h").succeeded == 2


def test_advance_waits_for_a_paused_lane(app: Redrive, redrive_jobs: Harness) -> None:
    @app.handler("mail.send")
    def send(to: str) -> None: ...

    app.desk.lanes.pause("mail.send", duration="10m")
    send.submit("ada")
    assert redrive_jobs.run_all().taken == 0
    assert redrive_jobs.run_all(advance=True).succeeded == 1


def test_advance_ends_an_outage(app: Redrive, redrive_jobs: Harness) -> None:
    """A revoked key pauses the lane after ten jobs; probes go on, and the rest runs when it works."""
    calls: list[str] = []

    @app.handler("mail.send", policy=presets.DEFAULT)
    def send(to: str) -> None:
        calls.append(to)
        if len(calls) < 13:
            raise PermissionError("401 Unauthorized: the key was revoked")

    for number in range(40):
        send.submit(str(number))
    ran = redrive_jobs.run_all(advance=True)
    assert ran.succeeded + len(redrive_jobs.dead()) == 40


def test_a_pause_without_an_end_ends_run_all(app: Redrive, redrive_jobs: Harness) -> None:
    @app.handler("mail.send")
    def send(to: str) -> None: ...

    app.desk.lanes.pause("mail.send")
    send.submit("ada")
    assert redrive_jobs.run_all(advance=True).taken == 0


def test_jobs_without_a_handler_here_wait(app: Redrive, redrive_jobs: Harness) -> None:
    with app.capture("etl.row", {"row": 7}, reraise=False):
        raise ValueError("no number")
    app.desk.retry(redrive_jobs.dead("etl.row").one().id)
    assert redrive_jobs.run_all(advance=True).taken == 0


def test_handlers_run_in_the_test_itself(app: Redrive, redrive_jobs: Harness) -> None:
    """Also those with a time limit or a process of their own: what a test patches must hold."""
    seen: list[tuple[int, bool]] = []

    @app.handler("slow", timeout=5)
    def slow() -> None:
        seen.append((threading.get_ident(), current().deadline is not None))

    @app.handler("apart", isolation="process")
    def apart() -> None:
        seen.append((threading.get_ident(), False))

    slow.submit()
    apart.submit()
    assert redrive_jobs.run_all().succeeded == 2
    assert sorted(seen) == [(threading.get_ident(), False), (threading.get_ident(), True)]
    entry = app.submitter.registry.need("apart")
    assert entry.isolation == "process"


def test_arguments_are_compared_as_the_handler_gets_them(
    app: Redrive, redrive_jobs: Harness
) -> None:
    @app.handler("report.make")
    def make(day: date, kind: str = "short") -> None: ...

    make.submit(date(2026, 11, 16), kind="long")
    make.submit(date(2026, 11, 17))
    assert len(redrive_jobs.submitted("report.make")) == 2
    assert redrive_jobs.submitted(make, day=date(2026, 11, 16)).one().payload.count("long") == 1
    assert not redrive_jobs.submitted(make, day=date(2026, 1, 1))
    assert not redrive_jobs.submitted(make, kind="short")


def test_the_message_of_a_wrong_expectation_names_the_jobs(
    app: Redrive, redrive_jobs: Harness
) -> None:
    @app.handler("mail.send", attempts=1)
    def send(to: str, password: str) -> None:
        raise RetryLater("not yet", after=5)

    @app.handler("order.bill")
    def bill(order: int) -> None:
        raise GiveUp("no such order")

    assert repr(redrive_jobs.submitted()) == "<no job; no jobs are stored>"
    send.submit("ada", "xyzzy-plugh")
    assert repr(redrive_jobs) == "Harness(1 job)"
    bill.submit(7)
    redrive_jobs.run_all()
    assert repr(redrive_jobs.dead("order.bill")) == (
        "[order.bill(order=7) dead after 1 attempt (permanent): redrive.errors.GiveUp: no such order]"
    )
    text = repr(redrive_jobs.submitted("mail.send", to="bob"))
    assert text.startswith(
        "<no job mail.send(to='bob'); stored jobs that do not match: mail.send(to='ada', password="
    )
    assert "xyzzy" not in text
    with pytest.raises(AssertionError, match=r"expected one job, found 2\n  mail\.send") as caught:
        redrive_jobs.submitted().one()
    assert len(str(caught.value).splitlines()) == 3


def test_async_handlers_run_on_the_loop_of_the_test(app: Redrive, redrive_jobs: Harness) -> None:
    where = contextvars.ContextVar("where", default="nowhere")
    loops: list[object] = []

    @app.handler("mail.send")
    async def send(to: str) -> None:
        await asyncio.sleep(0)
        loops.append((asyncio.get_running_loop(), current().job_id, where.get()))

    @app.handler("order.bill")
    def bill(order: int) -> None:
        loops.append(threading.current_thread() is not threading.main_thread())

    async def test() -> None:
        where.set("test")
        job = await send.asubmit("ada")
        bill.submit(7)
        with pytest.raises(UsageError, match="arun_all"):
            redrive_jobs.run_all()
        ran = await redrive_jobs.arun_all()
        assert ran.succeeded == 2
        assert loops == [(asyncio.get_running_loop(), job.id, "test"), True]

    asyncio.run(test())


def test_async_handlers_run_in_a_plain_test(app: Redrive, redrive_jobs: Harness) -> None:
    @app.handler("mail.send", policy=Policy(on=[when(ValueError, "permanent")]))
    async def send(to: str) -> None:
        raise ValueError(to)

    send.submit("ada")
    assert redrive_jobs.run_all().died == 1


def test_retries_in_place_do_not_wait(
    redrive_jobs: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waited"))

    @retry(attempts=4)
    def fetch() -> None:
        calls.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        fetch()
    assert len(calls) == 4
    redrive_jobs.limit_retries(1)
    with pytest.raises(ConnectionError):
        fetch()
    assert len(calls) == 5


def test_the_limit_of_retries_ends_with_the_test() -> None:
    calls: list[int] = []

    @retry(attempts=2)
    def fetch() -> None:
        calls.append(1)
        raise ConnectionError

    with in_memory() as jobs:
        jobs.limit_retries(1)
    with no_waiting(), pytest.raises(ConnectionError):
        fetch()
    assert len(calls) == 2


def test_a_worker_in_the_program_runs_jobs_of_the_test(app: Redrive, redrive_jobs: Harness) -> None:
    """A web service starts one with its test client; it stops with the service, before the test ends."""
    ran = threading.Event()

    @app.handler("mail.send")
    def send(to: str) -> None:
        ran.set()

    with app.worker():
        send.submit("ada")
        assert ran.wait(60)
    assert redrive_jobs.submitted(send).one().state == "completed"
