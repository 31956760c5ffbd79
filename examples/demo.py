"""`make demo`: a print shop's bad day, told in a few seconds.

Jobs succeed, fail and are retried, die and are grouped by cause; the cause is mended, the group is
driven again. Everything lives in a temporary directory that is gone afterwards. The exit code is 0
only if the story ended as told.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import redrive
from redrive import GiveUp, Group, Handler, Policy, Redrive, exponential

Say = Callable[..., None]
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


def submit_all(app: Redrive, shop: Shop) -> int:
    greet = app.handler("mail.greet")(shop.greet)
    print_out = app.handler("printer.print", policy=PATIENT)(shop.print_out)
    charge = app.handler("payment.charge")(shop.charge)
    ship = app.handler("parcel.ship")(shop.ship)
    easy: list[Handler[..., None]] = [greet, greet, greet, charge, charge, charge, ship]
    for order, handler in enumerate(easy, start=1):
        handler.submit(order=order)
    for order, jams in enumerate((1, 2, 0, 1), start=101):
        print_out.submit(order=order, jams=jams)
    return len(easy) + 4


def run_until_quiet(app: Redrive, say: Say) -> None:
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


def states(app: Redrive) -> dict[str, int]:
    found: Counter[str] = Counter()
    for count in app.counts():
        found[count.state.value] += count.jobs
    return dict(found)


def show_groups(app: Redrive, say: Say) -> list[Group]:
    groups = app.groups()
    for group in groups:
        say(f"   {group.name}: {group.jobs} × {group.title} ({group.category})", style="yellow")
    return groups


def tell(app: Redrive, shop: Shop, say: Say) -> dict[str, int]:
    say("1. A print shop submits its jobs; the store is a file, nothing else is running.")
    say(f"   {submit_all(app, shop)} jobs are stored, each synced to disk before `submit` returned")
    say("2. They run. A jammed printer is tried again; a revoked key or a wrong street is not.")
    run_until_quiet(app, say)
    say(f"   orders printed after all: {sorted(shop.printed)}", style="green")
    say("3. What died, grouped by cause:")
    groups = show_groups(app, say)
    say("4. Somebody renews the key and drives that group again, with one call.")
    mend(shop)
    revoked = next(group for group in groups if "Unauthorized" in group.title)
    moved = app.retry(revoked, reason="the key was renewed")
    say(f"   app.retry({revoked.name!r}): {len(moved.done)} jobs start a fresh life")
    run_until_quiet(app, say)
    say(f"   orders paid after all: {sorted(shop.paid)}", style="green")
    say("5. The wrong street cannot be helped; it is closed with a reason, on the record.")
    app.discard(state="dead", reason="the customer cancelled")
    for act in reversed(app.acts()):
        say(f"   {act.actor}: {act.verb} {act.target} ({act.reason}): {act.done} done")
    return states(app)


def mend(shop: Shop) -> None:
    shop.key_is_valid = True


def speaker() -> Say:
    """Speak in colours on a terminal that has them, in plain text elsewhere."""

    def plain(text: str, style: str = "") -> None:  # noqa: ARG001 - plain text has no style
        print(text, flush=True)

    if not sys.stdout.isatty():
        return plain
    try:
        from rich.console import Console  # noqa: PLC0415 - only where it can be seen
    except ImportError:
        return plain
    console = Console(highlight=False)

    def rich(text: str, style: str = "") -> None:
        bold = "" if text.startswith(" ") else "bold"
        console.print(text, style=style or bold or None, markup=False)

    return rich


def main() -> int:
    logging.basicConfig(level=logging.ERROR)
    say = speaker()
    shop = Shop()
    with (
        tempfile.TemporaryDirectory(prefix="redrive-demo-") as folder,
        Redrive(Path(folder) / "demo.db") as app,
    ):
        end = tell(app, shop, say)
    wanted = {"completed": 10, "resolved": 1}
    if end != wanted or len(shop.paid) != 3 or len(shop.printed) != 4:
        say(f"The story did not end as told: {end}, and not {wanted}.", style="red")
        return 1
    say("The end: ten jobs completed, one closed by a person, none lost.", style="green")
    return 0


if __name__ == "__main__":
    sys.exit(main())
