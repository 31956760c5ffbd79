"""Kill -9 at random moments, again and again: what was acknowledged is there, and done once.

    python rigs/kill.py                     1,000 kills on each file store, 200 on PostgreSQL
    python rigs/kill.py --short             a taste of it
    python rigs/kill.py --runs 5000 sqlite  longer, on one store
    python rigs/kill.py --control           builds that answer or count too early: must be found out

Three processes submit to one store and work it off; now one, now another is killed, microseconds to
tens of milliseconds after it began (one in five while it still opens the store), and replaced. The
ledger of what they were told is the rig's own. After every lap the rest is worked off by a program
that nobody kills, and the store is compared with the ledger. Some jobs die: each death must be counted
and reported once, whoever was killed.
"""

from __future__ import annotations

import random
import sys
import time
from functools import partial

from children import Child, Crew
from ledger import Ledger
from scene import labour, look, main, place, settle_up

LAP = 50
"""Kills on one store; then an empty one again."""
CREW = 3


def rig(kind: str, kills: int, broken: str) -> tuple[str, Ledger]:
    """Kill so often; the words for the figures, and the ledger."""
    ledger = Ledger()
    left = kills
    while left > 0:
        with place(kind) as url:
            lap(ledger, url, min(LAP, left), broken)
        left -= LAP
    return f"{kills:,} kills", ledger


def lap(ledger: Ledger, url: str, kills: int, broken: str) -> None:
    """Kill on one store."""
    crew = Crew(ledger.hear)
    for _ in range(CREW):
        crew.start(partial(labour, url, broken))
    for number in range(kills):
        child = random.choice(crew.children)
        strike(crew, child)
        crew.start(partial(labour, url, broken))
        if number % 10 == 9:
            crew.join(crew.start(partial(look, url)))
    settle_up(crew, url)


def strike(crew: Crew, child: Child) -> None:
    """Kill a child when it is least expected."""
    if random.random() < 0.8:
        crew.until_ready(child)
    delay = 10 ** random.uniform(-5.5, -1.2)
    end = time.monotonic() + delay
    crew.listen(max(0.0, delay - 0.001))
    while time.monotonic() < end:
        pass
    crew.kill(child)


if __name__ == "__main__":
    sys.exit(
        main(
            rig,
            name="kill",
            runs={"sqlite": (25, 1000), "jsonl": (25, 1000), "postgresql": (25, 200)},
            controls=[
                (broken, kind)
                for broken in ("early", "uncounted")
                for kind in ("sqlite", "jsonl", "postgresql")
            ],
            control_runs=40,
            doc=__doc__,
        )
    )
