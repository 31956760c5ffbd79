"""Worker processes as `redrive work` runs them: started, replaced, ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crewkit import Crew, app_of, crew, fill, gone, is_alive, wait_for
from redrive import Redrive
from workkit import all_done, number, until, url_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store for a crew."""
    return url_of("sqlite", tmp_path)


@pytest.fixture
def app(url: str) -> Iterator[Redrive]:
    """An app on that store."""
    with app_of(url) as made:
        yield made


def test_two_processes_share_the_work(app: Redrive, url: str, tmp_path: Path) -> None:
    with crew(tmp_path, url, "--processes", "2", "--concurrency", "1") as made:
        until(lambda: len(made.workers()) == 2)
        fill(app, "work", [{"number": n, "seconds": 0.05} for n in range(40)])
        until(lambda: number(app, "completed") == 40)
        assert {one.pid for one in made.ran()} == set(made.workers())


def test_a_worker_that_is_killed_is_replaced(app: Redrive, url: str, tmp_path: Path) -> None:
    """And what it held runs again."""
    with crew(tmp_path, url, "--processes", "2") as made:
        fill(app, "work", [{"number": n, "seconds": 0.01} for n in range(200)])
        wait_for(made, 20)
        first = made.workers()
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(set(made.workers()) - set(first)) == 1)
        assert first[1] in made.workers(), "the other one works on"
        until(lambda: all_done(app))
        assert number(app, "completed") == 200
        assert "killed by SIGKILL" in made.log()


@pytest.mark.parametrize(("isolation", "code"), [("work", 2), ("beside", 0), ("beside", 2)])
def test_no_exit_code_of_a_handler_ends_the_supervisor(
    app: Redrive, url: str, tmp_path: Path, isolation: str, code: int
) -> None:
    """Whatever it is, the worker is replaced and the job dies of its third crash."""
    fill(app, isolation, [{"number": 0, "deed": str(code)}])
    with crew(tmp_path, url, CREW_LEASE="0.5") as made:
        until(lambda: number(app, "dead") == 1)
        assert is_alive(made.pid)
        fill(app, isolation, [{"number": 1}])
        until(lambda: number(app, "completed") == 1)
    (dead,) = app.desk.jobs.each(state="dead")
    assert (dead.reason, dead.crashes, dead.attempts) == ("crash", 3, 3)


