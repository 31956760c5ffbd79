"""What every test shares: the way to `kits`, and quiet, repeatable property tests."""

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Test modules are no package (import mode importlib), so what they share needs a path of its own.
# At the end: nothing here may hide an installed module.
TESTS = Path(__file__).parent
sys.path += [str(TESTS), str(TESTS / "kits")]

# In memory where there is room: on a disk, tests wait for its syncs most of their time. What a real
# disk does to stores is tried by rigs. The temporary directory may be known already: it is forgotten.
MEMORY, ROOM = Path("/dev/shm"), 4_000_000_000
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"], tempfile.tempdir = str(MEMORY), None

# Where tests are started in the background (nohup, `&` in a script) SIGINT is inherited as ignored, and
# Ctrl-C could not be tried here, nor in the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Repeatable, so that a red run is red again; rigs look for new cases with fresh seeds.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("repeatable")

# What is collected lives until the end. Without this every full garbage collection of every test
# looks through 13,000 collected tests, which takes a third of a second.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on, but not among the tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Undo what commands that run in this process set up: later tests' logs would be others."""
    logger = logging.getLogger("redrive")
    level, handlers, propagates = logger.level, list(logger.handlers), logger.propagate
    yield
    logger.setLevel(level)
    logger.handlers[:], logger.propagate = handlers, propagates
