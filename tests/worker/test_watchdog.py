"""The supervisor replaces a worker that hangs, and nothing of a worker outlives it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgkit
from crewkit import Crew, app_of, crew, fill, gone, is_alive, wait_for
from redrive import Redrive
from workkit import number, until, url_of

WAIT = 60.0


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store for a crew."""
    return url_of("sqlite", tmp_path)


@pytest.fixture
def app(url: str) -> Iterator[Redrive]:
    """An app on that store."""
    with app_of(url) as made:
        yield made


def only_worker(made: Crew) -> int:
    """Give the one worker process."""
    until(lambda: len(made.workers()) == 1, WAIT)
    return made.workers()[0]


@pytest.mark.parametrize("processes", ["2"])
def test_a_worker_whose_handler_holds_the_gil_is_replaced(
    app: Redrive, url: str, tmp_path: Path, processes: str
) -> None:
    """The culprit is dead of its third crash, the jobs beside it are done, at once."""
    options = ("--watchdog", "1.5s", "--processes", processes)
    with crew(tmp_path, url, *options, CREW_LEASE="600") as made:
        fill(app, "beside", [{"number": 0, "deed": "gil"}])
        fill(app, "beside", [{"number": n, "seconds": 0.05} for n in range(1, 41)])
        until(lambda: number(app, "dead") == 1, WAIT)
        until(lambda: number(app, "completed") == 40, WAIT)
        assert "sent no heartbeat" in made.log()
        assert len({one.pid for one in made.ran() if one.number == 0}) == 3
    (dead,) = app.desk.jobs.each(state="dead")
    assert (dead.reason, dead.crashes, dead.payload) == ("crash", 3, '{"number": 0, "deed": "gil"}')
    assert "its worker process died" in str(dead.detail)


