"""A program for worker processes: what its handlers do is written down outside the store.

Each execution appends `began JOB ATTEMPT PID SECOND NUMBER` to the file `ran`, at once or not at all.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

from redrive import Policy, Redrive, constant, current

DIRECTORY = Path(os.environ["CREW_DIRECTORY"])
PATIENT = Policy(attempts=1_000_000, alike=True, wait=constant(0.05))
"""Nothing dies but what took three workers with it."""

app = Redrive(
    os.environ["CREW_URL"], policy=PATIENT, lease=float(os.environ.get("CREW_LEASE", "2"))
)
_file = os.open(DIRECTORY / "ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(word: str, number: int) -> None:
    """Write down what happens."""
    me = current()
    write(word, me.job_id, me.attempt, number)


def write(word: str, job: str, attempt: int, number: int) -> None:
    """Write a line to the file, at once or not at all."""
    words = word, job, attempt, os.getpid(), time.monotonic(), number
    os.write(_file, (" ".join(map(str, words)) + "\n").encode())


def do(number: int, seconds: float, deed: str) -> None:
    """Do as the job says: mostly nothing, or something that takes the process with it."""
    note("began", number)
    match deed:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "tree":  # the group of our parent: supervisor and workers alike
            os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
            time.sleep(60)
        case "":
            time.sleep(seconds)
        case _:
            os._exit(int(deed))
    note("ended", number)


@app.handler("work")
def work(number: int, seconds: float = 0.0, deed: str = "") -> None:
    """Work where the worker likes it."""
    do(number, seconds, deed)


@app.handler("beside", isolation="thread")
def beside(number: int, seconds: float = 0.0, deed: str = "") -> None:
    """Work in a thread, whatever happened before."""
    do(number, seconds, deed)


@app.handler("apart", isolation="process")
def apart(number: int, seconds: float = 0.0, deed: str = "") -> None:
    """Work in a child."""
    do(number, seconds, deed)


@app.handler("once", attempts=1, isolation="thread")
def once(number: int, seconds: float = 0.0, deed: str = "") -> None:
    """Work once and never again."""
    do(number, seconds, deed)


@app.handler("asleep")
async def asleep(number: int, seconds: float = 0.0) -> None:
    """Work on the loop."""
    note("began", number)
    await asyncio.sleep(seconds)
    note("ended", number)


@app.handler("stuck", attempts=1, isolation="thread", timeout=0.1)
def stuck(number: int) -> None:
    """Never come back."""
    note("began", number)
    threading.Event().wait()
