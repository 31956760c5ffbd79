"""Jobs for the handlers of `evilkit`, and the count of what is left of their processes."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import evilkit
from kit import make_job
from redrive.jobs.job import Job
from redrive.jobs.outcomes import Done, Failed, Outcome, Skipped
from redrive.registry import Entry

PROGRAM = "evilkit:app"
_MARK = "REDRIVE_EVIL"
"""An environment variable by which all processes are found that came of this one."""


def evil_job(name: str, payload: str = "{}") -> tuple[Job, Entry]:
    """A claimed job for a handler of `evilkit`, and the handler."""
    job = make_job(handler=name, payload=payload, attempts=1, max_attempts=3, lease=1)
    return job, evilkit.app.submitter.registry.need(name)


def end_of(outcome: Outcome) -> tuple[str, str]:
    """The category (empty: it is done) and all words of an end."""
    match outcome:
        case Failed(failure):
            return failure.category, f"{failure.type} {failure.why} {failure.message}"
        case Skipped(reason):
            return "", reason
        case Done():
            return "", ""
        case _:
            return "none", type(outcome).__name__


def is_right_end(name: str, outcome: Outcome) -> bool:
    """Whether an evil handler came to the end that it must come to."""
    category, why = evilkit.ENDS[name]
    found, words = end_of(outcome)
    return found == category and re.search(why, words) is not None and len(words) < 10_000


@contextlib.contextmanager
def marked() -> Iterator[None]:
    """Mark what is started from here on."""
    os.environ[_MARK] = uuid.uuid4().hex
    os.environ["PWD"] = os.getcwd()  # noqa: PTH109
    try:
        yield
    finally:
        del os.environ[_MARK]


def held() -> tuple[int, int]:
    """How many descriptors and threads this process has, what nobody uses any more aside."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208


def left(expected: int = 0) -> list[str]:
    """The marked processes and our zombies, once they are as few as expected or after a while."""
    until = time.monotonic() + 30
    while len(found := _descendants()) > expected and time.monotonic() < until:
        time.sleep(0.01)
    return found


def _descendants() -> list[str]:
    mark, me = f"{_MARK}={os.environ[_MARK]}".encode(), os.getpid()
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            is_zombie = state == "Z" and int(parent) == me
            is_ours = int(place.name) != me and mark in (place / "environ").read_bytes()
            if is_zombie or is_ours:
                found.append(f"{place.name} {state}")
    return found
