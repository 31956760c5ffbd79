"""A program for worker processes: what its handlers do is written down outside the store.

Each execution appends `began JOB ATTEMPT PID SECOND NUMBER` to the file `ran`, at once or not at all.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import logging
import os
import re
import resource
import signal
import subprocess
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


def kill_tree(supervisor: int) -> None:
    """Kill a supervisor and all its workers, ourselves last."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    ours = {os.getpid(), os.getppid()}
    for pid in (supervisor, *sorted(map(int, children), key=ours.__contains__)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_family(number: int) -> None:
    """Start what would outlive us: a fork, a program without environment, a job of a shell, a daemon."""
    if (pid := os.fork()) == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    write("started", "-", pid, number)
    alone = subprocess.Popen(["/bin/sleep", "600"], env={})
    write("started", "-", alone.pid, number)
    for words in ("", "setsid "):
        said = subprocess.run(
            ["/bin/sh", "-c", f"{words}sleep 600 >/dev/null 2>&1 & echo $!"],
            capture_output=True,
            check=True,
        )
        write("started", "-", int(said.stdout), number)


def do(number: int, seconds: float, deed: str) -> None:
    """Do as the job says: mostly nothing, or something that takes the process with it."""
    note("began", number)
    match deed:
        case "":
            time.sleep(seconds)
        case "kill":
            time.sleep(seconds / 2)
            os.kill(os.getpid(), signal.SIGKILL)
        case "tree":  # supervisor and workers alike
            kill_tree(int((DIRECTORY / "supervisor").read_text()))
            time.sleep(60)
        case "family":
            start_family(number)
            note("family", number)
            time.sleep(600)
        case _ if deed.isdigit():
            os._exit(int(deed))
        case _:
            hold(deed)
    note("ended", number)


def hold(deed: str) -> None:
    """Do what keeps a process from ending, or from running at all."""
    wait = threading.Event().wait
    match deed:
        case "gil":
            re.fullmatch(r"(?:a|a?)+b", "a" * 60)
        case "thread":
            threading.Thread(target=wait, name="left-behind", daemon=False).start()
        case "atexit":
            atexit.register(wait)
        case "system":  # as a program that takes all signals for itself, and blocks in C
            libc = ctypes.CDLL(None)
            for one in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                libc.signal(int(one), 1)
            libc.sleep(600)
        case "swallow":
            while True:
                with contextlib.suppress(BaseException):
                    time.sleep(0.01)
                    raise SystemExit
        case _:
            hold_others_up(deed)


def hold_others_up(deed: str) -> None:
    """Do what harms the rest of the process, and return or fail."""
    match deed:
        case "fork":
            os.fork()
        case "log":
            for handler in (*logging.root.handlers, *logging.getLogger("redrive").handlers):
                handler.acquire()
            raise ValueError("the worker logs this")
        case "descriptors":
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, 4096))
        case "sizes":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        case "memory":
            resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
        case "clock":
            time.monotonic = lambda: 0.0
        case "directory":
            place = DIRECTORY / "removed"
            place.mkdir(exist_ok=True)
            os.chdir(place)
            place.rmdir()
        case _:
            raise AssertionError(deed)


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


@app.handler("forking")
async def forking(number: int) -> None:
    """Be two in the middle of the loop's work; each of them goes on, as far as it can."""
    note("began", number)
    os.fork()
    await asyncio.sleep(0.1)
    note("ended", number)


@app.handler("late", attempts=2, isolation="thread", timeout=0.1)
def late(number: int) -> None:
    """Never come back; fail twice."""
    note("began", number)
    threading.Event().wait()


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
