"""The story of the demo: services fail, jobs are retried or die, an operator fixes the cause."""

from __future__ import annotations

import io
import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from email.message import Message
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError

import click

from redrive.app import Redrive
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.policies.policy import Policy
from redrive.strategies import exponential

SIZES = {"mail.send": 12, "printer.print": 9, "model.ask": 6, "card.charge": 20, "parcel.ship": 3}
"""How many jobs of each handler; those of the last two die."""
SHOWN = {
    "waiting": State.PENDING,
    "running": State.RUNNING,
    "completed": State.COMPLETED,
    "dead": State.DEAD,
}
COLOURS = ("yellow", "cyan", "green", "red")
PATIENCE = 20.0

Row = tuple[str, list[int]]
"""A lane, and how many of its jobs are waiting, running, completed and dead."""


class Shop:
    """The program of the demo; its handlers call services that fail as real ones do."""

    def __init__(self, folder: Path) -> None:
        self.key = "key-of-2025"
        self._calls = Counter[tuple[str, int]]()
        log.addHandler(logging.NullHandler())  # the demo itself shows what dies
        policy = Policy(attempts=5, wait=exponential(0.5, cap=4, jitter=0.2))
        self.app = Redrive(folder / "demo.db", actor="demo", policy=policy)

    def submit_all(self) -> None:
        """Register the handlers and submit all jobs."""

        def handler(name: str) -> Callable[[int], None]:
            return lambda order: self._call(name, order)

        for name, size in SIZES.items():
            submit = self.app.handler(name)(handler(name)).submit
            for order in range(1, size + 1):
                submit(order)

    def _call(self, name: str, order: int) -> None:
        self._calls[name, order] += 1
        calls = self._calls[name, order]
        if name == "printer.print" and calls <= order % 3:
            raise _answer(503, "the printer is jammed")
        if name == "model.ask" and calls == 1:
            raise _answer(429, "too many requests", "2")
        if name == "card.charge" and self.key != "key-of-2026":
            raise _answer(401, "this key was revoked on 1 January")
        if name == "parcel.ship":
            raise _answer(404, "no such street")

    def rows(self) -> list[Row]:
        """Return the numbers of jobs by lane."""
        counts = Counter[tuple[str, State]]()
        for count in self.app.desk.jobs.counts():
            counts[count.lane, count.state] += count.jobs
        return [(lane, [counts[lane, state] for state in SHOWN.values()]) for lane in SIZES]

    def is_quiet(self) -> bool:
        """Return True if no job waits or runs."""
        return not any(waiting or running for _, (waiting, running, *_) in self.rows())


def _answer(status: int, text: str, retry_after: str = "") -> HTTPError:
    headers = Message()
    if retry_after:
        headers["Retry-After"] = retry_after
    return HTTPError("https://service.example", status, text, headers, io.BytesIO())


class Screen:
    """Prints sentences, and the jobs: in a table that moves, or in lines where nothing can."""

    def __init__(self, *, draws: bool = False) -> None:
        can_move = os.environ.get("TERM") != "dumb" and find_spec("rich") is not None
        self._draws = draws and can_move
        self._has_colour = self._draws and not os.environ.get("NO_COLOR")

    def head(self, text: str) -> None:
        """Print a heading."""
        self.say(f"\n{text}", bold=True)

    def say(self, text: str, colour: str | None = None, *, bold: bool = False) -> None:
        """Print one sentence."""
        click.echo(click.style(text, fg=colour, bold=bold or None) if self._has_colour else text)

    def follow(self, rows: Callable[[], list[Row]], is_done: Callable[[], bool]) -> None:
        """Show the jobs until it is done, or for 20 seconds."""
        end = time.monotonic() + PATIENCE
        with self._table() if self._draws else nullcontext(_print_line) as show:
            while not is_done() and time.monotonic() < end:
                show(rows())
                time.sleep(0.1 if self._draws else 1)
            show(rows())

    @contextmanager
    def _table(self) -> Generator[Callable[[list[Row]], None]]:
        from rich.live import Live  # noqa: PLC0415 - only a terminal needs it
        from rich.table import Table  # noqa: PLC0415

        def show(rows: list[Row]) -> None:
            table = Table("lane")
            for name, colour in zip(SHOWN, COLOURS, strict=True):
                table.add_column(name, justify="right", style=colour)
            for lane, numbers in rows:
                table.add_row(lane, *(str(number or "·") for number in numbers))
            live.update(table)

        with Live(refresh_per_second=10) as live:
            yield show


