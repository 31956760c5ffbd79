"""Our program, as a user would write it: run by `redrive work worker_ours:app`."""

from __future__ import annotations

import os

from worker_runs import fails, ran

from redrive import Policy, Redrive, constant

app = Redrive(os.environ["BENCH_URL"])


@app.handler("noop")
def noop(**message: object) -> None:  # noqa: ARG001 - like everybody's
    """Do nothing."""
    ran()


@app.handler("flaky", policy=Policy(attempts=5, wait=constant(0, jitter="none")))
def flaky(**message: int) -> None:
    """Fail now and then."""
    if fails(message["id"]):
        raise ConnectionError("the mail server is down")
