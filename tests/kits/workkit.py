"""Apps with a worker in tests: real time, short leases, waiting with an end."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from redrive import Policy, Redrive, State, constant

LEASE = 4.0
QUICK = Policy(attempts=3, wait=constant(0.01))


def url_of(kind: str, directory: Path) -> str:
    """Give the address of a fresh store."""
    return {
        "memory": "memory:",
        "beside": "memory:",
        "jsonl": f"jsonl:{directory / 'jobs.jsonl'}",
        "sqlite": str(directory / "jobs.db"),
    }[kind]


@contextmanager
def app_on(kind: str, directory: Path) -> Iterator[Redrive]:
    """Give an app on a fresh store; of the kind "beside" it is settled like a server."""
    with Redrive(url_of(kind, directory), policy=QUICK, lease=LEASE) as app:
        app.store.is_server = kind == "beside"
        yield app


def free_port() -> int:
    """Give a port to listen at that no other test takes first: they get theirs from the system."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something holds; an error if it does not within the time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.005)


def number(app: Redrive, state: str) -> int:
    """Count the jobs of one state."""
    return sum(count.jobs for count in app.desk.jobs.counts() if count.state == State(state))


def all_done(app: Redrive) -> bool:
    """Whether nothing is pending or running."""
    # One look: between two of them a job may go from running back to pending.
    return not any(
        count.jobs and count.state in {State.PENDING, State.RUNNING}
        for count in app.desk.jobs.counts()
    )


class Log:
    """What handlers did, noted by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seen: list[object] = []

    def note(self, what: object) -> None:
        """Add to it."""
        with self._lock:
            self.seen.append(what)