def _print_line(rows: list[Row]) -> None:
    sums = [sum(column) for column in zip(*(numbers for _, numbers in rows), strict=True)]
    pairs = zip(SHOWN, sums, strict=True)
    click.echo("   " + ", ".join(f"{number} {name}" for name, number in pairs))


@contextmanager
def own_folder() -> Generator[Path]:
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


def tell(screen: Screen, new_key: str = "key-of-2026") -> bool:
    """Run the demo; return False if it did not end as expected."""
    began = time.monotonic()
    with own_folder() as folder:
        shop = Shop(folder)
        with shop.app:
            screen.head("1. A shop submits 50 jobs")
            shop.submit_all()
            screen.say(
                "   The store is a file; each job was synced to disk before `submit` returned."
            )
            with shop.app.worker(concurrency=4):
                _fail(screen, shop)
                _redrive(screen, shop, new_key)
            _discard(screen, shop)
            ends = Counter[str]()
            for count in shop.app.desk.jobs.counts():
                ends[count.state.value] += count.jobs
    took = time.monotonic() - began
    if ends != {"completed": 47, "resolved": 3}:
        screen.say(f"\nThe demo did not end as expected: {dict(ends)}.", "red")
        return False
    screen.head(f"Done after {took:.0f} s: 47 jobs completed, 3 closed by a person, none lost.")
    screen.say("   The temporary directory with the store was removed. Next: `redrive init`.")
    return True


def _fail(screen: Screen, shop: Shop) -> None:
    screen.head("2. A worker runs them, and some services fail")
    screen.say(
        "   Status 503 of the printer is retried; 429 of the model after the 2 s it asks for;"
    )
    screen.say("   a revoked key (401) and an unknown street (404) are dead at once.")
    screen.follow(shop.rows, shop.is_quiet)
    retried = sum(job.attempts > 1 for job in shop.app.desk.jobs.each(state="completed"))
    screen.say(f"   {retried} jobs failed at first and succeeded after retries.", "green")
    screen.head("3. The dead letters, grouped by cause")
    for group in shop.app.desk.groups.find():
        screen.say(f"   {group.name}: {group.jobs} × {group.title}  [{group.category}]", "red")


def _redrive(screen: Screen, shop: Shop, new_key: str) -> None:
    screen.head("4. An operator renews the key and retries the group: 2 canaries, then 10/s")
    shop.key = new_key
    runs = shop.app.desk.runs
    [cause] = [one.name for one in shop.app.desk.groups.find() if "card.charge" in one.handlers]
    screen.say(f"   $ redrive retry {cause} --canary 2 --rate 10/s --stop-on 5%")
    why = "the key was renewed"
    run = runs.start(cause, canary=2, rate="10/s", stop_on="5%", reason=why)
    screen.follow(shop.rows, lambda: runs.get(run).is_over)
    run = runs.get(run)
    if run.counts is not None and run.counts.succeeded == run.total:
        screen.say(f"   {run.id}: canaries succeeded, {run.total} cards charged.", "green")
    else:
        screen.say(f"   {run.id}: {run.phase} {run.why}", "red")


def _discard(screen: Screen, shop: Shop) -> None:
    screen.head("5. A retry cannot help an unknown street: these jobs are discarded, with a reason")
    shop.app.desk.discard("handler:parcel.ship", reason="the customers were refunded")
    for action in reversed(shop.app.desk.log.actions()):
        reason = f" ({action.reason})" if action.reason else ""
        screen.say(f"   {action.actor}: {action.verb} {action.target}{reason}")
