"""Stop PostgreSQL at once, under load, again and again: its clients wait, and nothing is lost.

    python rigs/server.py            50 stops, and sessions ended between them
    python rigs/server.py --short    2 of them
    python rigs/server.py --control  a build whose submits are not synced: must be found out

Four processes submit and work while the server is stopped with `-m immediate` and started again;
between two stops all their sessions are ended. The leases are shorter than the stops, so that every
worker finds its jobs taken over by others; and a fifth process holds claims with long leases through
all of it, which nobody may touch. A settlement that was answered less than a second before a stop
may be undone, as the store's docstring says; it is counted, and its job must complete again.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from children import Crew, Line
from ledger import Ledger
from scene import labour, main, place, settle_up

import pgkit
from kit import make_job, make_settlement
from redrive.jobs.job import Completed, Reason
from redrive.stores import open_store

CREW = 4
_HELD = 5


def rig(kind: str, stops: int, broken: str) -> tuple[str, Ledger]:
    """Stop the server so often; the words for the figures, and the ledger."""
    assert kind == "postgresql"
    ledger = Ledger(undoable=True)
    crew = Crew(ledger.hear)
    with place(kind) as url:
        holder = crew.start(partial(hold, url))
        crew.until_ready(holder)
        for _ in range(CREW):
            crew.until_ready(crew.start(partial(labour, url, broken)))
        ended = sum(disturb(crew, ledger) for _ in range(stops))
        crew.listen(0.5)
        holder.go()
        crew.join(holder)
        settle_up(crew, url)
    words = f"{stops} stops, {ended} sessions ended, {ledger.refused} late settlements refused"
    return f"{words}, {ledger.undone()} undone by a stop", ledger


def disturb(crew: Crew, ledger: Ledger) -> int:
    """End all sessions once, then stop the server and start it again; how many sessions it was."""
    crew.listen(0.3)
    with pgkit.connect() as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'redrive'"
        ).rowcount
    crew.listen(0.3)
    ledger.stop()
    pgkit.stop_at_once()
    time.sleep(0.1)
    pgkit.start_again()
    return ended


def hold(url: str, line: Line) -> None:
    """Hold claims until told to go on; nobody else may have got at them meanwhile."""
    store = open_store(url)
    store.add(
        [make_job(f"held{number}", handler="held", max_attempts=1000) for number in range(_HELD)]
    )
    mine = store.claim(["held"], limit=_HELD, holder="h1", lease_for=3600)
    assert len(mine) == _HELD
    line.tell("ready")
    line.wait()
    assert store.claim(["held"], limit=_HELD, holder="h2", lease_for=3600) == []
    assert store.seize(by="h2", lease_for=3600, handlers=["held"]) == []
    ends = [make_settlement(claim, Completed(Reason.DONE)) for claim in mine]
    assert None not in store.settle(ends), "a claim was lost"
    assert store.settle(ends) == [None] * _HELD, "a claim was settled twice"
    store.close()


if __name__ == "__main__":
    sys.exit(
        main(
            rig,
            name="server",
            runs={"postgresql": (2, 50)},
            controls=[("unsynced", "postgresql")],
            control_runs=3,
            doc=__doc__,
        )
    )
