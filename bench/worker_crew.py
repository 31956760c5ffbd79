"""Worker processes of all contestants, started as they are used, and their rates.

A round lays jobs into a new store, starts the worker process, and takes the time from the tenth part
of the runs to the last, as the handlers tell it. So nobody's start counts, and nobody is told from
outside. What is settled after the last run is one batch of very many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import IO

import measure
import server
from jobs import PAYLOAD, new_job
from measure import Round, Stage
from worker_runs import runs

from redrive.stores import open_store

BENCH = Path(__file__).resolve().parent
PATIENCE = 120.0
"""Seconds after which a worker that says nothing is given up."""


class Working:
    """A worker process at work."""

    def __init__(self, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        assert process.stdout is not None
        self.pid = process.pid
        self._lines = process.stdout
        self._said = said

    def stamp(self) -> float:
        """Wait for the next run that was asked for, and give its time."""
        line = self._lines.readline()
        if not line:
            self._said.seek(0)
            words = self._said.read().decode(errors="replace").strip().splitlines()
            raise RuntimeError(words[-1] if words else "its worker said nothing")
        return float(line)


@contextmanager
def worker(command: list[str], stamps: str, **environment: str) -> Iterator[Working]:
    """Run a worker process inside `with`."""
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            [sys.executable, *command],
            cwd=BENCH,
            env={**os.environ, **environment, "BENCH_STAMPS": stamps},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
        ) as process,
    ):
        watch = threading.Timer(PATIENCE, process.kill)
        watch.start()
        try:
            yield Working(process, said)
        finally:
            watch.cancel()
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()


def our_command(*options: str) -> list[str]:
    """Give the command that works in one process."""
    return ["-m", "redrive", "work", "worker_ours:app", "--processes", "0", *options]


def huey_command(kind: str, place: str, handler: str, number: str, pace: str = "") -> list[str]:
    """Give the command that lays jobs in and runs Huey's consumer."""
    # Not as a script: tasks are known by their module, which must have its name there too.
    return ["-c", "import worker_huey; worker_huey.main()", kind, place, handler, number, pace]


def load(url: str, handler: str, number: int) -> None:
    """Lay due jobs into a store of ours."""
    with closing(open_store(url)) as store:
        for start in range(0, number, 1000):
            store.add(
                [
                    new_job(
                        handler=handler, lane=handler, payload=json.dumps({**PAYLOAD, "id": one})
                    )
                    for one in range(start, min(start + 1000, number))
                ]
            )


def rate(command: list[str], handler: str, jobs: int, **environment: str) -> float:
    """Return the jobs that a worker process ends a second; report their processor time."""
    used: list[float] = []

    def read(working: Working) -> float:
        at = working.stamp()
        used.append(cpu_of([working.pid]) + measure.cpu())
        return at

    share, spent = _between(command, handler, jobs, read, environment)
    measure.report_cpu(share, used[-1] - used[0])
    return share / spent


def cpu(command: list[str], handler: str, jobs: int, **environment: str) -> float:
    """Return the microseconds of CPU that a job costs: the worker's, and those of its sessions."""
    with server.connect(environment.get("BENCH_URL") or command[1]) as connection:

        def read(working: Working) -> float:
            working.stamp()
            return cpu_of([working.pid, *server.sessions(connection)])

        share, spent = _between(command, handler, jobs, read, environment)
    return spent / share * 1e6


def cpu_of(processes: Iterable[int]) -> float:
    """Return the seconds of CPU that these processes have spent, with all their threads."""
    spent = 0
    for one in processes:
        for thread in Path(f"/proc/{one}/task").glob("*/schedstat"):
            spent += int(thread.read_text("ascii").split()[0])
    return spent / 1e9


def _between(
    command: list[str],
    handler: str,
    jobs: int,
    read: Callable[[Working], float],
    environment: dict[str, str],
) -> tuple[float, float]:
    """Run a worker process; returns how many jobs it did between its stamps, and what was spent."""
    last = runs(jobs) if handler == "flaky" else jobs
    first = last // 10
    with worker(command, f"{first},{last}", **environment) as working:
        began = read(working)
        spent = read(working) - began
    return (last - first) * jobs / last, spent


Result = Callable[..., float]
"""Runs a worker process; returns a figure."""
Prepare = Callable[[Stage], AbstractContextManager[Round]]


def ours(
    url: Callable[[Stage], str],
    handler: str,
    full: int,
    quick: int,
    *options: str,
    result: Result = rate,
) -> Prepare:
    """Make a contestant of our worker on a store."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number = stage.size(full, quick)

        def one_round() -> float:
            place = url(stage)
            load(place, handler, number)
            if place.startswith("postgres"):
                with server.connect(place) as connection:
                    connection.execute("VACUUM ANALYZE")
            return result(our_command(*options), handler, number, BENCH_URL=place)

        yield one_round

    return prepare


def peer(
    command: Callable[[Stage, str], list[str]],
    handler: str,
    full: int,
    quick: int,
    result: Result = rate,
) -> Prepare:
    """Make a contestant of a peer, whose program lays in its jobs itself."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number = stage.size(full, quick)
        yield lambda: result(command(stage, str(number)), handler, number)

    return prepare


def huey(kind: str, handler: str = "noop", full: int = 4000, quick: int = 500) -> Prepare:
    """Make a contestant of Huey's consumer."""

    def command(stage: Stage, number: str) -> list[str]:
        return huey_command(kind, str(stage.fresh()), handler, number)

    return peer(command, handler, full, quick)


def on_server(
    program: str,
    most: int,
    handler: str = "noop",
    full: int = 10_000,
    quick: int = 3000,
    *,
    result: Result = rate,
) -> Prepare:
    """Make a contestant of a peer on PostgreSQL; `most` jobs at one time."""

    def command(_stage: Stage, number: str) -> list[str]:
        return [program, server.new_database(), handler, number, str(most)]

    return peer(command, handler, full, quick, result)


def sqlite_url(stage: Stage) -> str:
    """Name a new SQLite store."""
    return f"sqlite:{stage.fresh() / 'jobs.db'}"


def jsonl_url(stage: Stage) -> str:
    """Name a new store of lines."""
    return f"jsonl:{stage.fresh() / 'jobs.jsonl'}"


def postgres_url(_stage: Stage) -> str:
    """Name a new store in a database of its own."""
    return server.new_database()
