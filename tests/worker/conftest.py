"""A child to run evil handlers in, and the proof that nothing is left of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from childkit import PROGRAM, evil_job, held, left, marked
from redrive.worker.children import Child, Ran

Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def nothing_left() -> Iterator[None]:
    """No process, zombie, descriptor or thread outlives a module's tests."""
    with marked():
        before = held()
        yield
        assert left() == []
        descriptors, threads = held()
        # Fewer is fine: what tests before these left behind may end meanwhile.
        assert descriptors <= before[0]
        assert threads <= before[1]


@pytest.fixture(scope="module")
def child(nothing_left: None) -> Iterator[Child]:
    """A child, with a process that waits."""
    found = Child(PROGRAM, grace=0.5)
    found.run(*evil_job("look"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def run(child: Child) -> Run:
    """Run a handler of `evilkit` in the child."""

    def runs(name: str, payload: str = "{}") -> Ran:
        return child.run(*evil_job(name, payload))

    return runs
