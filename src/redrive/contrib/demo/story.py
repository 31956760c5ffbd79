"""The script of the demo: jobs fail, are retried or die; an operator fixes the cause."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from redrive.alerts import Alerts, webhook
from redrive.app import Redrive
from redrive.contrib.demo.screen import Row, Screen
from redrive.contrib.demo.town import KEYS, Town, served
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.policies.policy import Policy
from redrive.runs.run_records import Run
from redrive.strategies import exponential

SIZES = {"mail.send": 12, "printer.print": 9, "model.ask": 6, "card.charge": 20, "parcel.ship": 3}
"""How many jobs of each kind; the last two die."""
_DYING = ("card.charge", "parcel.ship")
_PATIENCE = 20.0
_SHOWN = (State.PENDING, State.RUNNING, State.COMPLETED, State.DEAD)


class Shop:
    """The program of the demo: its handlers, and the key that it uses."""

    def __init__(self, folder: Path, place: Town) -> None:
        self.town = place
        self.key = KEYS[0]
        log.addHandler(logging.NullHandler())  # the demo itself shows what dies
        self.app = Redrive(
            folder / "demo.db",
            actor="demo",
            policy=Policy(attempts=5, wait=exponential(0.5, cap=4, jitter=0.2)),
            alerts=Alerts(webhook(url=f"{place.url}/inbox", name="inbox", allow=place.allow)),
        )
        add = self.app.handler
        self.send = add("mail.send")(self._send)
        self.print = add("printer.print")(self._print)
        self.ask = add("model.ask")(self._ask)
        self.charge = add("card.charge")(self._charge)
        self.ship = add("parcel.ship")(self._ship)

    def _send(self, order: int) -> None:
        self.town.call("send", order)

    def _print(self, order: int) -> None:
        self.town.call("print", order)

    def _ask(self, order: int) -> None:
        self.town.call("ask", order)

    def _charge(self, order: int) -> None:
        self.town.call("charge", order, self.key)

    def _ship(self, order: int) -> None:
        self.town.call("ship", order)

    def submit_all(self) -> None:
        """Submit all jobs of the demo."""
        handlers = (self.send, self.print, self.ask, self.charge, self.ship)
        for handler, size in zip(handlers, SIZES.values(), strict=True):
            for order in range(1, size + 1):
                handler.submit(order)

    def rows(self) -> Sequence[Row]:
        """Return the numbers of jobs by lane, without the lane of alerts."""
        counts = Counter[tuple[str, State]]()
        for count in self.app.desk.jobs.counts():
            counts[count.lane, count.state] += count.jobs
        return [(lane, [counts[lane, state] for state in _SHOWN]) for lane in SIZES]

    def is_quiet(self) -> bool:
        """Return True if nothing waits or runs any more."""
        return not any(waiting or running for _, (waiting, running, *_) in self.rows())

    def ends(self) -> dict[str, int]:
        """Count the shop's jobs by state."""
        counts = Counter[str]()
        for count in self.app.desk.jobs.counts():
            if count.lane in SIZES:
                counts[count.state.value] += count.jobs
        return dict(counts)

    def fix(self) -> None:
        """Use the new key."""
        self.key = KEYS[1]


@contextmanager
def place_of_its_own() -> Generator[Path]:
    """Return a directory for everything the demo makes, also for the sockets that wake workers."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="redrive-demo-") as folder:
        os.environ["TMPDIR"] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ["TMPDIR"]
            if before is not None:
                os.environ["TMPDIR"] = before


def tell(screen: Screen) -> bool:
    """Run the demo; return False if it did not end as expected."""
    began = time.monotonic()
    with place_of_its_own() as folder, served(Town()) as place:
        shop = Shop(folder, place)
        with shop.app:
            _submit(screen, shop)
            with shop.app.worker(concurrency=4):
                well = (
                    _fail(screen, shop)
                    and _alarm(screen, shop)
                    and _redrive(screen, shop)
                    and _close(screen, shop)
                )
            took = time.monotonic() - began
            return _end(screen, shop, took) and well


def _submit(screen: Screen, shop: Shop) -> None:
    screen.head("1. A shop submits 50 jobs")
    shop.submit_all()
    screen.say("   The store is a file; each job was synced to disk before `submit` returned.")


def _fail(screen: Screen, shop: Shop) -> bool:
    screen.head("2. A worker runs them, and some services fail")
    screen.say(
        "   Status 503 of the printer is retried; 429 of the model is retried after the 2 s it asks for;"
    )
    screen.say("   a revoked key (401) and an unknown street (404) are dead at once.")
    if not screen.follow(shop.rows, shop.is_quiet, _PATIENCE):
        return False
    retried = sum(job.attempts > 1 for job in shop.app.desk.jobs.each(state="completed"))
    screen.say(f"   {retried} jobs failed at first and succeeded after retries.", "green")
    return True


def _alarm(screen: Screen, shop: Shop) -> bool:
    screen.head("3. The dead letters, grouped by cause")
    for group in shop.app.desk.groups.find():
        screen.say(f"   {group.name}: {group.jobs} × {group.title}  [{group.category}]", "red")
    inbox = shop.town.inbox
    end = time.monotonic() + _PATIENCE
    while len(inbox) < len(_DYING) and time.monotonic() < end:
        time.sleep(0.1)
    screen.head("4. Alerts: one message for each group, not for each job")
    for message in inbox:
        screen.say(f"   inbox: {message['title']}", "yellow")
    return len(inbox) == len(_DYING)


def _redrive(screen: Screen, shop: Shop) -> bool:
    screen.head("5. An operator renews the key and retries the group: 2 canaries, then 10/s")
    shop.fix()
    [cause] = [group for group in shop.app.desk.groups.find() if _DYING[0] in group.handlers]
    screen.say(f"   $ redrive retry {cause.name} --canary 2 --rate 10/s --stop-on 5%")
    run = shop.app.desk.runs.start(
        cause.name, canary=2, rate="10/s", stop_on="5%", reason="the key was renewed"
    )

    def is_over() -> bool:
        return shop.app.desk.runs.get(run).is_over

    if not screen.follow(shop.rows, is_over, _PATIENCE):
        return False
    return _judge(screen, shop.app.desk.runs.get(run))


def _judge(screen: Screen, run: Run) -> bool:
    counts = run.counts
    if counts is None or counts.succeeded != run.total:
        screen.say(f"   {run.id}: {run.phase} {run.why}", "red")
        return False
    screen.say(f"   {run.id}: canaries succeeded, {counts.succeeded} cards charged.", "green")
    return True


def _close(screen: Screen, shop: Shop) -> bool:
    screen.head(
        "6. A retry cannot help an unknown street: an operator discards these jobs, with a reason"
    )
    shop.app.desk.discard(state="dead", reason="the customers were refunded")
    for act in reversed(shop.app.desk.log.actions()):
        reason = f" ({act.reason})" if act.reason else ""
        screen.say(f"   {act.actor}: {act.verb} {act.target}{reason}")
    return True


def _end(screen: Screen, shop: Shop, took: float) -> bool:
    ends = shop.ends()
    lost = SIZES["parcel.ship"]
    if ends != {"completed": sum(SIZES.values()) - lost, "resolved": lost}:
        screen.say(f"\nThe demo did not end as expected: {ends}.", "red")
        return False
    screen.head(f"Done after {took:.0f} s: 47 jobs completed, 3 closed by a person, none lost.")
    screen.say(
        "   Everything was in a temporary directory, which was removed. Next: `redrive init`."
    )
    return True
