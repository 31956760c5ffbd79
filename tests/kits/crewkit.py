"""Worker processes under a supervisor, as `redrive work` starts them, and what their handlers did."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from redrive import Redrive
from redrive.submission import Draft, Options
from workkit import until

HERE = Path(__file__).parent


class Ran(NamedTuple):
    """A line that a handler wrote."""

    word: str
    job: str
    attempt: int
    pid: int
    at: float
    number: int


class Crew:
    """A supervisor that can be started again and again on one store."""

    def __init__(
        self,
        directory: Path,
        url: str,
        *options: str,
        program: str = "crewapp:app",
        path: Path = HERE,
        **more: str,
    ) -> None:
        self.directory = directory
        self.url = url
        self._words = ["-m", "redrive", "work", program, *options]
        self.environment = {
            **os.environ,
            "CREW_DIRECTORY": str(directory),
            "CREW_URL": url,
            "PYTHONPATH": os.pathsep.join([str(path), str(HERE), *_given_path()]),
            **more,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, in a process group of its own."""
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self._words],
                env=self.environment,
                stderr=log,
                stdout=log,
                cwd=self.directory,
                start_new_session=True,
            )
        (self.directory / "supervisor").write_text(str(self.process.pid))
        return self.process

    @property
    def pid(self) -> int:
        """The supervisor's."""
        assert self.process is not None
        return self.process.pid

    def workers(self) -> list[int]:
        """Give the worker processes that live now."""
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
            return [pid for pid in map(int, text.split()) if is_alive(pid) and _is_worker(pid)]
        return []

    def terminate(self) -> None:
        """Ask it to stop."""
        os.kill(self.pid, signal.SIGTERM)

    def end(self, seconds: float = 60.0) -> int:
        """Wait for its end; the exit code."""
        assert self.process is not None
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End all of it at once."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.pid, signal.SIGSTOP)  # it would start others in their place
            for pid in (*self.workers(), self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            self.process.wait()

    def ran(self, word: str = "began") -> list[Ran]:
        """What handlers wrote down up to now."""
        return read(self.directory, word)

    def log(self) -> str:
        """What was said on standard error up to now."""
        return (self.directory / "log").read_text("utf-8", "replace")


def _is_worker(pid: int) -> bool:
    """Whether it is a worker, and nothing that a handler left to the supervisor."""
    with contextlib.suppress(OSError):
        return b"--parent" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _given_path() -> list[str]:
    return [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]


_WORDS = 6
"""Words of a line."""


def read(directory: Path, word: str = "began") -> list[Ran]:
    """Read what handlers wrote down, whole lines only: a limit on file sizes may cut one short."""
    place = directory / "ran"
    text = place.read_text("ascii") if place.exists() else ""
    rows = (line.split() for line in text.splitlines(keepends=True) if line.endswith("\n"))
    return [
        Ran(kind, job, int(attempt), int(pid), float(at), int(number))
        for kind, job, attempt, pid, at, number in (row for row in rows if len(row) == _WORDS)
        if kind == word
    ]


@contextlib.contextmanager
def crew(
    directory: Path,
    url: str,
    *options: str,
    program: str = "crewapp:app",
    path: Path = HERE,
    **more: str,
) -> Iterator[Crew]:
    """Have a crew at work; nothing of it is left afterwards."""
    made = Crew(directory, url, *options, program=program, path=path, **more)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def is_alive(pid: int) -> bool:
    """Whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: Iterable[int], seconds: float = 20.0) -> None:
    """Wait until all of these have ended."""
    until(lambda: not any(map(is_alive, pids)), seconds)


def fill(app: Redrive, handler: str, payloads: Iterable[dict[str, object]]) -> list[str]:
    """Store many jobs with few writes."""
    submitter = app.submitter
    entry = submitter.registry.need(handler)
    drafts = [Draft(entry, submitter.draft(entry, json.dumps(one), Options())) for one in payloads]
    for start in range(0, len(drafts), 1000):
        assert not any(
            isinstance(one, BaseException)
            for one in submitter.submit_all(drafts[start : start + 1000])
        )
    return [draft.job.id for draft in drafts]


def app_of(url: str) -> Redrive:
    """Give an app on the crew's store that knows the names of its handlers and runs none of them."""
    made = Redrive(url)
    for name in ("work", "beside", "apart", "asleep"):
        made.handler(name, attempts=1000)(_nothing)
    made.handler("forking", attempts=1000)(_nothing)
    made.handler("late", attempts=2)(_nothing)
    for name in ("once", "stuck"):
        made.handler(name, attempts=1)(_nothing)
    return made


def _nothing(number: int, seconds: float = 0.0, deed: str = "") -> None:
    raise AssertionError("this program runs no jobs")


def wait_for(crew: Crew, jobs: int, word: str = "began", seconds: float = 30.0) -> None:
    """Wait until so many handlers wrote that word."""
    end = time.monotonic() + seconds
    while len(crew.ran(word)) < jobs:
        assert time.monotonic() < end, crew.log()[-2000:]
        time.sleep(0.01)
