"""What an import costs over a bare interpreter, in fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from measure import Contestant, Goal, Measure, Round, Stage, seconds

EACH = 3
"""Processes a round; five rounds make fifteen."""


def run(code: str) -> None:
    """Run some code in a new interpreter, untouched by this one's surroundings."""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=False)
    if done.returncode:
        raise ImportError(done.stderr.decode().strip().splitlines()[-1])


def over_bare(code: str) -> float:
    """Give the milliseconds more than a bare interpreter takes, the two started in turn."""
    pairs = [(seconds(lambda: run(code)), seconds(lambda: run("pass"))) for _ in range(EACH)]
    return 1000 * statistics.median(long - short for long, short in pairs)


def importing(code: str) -> Callable[[Stage], AbstractContextManager[Round]]:
    """Make a contestant of an import."""

    @contextmanager
    def prepare(_stage: Stage) -> Iterator[Round]:
        run(code)  # compiles what was not yet
        yield lambda: over_bare(code)

    return prepare


IMPORT = Measure(
    name="import",
    title="Import, over a bare interpreter",
    unit="ms",
    contestants=tuple(
        Contestant(name, "", importing(code))
        for name, code in {
            "import redrive": "import redrive",
            "SqliteHuey": "from huey import SqliteHuey",
            "litequeue": "import litequeue",
            "persist-queue": "from persistqueue import SQLiteAckQueue",
            "chancy": "import chancy",
            "pgqueuer": "import pgqueuer",
            "procrastinate": "import procrastinate",
            "dbos": "import dbos",
        }.items()
    ),
    goals=(Goal("import redrive", "", 40, 25, at_most=True),),
    plotted=True,
)