def test_those_beside_a_culprit_do_not_wait_for_its_end_in_a_child(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    """It holds a child until it is killed there, and harms nobody."""
    with crew(tmp_path, url, "--watchdog", "1.5s", CREW_LEASE="600") as made:
        fill(app, "work", [{"number": 0, "deed": "gil"}])
        fill(app, "work", [{"number": n, "seconds": 0.05} for n in range(1, 21)])
        until(lambda: number(app, "completed") == 20, 2 * WAIT)
        assert "sent no heartbeat" in made.log()
    assert max(job.crashes for job in app.desk.jobs.each(state="completed")) == 1


def test_a_stopped_worker_is_replaced(app: Redrive, url: str, tmp_path: Path) -> None:
    with crew(tmp_path, url, "--watchdog", "1.5s") as made:
        first = only_worker(made)
        wait_for_heartbeat(app)
        os.kill(first, signal.SIGSTOP)
        gone([first], WAIT)
        fill(app, "work", [{"number": 1}])
        until(lambda: number(app, "completed") == 1, WAIT)


def test_a_worker_that_waits_for_a_lock_of_a_handler_is_replaced(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    """The heartbeat thread could beat on, but nothing would be claimed or settled any more."""
    with crew(tmp_path, url, "--watchdog", "2s") as made:
        fill(app, "once", [{"number": 0, "deed": "log"}])
        wait_for(made, 1, "began", WAIT)
        fill(app, "work", [{"number": n} for n in range(1, 21)])
        until(lambda: number(app, "completed") == 20, 2 * WAIT)
        assert "sent no heartbeat" in made.log()


@pytest.mark.parametrize("how", ["fork", "forking"])
def test_a_fork_of_a_handler_runs_nobody_elses_job(
    app: Redrive, url: str, tmp_path: Path, how: str
) -> None:
    """The copy of a slot, or of the event loop, ends; the result of the original counts."""
    with crew(tmp_path, url, "--concurrency", "4") as made:
        for first in range(0, 60, 10):
            todo = {"number": first} | ({"deed": "fork"} if how == "fork" else {})
            fill(app, "beside" if how == "fork" else how, [todo])
            numbers = range(first + 1, first + 10)
            fill(app, "beside", [{"number": n, "seconds": 0.02} for n in numbers[::2]])
            fill(app, "asleep", [{"number": n, "seconds": 0.02} for n in numbers[1::2]])
        worker = only_worker(made)
        until(lambda: number(app, "completed") == 60, WAIT)
        until(lambda: not copies(worker), WAIT)
        assert made.workers() == [worker]
        others = [one for one in made.ran("ended") if one.number % 10]
        assert {one.pid for one in others} == {worker}
        assert len(others) == 54


def copies(pid: int) -> list[str]:
    """Return the processes that a process forked and that still run."""
    children = [Path("/proc") / one for one in _children_of(pid)]
    states = [(one / "stat").read_text().rpartition(")")[2].split()[0] for one in children]
    return [state for state in states if state != "Z"]


def _children_of(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [one for task in tasks for one in task.read_text().split()]


def test_a_job_that_a_leaked_thread_still_runs_is_tried_again_by_the_next_process(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    """With one process too; it would wait for ever in the old one."""
    with crew(tmp_path, url, "--grace", "1s") as made:
        fill(app, "late", [{"number": 1}])
        until(lambda: number(app, "dead") == 1, WAIT)
        assert len({one.pid for one in made.ran()}) == 2
        assert "ignored its time limit and still runs" in made.log()


@pytest.mark.parametrize("deed", ["descriptors", "memory", "directory"])
def test_a_worker_that_a_handler_ruined_is_replaced(
    app: Redrive, url: str, tmp_path: Path, deed: str
) -> None:
    """It can open no descriptor, write no file, start no thread, tell no time, or is nowhere."""
    with crew(tmp_path, url, "--watchdog", "3s") as made:
        first = only_worker(made)
        wait_for_heartbeat(app)
        time.sleep(1.5)  # so that it saw itself work
        fill(app, "beside", [{"number": 0, "deed": deed}])
        gone([first], WAIT)
        fill(app, "apart", [{"number": n} for n in range(1, 4)])
        until(lambda: number(app, "completed") >= 3, 2 * WAIT)


def wait_for_heartbeat(app: Redrive) -> None:
    """Wait until the worker has started: it serves its handlers."""
    until(app.desk.lanes.workers, WAIT)


def test_a_stopped_supervisor_does_not_take_its_own_silence_for_that_of_its_workers(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    """As after a suspend of the machine."""
    with crew(tmp_path, url, "--watchdog", "5s") as made:
        first = only_worker(made)
        wait_for_heartbeat(app)
        for _ in range(2):
            for pid in (made.pid, first):
                os.kill(pid, signal.SIGSTOP)
            time.sleep(6)
            os.kill(made.pid, signal.SIGCONT)
            time.sleep(0.2)
            os.kill(first, signal.SIGCONT)
            time.sleep(1.2)
        fill(app, "work", [{"number": 1}])
        until(lambda: number(app, "completed") == 1, WAIT)
        assert made.workers() == [first]
        assert "sent no heartbeat" not in made.log()


def started(made: Crew) -> list[int]:
    """Give the processes that handlers started."""
    return [one.attempt for one in made.ran("started")]


@pytest.mark.parametrize(
    ("how", "handler"), [("kill", "beside"), ("stop", "apart"), ("supervisor", "beside")]
)
def test_what_handlers_started_ends_with_their_worker(
    app: Redrive, url: str, tmp_path: Path, handler: str, how: str
) -> None:
    """A fork, a program, a shell's background job, one without environment, a daemon."""
    with crew(tmp_path, url, "--grace", "1s") as made:
        fill(app, handler, [{"number": 1, "deed": "family"}])
        wait_for(made, 1, "family", WAIT)
        family, (worker,) = started(made), made.workers()
        assert len(family) == 4
        assert all(map(is_alive, family))
        if how == "stop":
            made.terminate()
            assert made.end() == 0
        else:
            os.kill(worker if how == "kill" else made.pid, signal.SIGKILL)
        # A supervisor that is killed cannot find what left its worker's session.
        gone(family if how != "supervisor" else family[:-1], WAIT)
        for pid in filter(is_alive, family):
            os.kill(pid, signal.SIGKILL)


def test_a_daemon_of_a_worker_that_lives_is_left_alone(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    """And it is reaped when it ends: the supervisor is its parent by then."""
    with crew(tmp_path, url, "--processes", "2") as made:
        fill(app, "beside", [{"number": 1, "deed": "family"}])
        wait_for(made, 1, "family", WAIT)
        (began,) = made.ran()
        daemon = started(made)[-1]
        (other,) = set(made.workers()) - {began.pid, daemon}
        os.kill(other, signal.SIGKILL)
        gone([other], WAIT)
        until(lambda: made.log().count("starting another one") == 1, WAIT)
        time.sleep(0.5)
        assert is_alive(daemon)
        os.kill(daemon, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{daemon}").exists(), WAIT)


DEAF = ["gil", "thread", "family"]


@pytest.mark.parametrize("deed", DEAF)
def test_sigterm_ends_everything_whatever_handlers_do(
    app: Redrive, url: str, tmp_path: Path, deed: str
) -> None:
    """Within the grace and a few seconds."""
    with crew(tmp_path, url, "--grace", "2s", "--watchdog", "0s") as made:
        fill(app, "beside", [{"number": 1, "deed": deed}])
        wait_for(made, 1, "began", WAIT)
        time.sleep(0.3)
        workers = made.workers()
        made.terminate()
        assert made.end() == 0
        gone([*workers, *started(made)], WAIT)


def test_a_thread_left_behind_does_not_keep_a_worker_that_is_to_be_replaced(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    """Else its place stays empty."""
    with crew(tmp_path, url, "--grace", "1s") as made:
        first = only_worker(made)
        fill(app, "beside", [{"number": 1, "deed": "thread"}])
        until(lambda: number(app, "completed") == 1, WAIT)
        fill(app, "stuck", [{"number": n} for n in range(4)])
        gone([first], WAIT)
        fill(app, "work", [{"number": 9}])
        until(lambda: number(app, "completed") == 2, WAIT)
        assert "left-behind" in made.log()


@pytest.mark.parametrize(
    ("fault", "kind"), [("removed", "sqlite"), ("replaced", "sqlite"), ("cut", "jsonl")]
)
def test_a_worker_whose_store_is_gone_is_replaced_until_the_right_file_is_back(
    tmp_path: Path, kind: str, fault: str
) -> None:
    """It never makes an empty store where one was lost."""
    url = url_of(kind, tmp_path)
    place, kept = tmp_path / Path(url.removeprefix("jsonl:")).name, tmp_path / "kept"
    kept.mkdir()
    with crew(tmp_path, url) as made:
        with app_of(url) as app:
            fill(app, "work", [{"number": n} for n in range(50)])
            until(lambda: number(app, "completed") == 50, WAIT)
        worker = only_worker(made)
        os.kill(worker, signal.SIGSTOP)
        for one in files(place):
            (kept / one.name).write_bytes(one.read_bytes())
            (kept / one.name).chmod(0o600)
        if fault == "cut":
            os.truncate(place, 100)
        else:
            remove(place)
        if fault == "replaced":
            with app_of(url) as app:
                fill(app, "work", [{"number": 99}])
        os.kill(worker, signal.SIGCONT)
        until(lambda: "its store is gone" in made.log(), WAIT)
        if fault == "removed":
            until(lambda: "exit code 5" in made.log(), WAIT)
            assert not place.exists()
        remove(place)
        for one in kept.iterdir():
            one.rename(tmp_path / one.name)
        with app_of(url) as app:
            assert number(app, "completed") == 50
            fill(app, "work", [{"number": 4}])
            until(lambda: number(app, "completed") == 51, WAIT)


def files(place: Path) -> list[Path]:
    """Give a store's file and its log."""
    return [one for end in ("", "-wal", "-shm") if (one := Path(f"{place}{end}")).exists()]


def remove(place: Path) -> None:
    """Remove a store."""
    for one in files(place):
        one.unlink()


def test_a_worker_whose_schema_is_gone_is_replaced_until_it_is_back(tmp_path: Path) -> None:
    """A server that does not answer is waited for; a schema that is gone is looked for anew."""
    schema = pgkit.fresh_name()
    url = pgkit.url_of(schema)
    try:
        with app_of(url) as app, crew(tmp_path, url) as made:
            fill(app, "work", [{"number": 1}])
            until(lambda: number(app, "completed") == 1, WAIT)
            rename(schema, f"{schema}_away")
            until(lambda: "its store is gone" in made.log(), WAIT)
            until(lambda: "exit code 5" in made.log(), WAIT)
            rename(f"{schema}_away", schema)
            fill(app, "work", [{"number": 2}])
            until(lambda: number(app, "completed") == 2, WAIT)
    finally:
        pgkit.drop(schema)


def rename(schema: str, name: str) -> None:
    """Give a schema another name."""
    with pgkit.connect() as connection:
        connection.execute(f'ALTER SCHEMA "{schema}" RENAME TO "{name}"')