def test_when_the_supervisor_is_killed_its_workers_drain_and_end(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    """No orphan goes on for ever."""
    with crew(tmp_path, url, "--processes", "2") as made:
        fill(app, "work", [{"number": n, "seconds": 0.1} for n in range(500)])
        wait_for(made, 20)
        workers = made.workers()
        os.kill(made.pid, signal.SIGKILL)
        gone(workers)
        began, ended = made.ran(), made.ran("ended")
        assert len(began) == len(ended), "what ran came to its end"
        assert number(app, "running") == 0
        assert number(app, "completed") == len(began)
        assert {job.attempts for job in app.desk.jobs.each(state="pending")} == {0}


def test_a_worker_with_lost_slots_is_replaced(app: Redrive, url: str, tmp_path: Path) -> None:
    with crew(tmp_path, url, "--grace", "2s") as made:
        until(lambda: len(made.workers()) == 1)
        (first,) = made.workers()
        fill(app, "stuck", [{"number": n} for n in range(4)])
        until(lambda: number(app, "dead") == 4)
        gone([first])
        fill(app, "work", [{"number": 9}])
        until(lambda: number(app, "completed") == 1)
        assert "it asked to be replaced" in made.log()


BROKEN = {
    "missing": ("", 2, "no module 'broken'"),
    "without an app": ("app = 7", 2, "not a Redrive object"),
    "of bad syntax": ("app = (", 1, "SyntaxError"),
    "that raises": ("import not_there_at_all", 1, "not_there_at_all"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_program_that_cannot_start_is_not_tried_again(tmp_path: Path, kind: str) -> None:
    """Whoever started it is told at once, by the exit code too."""
    text, code, words = BROKEN[kind]
    if text:
        (tmp_path / "broken.py").write_text(text)
    with crew(tmp_path, "memory:", "--processes", "2", program="broken:app") as made:
        assert made.end() == code
        assert words in made.log()
        assert "starting another one" not in made.log()


def test_a_program_that_breaks_later_is_tried_again(app: Redrive, url: str, tmp_path: Path) -> None:
    """Half of a deployment must not end everything for good."""
    program = tmp_path / "deployed.py"
    program.write_text("from crewapp import app")
    with crew(tmp_path, url, program="deployed:app") as made:
        fill(app, "work", [{"number": 0}])
        until(lambda: number(app, "completed") == 1)
        program.write_text("import not_there_at_all  # of another size, so no cached bytecode fits")
        os.kill(made.workers()[0], signal.SIGKILL)
        until(lambda: "not_there_at_all" in made.log())
        fill(app, "work", [{"number": 1}])
        program.write_text("from crewapp import app")
        until(lambda: number(app, "completed") == 2)


def test_a_store_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """A database may start after us."""
    nowhere = f"postgresql://nobody@/nothing?host={tmp_path}"
    with crew(tmp_path, nowhere) as made:
        until(lambda: made.log().count("starting another one") >= 2)
        made.terminate()
        assert made.end() == 0


def test_json_lines_serve_one_worker_process(tmp_path: Path) -> None:
    with crew(tmp_path, url_of("jsonl", tmp_path), "--processes", "2") as made:
        assert made.end() == 2
        assert "leave --processes out" in made.log()


# The parent used the app, with threads, before it forked: as a server does that loads the program
# once and then forks its workers.
FORKED = """
import os, sys
from crewapp import app, work
for number in range(10):
    work.submit(number)
app.run_due(limit=2)
with app.worker(concurrency=2):
    work.submit(10)
children = []
for child in range(3):
    if (pid := os.fork()) == 0:
        with app.worker(concurrency=2):
            for number in range(10):
                work.submit(100 * child + number)
            import time
            end = time.monotonic() + 30
            while any(count.state in ("pending", "running") for count in app.desk.jobs.counts()):
                assert time.monotonic() < end
                time.sleep(0.01)
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
with app.worker():
    pass
print(codes, sum(count.jobs for count in app.desk.jobs.counts() if count.state == "completed"))
"""

STARTED = """
import multiprocessing, sys
from crewapp import app, work
from startee import serve
if __name__ == "__main__":
    for number in range(10):
        work.submit(number)
    app.run_due(limit=2)
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=serve) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    completed = sum(count.jobs for count in app.desk.jobs.counts() if count.state == "completed")
    print([child.exitcode for child in children], completed)
"""

STARTEE = """
import time
from crewapp import app, work
def serve():
    with app.worker(concurrency=2):
        for number in range(10):
            work.submit(number)
        end = time.monotonic() + 30
        while any(count.state in ("pending", "running") for count in app.desk.jobs.counts()):
            assert time.monotonic() < end
            time.sleep(0.01)
"""


def run(directory: Path, url: str, text: str, *words: str) -> str:
    """Run a program in a process of its own; what it prints."""
    (directory / "startee.py").write_text(STARTEE)
    (directory / "main.py").write_text(text)
    made = Crew(directory, url)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "main.py", *words],
        env={**made.environment, "PYTHONPATH": f"{made.environment['PYTHONPATH']}:{directory}"},
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_worker_in_a_forked_child_of_a_program_that_used_its_app(
    tmp_path: Path, kind: str
) -> None:
    """Each has leases, connections and threads of its own."""
    assert run(tmp_path, url_of(kind, tmp_path), FORKED) == "[0, 0, 0] 41"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_in_a_process_of_multiprocessing(tmp_path: Path, method: str) -> None:
    assert run(tmp_path, url_of("sqlite", tmp_path), STARTED, method) == "[0, 0, 0] 40"
