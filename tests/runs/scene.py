"""A store full of dead letters of one cause, and real processes at it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from kit import START, make_failure, make_job
from redrive import Reason, Redrive, State
from redrive.runs.run_records import Run

JOBS, FAILING = 160, 8
HERE = Path(__file__).parent


class Scene:
    """A store full of dead letters, and real processes at it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.app = Redrive(url)
        self.environment = {
            "RUN_URL": url,
            "RUN_LEDGER": str(folder / "ledger"),
            "REDRIVE_STORE": url,
            "PYTHONPATH": str(HERE),
        }
        self._started: list[subprocess.Popen[bytes]] = []
        cause = make_failure("permanent", cause="outage")
        self.app.store.add(
            [
                make_job(
                    f"job{n:05d}",
                    handler="charge",
                    payload=f'{{"n":{n}}}',
                    state=State.DEAD,
                    reason=Reason.PERMANENT,
                    finished=START,
                    failure=cause,
                )
                for n in range(JOBS)
            ]
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `redrive` with these words, in a group of its own."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "redrive", *words],
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def work(self) -> subprocess.Popen[bytes]:
        """Start a worker that is one process."""
        return self.start("work", "program:app", "--processes", "0")

    def run(self) -> Run | None:
        """Give the run, once there is one."""
        return next(iter(self.app.desk.runs.recent()), None)

    def ended(self) -> int:
        """How many of its jobs have ended."""
        run = self.run()
        return run.counts.ended if run and run.counts else 0

    def close(self) -> None:
        """End what was started here."""
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.app.close()
