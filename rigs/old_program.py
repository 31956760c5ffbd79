"""A program of Redrive as it was at commit 1ad7865, for `upgrade.py`; that source comes first in its path.

old_program.py fill URL JOBS   add jobs in every state
old_program.py dump URL        print all that is stored, as JSON
old_program.py work URL        submit slow jobs and work until it is ended; prints each start and end
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "stores" / "upgrade"))

SLOW = 40
"""How many jobs `work` submits."""
LEASE = 2.0


def fill(url: str, jobs: str) -> None:
    """Submit jobs and work two thirds of them off: half of these die."""
    from redrive import Policy, Redrive  # noqa: PLC0415 - which one, the path says

    app: Any = Redrive(url)

    @app.handler("rig.fine")
    def fine(number: int, text: str) -> None: ...

    @app.handler("rig.bad", policy=Policy(attempts=1))
    def bad(number: int, text: str) -> None:  # noqa: ARG001
        msg = f"no such customer: {number % 5}"
        raise ValueError(msg)

    @app.handler("rig.later")
    def later(number: int, text: str) -> None: ...

    each = int(jobs) // 3
    for number in range(each):
        fine.submit(number, "x" * 500)
        bad.submit(number, "x" * 500)
    app.run_due()
    for number in range(each):
        later.submit(number, "x" * 500)
    app.close()


def dump(url: str) -> None:
    """Print all that is stored."""
    from contents import contents  # noqa: PLC0415 - as above

    from redrive import job  # noqa: PLC0415
    from redrive.stores import base, open_store  # type: ignore[attr-defined]  # noqa: PLC0415

    store = open_store(url, read_only=True)
    everything = base.Query(states=frozenset(job.State), limit=1_000_000)
    print(json.dumps(contents(store, everything)))


def work(url: str) -> None:
    """Work slowly, two jobs at a time."""
    from redrive import Redrive, current  # noqa: PLC0415 - as above

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    app: Any = Redrive(url, lease=LEASE)

    @app.handler("rig.slow")
    def slow(number: int) -> None:  # noqa: ARG001
        told("began")
        time.sleep(0.4)
        told("ended")

    def told(what: str) -> None:
        print(f"{what} {current().job_id}\n", end="", flush=True)  # a line is one write

    for number in range(SLOW):
        slow.submit(number)
    with app.worker(concurrency=2):
        sys.stdin.read()


if __name__ == "__main__":
    {"fill": fill, "dump": dump, "work": work}[sys.argv[1]](*sys.argv[2:])
