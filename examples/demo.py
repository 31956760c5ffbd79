"""`make demo`: a print shop's bad day, told in a few seconds.

Jobs succeed, fail and are retried, die and are grouped by cause; the cause is mended, the group is
driven again. Everything lives in a temporary directory that is gone afterwards. The exit code is 0
only if the story ended as told.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import redrive
from redrive import GiveUp, Policy, Redrive, exponential

BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"
PATIENT = Policy(attempts=5, wait=exponential(0.3, cap=1, jitter="none"))


class Unauthorized(Exception):
    """What the payment service answers to an old key."""

    status = 401


class Shop:
    """The world outside: a busy printer, and a payment service that wants a newer key."""

    def __init__(self) -> None:
        self.key_is_valid = False
        self.printed: list[int] = []
        self.paid: list[int] = []

    def greet(self, order: int) -> None:
        """Do what always works."""

    def print_out(self, order: int, jams: int) -> None:
        """Fail as often as the paper jams, then work."""
        if redrive.current().attempt <= jams:
            raise ConnectionResetError("the printer hung up")
        self.printed.append(order)

    def charge(self, order: int) -> None:
        """Fail until the key is renewed."""
        if not self.key_is_valid:
            raise Unauthorized(f"order {order}: this API key was revoked")
        self.paid.append(order)

    def ship(self, order: int) -> None:
        """Give up: no retry finds a street that is not there."""
        raise GiveUp(f"order {order}: no such street")


def say(text: str, colour: str = "") -> None:
    colour = colour or ("" if text.startswith(" ") else BOLD)
    if colour and sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        text = f"\x1b[{colour}m{text}\x1b[0m"
    print(text, flush=True)


def submit_all(app: Redrive, shop: Shop) -> None:
    greet = app.handler("mail.greet")(shop.greet)
    print_out = app.handler("printer.print", policy=PATIENT)(shop.print_out)
    charge = app.handler("payment.charge")(shop.charge)
    ship = app.handler("parcel.ship")(shop.ship)
    for order in (1, 2, 3):
        greet.submit(order)
        charge.submit(order)
    for order, jams in enumerate((1, 2, 0, 1), start=101):
        print_out.submit(order, jams=jams)
    ship.submit(order=7)


def run_until_quiet(app: Redrive) -> None:
    """Make passes until nothing waits any more, as a worker would."""
    for number in range(1, 20):
        done = app.run_due()
        say(
            f"   pass {number}: {done.taken} tried, {done.succeeded} succeeded, "
            f"{done.failed} failed, {done.died} of them for good"
        )
        waiting = app.find(state="pending").jobs
        if not waiting:
            return
        wait = max(0.0, min(job.due for job in waiting) - time.time())
        say(f"           {len(waiting)} wait for their next try, the first for {wait:.1f} s")
        time.sleep(wait + 0.05)


def mend(shop: Shop) -> None:
    shop.key_is_valid = True


def tell(app: Redrive, shop: Shop) -> None:
    say("1. A print shop submits eleven jobs; the store is a file, nothing else is running.")
    submit_all(app, shop)
    say("   each was synced to disk before `submit` returned")
    say("2. They run. A jammed printer is tried again; a revoked key or a wrong street is not.")
    run_until_quiet(app)
    say(f"   orders printed after all: {sorted(shop.printed)}", GREEN)
    say("3. What died, grouped by cause:")
    for group in app.groups():
        say(f"   {group.name}: {group.jobs} × {group.title} ({group.category})", YELLOW)
    say("4. Somebody renews the key and drives that group again, with one call.")
    mend(shop)
    moved = app.retry("G1", reason="the key was renewed")
    say(f'   app.retry("G1"): {len(moved.done)} jobs start a fresh life')
    run_until_quiet(app)
    say(f"   orders paid after all: {sorted(shop.paid)}", GREEN)
    say("5. The wrong street cannot be helped; it is closed with a reason, on the record.")
    app.discard(state="dead", reason="the customer cancelled")
    for act in reversed(app.acts()):
        say(f"   {act.actor}: {act.verb} {act.target} ({act.reason}): {act.done} done")


def main() -> int:
    logging.basicConfig(level=logging.ERROR)
    shop = Shop()
    end: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="redrive-demo-") as folder,
        Redrive(Path(folder) / "demo.db") as app,
    ):
        tell(app, shop)
        for count in app.counts():
            end[count.state] += count.jobs
    if end != {"completed": 10, "resolved": 1} or len(shop.paid) != 3:
        say(f"The story did not end as told: {dict(end)}.", RED)
        return 1
    say("The end: ten jobs completed, one closed by a person, none lost.", GREEN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
