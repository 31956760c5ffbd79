"""A program for real workers: most jobs succeed, every twentieth dies again; all is written down."""

from __future__ import annotations

import os
import time
from pathlib import Path

from redrive import GiveUp, Policy, Redrive, constant

app = Redrive(os.environ["RUN_URL"], lease=2)
_ledger = os.open(Path(os.environ["RUN_LEDGER"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@app.handler("charge", policy=Policy(attempts=9, wait=constant(0.1)))
def charge(n: int) -> None:
    """Do a little, and note it."""
    os.write(_ledger, f"{n}\n".encode())
    time.sleep(0.005)
    if n % 20 == 7:
        raise GiveUp("no such customer")
