"""When a worker is killed, its children die with all that they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from childkit import left

PARENT = """
import os, sys, time
sys.path[:] = {path!r}
from childkit import evil_job
from redrive.worker.children import Child

child = Child("evilkit:app")
child.run(*evil_job("look"))
if {fork} and os.fork() == 0:
    time.sleep(3600)
child.run(*evil_job({name!r}), on_start=lambda: print("begun", flush=True))
"""


@contextlib.contextmanager
def worker(name: str, *, fork: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child that runs this handler; both are gone in the end."""
    code = PARENT.format(path=sys.path, name=name, fork=fork)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            assert parent.stdout.readline() == b"begun\n"
            yield parent
        finally:
            parent.kill()
            for line in left(99):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line.split()[0]), signal.SIGKILL)


def wait_until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not is_so() and time.monotonic() < end:
        time.sleep(0.005)
    return is_so()


@pytest.mark.parametrize("fork", [False, True])
@pytest.mark.parametrize("name", ["sleeps_for_ever", "holds_for_ever", "forks_for_ever"])
def test_when_the_worker_is_killed_its_children_die_with_all_they_started(
    nothing_left: None, name: str, fork: bool
) -> None:
    """Also a handler that holds the interpreter; also when a fork of the worker lives on."""
    with worker(name, fork=fork) as parent:
        everybody = 2 + fork + (name == "forks_for_ever")
        assert wait_until(lambda: len(left(99)) == everybody)
        parent.kill()
        parent.wait()
        assert wait_until(lambda: len(left(99)) == fork)
