"""What the rigs about processes share: a store to break, work to do on it, and the last look at it."""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

from broken import processes
from children import Crew, Line
from ledger import Ledger

import pgkit
from redrive import GiveUp, Handler, Policy, Redrive, constant
from redrive.events import Event
from redrive.stores.jsonl import JsonlStore

KINDS = ("sqlite", "jsonl", "postgresql")
LEASE = 0.3
"""Seconds: so short that what a dead worker held is taken over while the rig runs."""

_PATIENT = Policy(attempts=1_000_000, alike=True, wait=constant(0))
"""Nothing dies but what gives up, or took three workers with it."""
_REPORTS = "rig"
"""The subscription to deaths."""


@contextlib.contextmanager
def place(kind: str) -> Iterator[str]:
    """Give the URL of a store that is not there yet; what is made of it goes in the end."""
    directory = tempfile.mkdtemp(prefix="redrive-rig-")
    schema = pgkit.fresh_name() if kind == "postgresql" else ""
    try:
        file = {"sqlite": "jobs.db", "jsonl": "jobs.jsonl"}.get(kind)
        yield pgkit.url_of(schema) if file is None else f"{kind}:{directory}/{file}"
    finally:
        shutil.rmtree(directory)
        if schema:
            pgkit.drop(schema)


def program(
    url: str, line: Line, *, fails: float = 0.2, dies: float = 0.2
) -> tuple[Redrive, Handler[[int], None]]:
    """Give an app with one handler, which fails now and then; what becomes of jobs is told."""
    app = Redrive(url, policy=_PATIENT, lease=LEASE)

    @app.handler("work")
    def work(number: int) -> None:
        time.sleep(random.random() * 0.002)
        if random.random() < fails:
            raise ConnectionError(number)
        if random.random() < dies:
            raise GiveUp(f"number {number} is not wanted")

    def tell(event: Event) -> None:
        job, now = event.job, time.monotonic()
        if job is not None and event.kind in {"succeeded", "failed"}:
            line.tell("ended", job.id, job.lease, "-", now, now, job.state)
        elif job is not None and event.kind == "lease_lost":
            line.tell("refused", job.id, job.lease)

    app.listen(tell)
    app.store.subscribe(_REPORTS, ["died"])
    return app, work


def labour(url: str, broken: str, line: Line) -> None:
    """Submit and work until killed; tell of each job that was accepted and each that was settled."""
    processes.sabotage(broken)
    random.seed()
    app, work = program(url, line)
    store = app.store
    line.tell("ready")
    for number in range(1_000_000):
        line.tell("accepted", work.submit(number).id)
        app.run_due(limit=2)
        if isinstance(store, JsonlStore) and random.random() < 0.05:
            store.compact()  # it would happen by itself, but not so often


def look(url: str, line: Line) -> None:
    """Open the store and say what is wrong with it as it is, in the middle of everything."""
    with Redrive(url) as app:
        for problem in app.store.verify().problems:
            line.tell("problem", *problem.where.split(), *problem.what.split())


def finish(url: str, line: Line) -> None:
    """Do what is left to be done, dead letters too; then tell what is stored."""
    app, _ = program(url, line, fails=0.0, dies=0.0)
    end = time.monotonic() + 60
    while any(count.state != "completed" for count in app.desk.jobs.counts()):
        app.desk.retry(state="dead")
        app.run_due()
        assert time.monotonic() < end, f"there is no end to it: {app.desk.jobs.counts()}"
        time.sleep(0.01)
    for job in app.desk.jobs.each():
        history = getattr(app.store.get(job.id), "history", ())
        done = [str(one.ordinal) for one in history if one.outcome == "done"]
        line.tell("job", job.id, job.state, job.lease, ",".join(done) or "-")
    line.tell("looked")
    count_deaths(app, line)
    look(url, line)
    app.close()


def count_deaths(app: Redrive, line: Line) -> None:
    """Compare deaths: each is a new life of its job, is counted once, and is reported once."""
    store = app.store
    lives = sum(job.redrives for job in app.desk.jobs.each())
    counted = sum(record.deaths for record in store.group_records().values())
    reported = 0
    while events := store.take_events(
        subscriptions=[_REPORTS], holder="rig", lease_for=60, limit=1000
    ):
        reported += store.settle_events([one.number for one in events], [], holder="rig")
    if not lives == counted == reported:
        line.tell("problem", f"{lives} deaths, {counted} are counted, {reported} were reported")
    for lane, counts in store.lane_curve(3600, 24).items():
        if any(value < 0 for count in counts for value in count):
            line.tell("problem", f"negative counts in lane {lane}: {counts}")


def settle_up(crew: Crew, url: str) -> None:
    """End whoever is left, let one whole program finish the work, and hear what is stored."""
    crew.close()
    crew.join(crew.start(partial(finish, url)))


Rig = Callable[[str, int, str], tuple[str, Ledger]]
"""Runs on a kind of store, so often, with a sabotage or none; gives words for the figures."""


def verdict(rig: Rig, name: str, kind: str, runs: int, broken: str = "") -> bool:
    """Run a rig once, print its figures in one line, and the faults; whether there were none."""
    began = time.monotonic()
    words, ledger = rig(kind, runs, broken)
    faults = {what: found for what, found in ledger.faults().items() if found}
    if broken and broken not in processes.LOUD:
        faults.pop("errors", None)  # they prove nothing: it may be the rig that does not work
    found = ", ".join(f"{len(many):,} {what}" for what, many in faults.items())
    print(
        f"{name} {kind}{f' ({broken})' if broken else ''}: {words}, "
        f"{len(ledger.accepted):,} accepted, {ledger.completed():,} told completed, "
        f"{found or '0 lost, 0 doubled, verify clean'}, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    if broken:
        return not faults or any(processes.STALE in error for error in ledger.errors)
    for many in faults.values():
        print(*many[:5], sep="\n", flush=True)
    return ledger.looked and not faults


def main(
    rig: Rig,
    *,
    name: str,
    runs: dict[str, tuple[int, int]],
    controls: Sequence[tuple[str, str]],
    control_runs: int,
    doc: str | None,
) -> int:
    """Read the command line and run: `runs` has short and full numbers by store.

    Controls are pairs of sabotage and store; each is run so often and must be found out.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("stores", nargs="*", help=f"of: {', '.join(runs)}; all if none is named")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--runs", type=int, default=0, help="another number")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    if unknown := set(given.stores) - set(runs):
        parser.error(f"no such store: {', '.join(sorted(unknown))}")
    chosen = given.stores or list(runs)
    if given.control:
        broken = [(one, kind) for one, kind in controls if kind in chosen]
        missed = [
            (one, kind) for one, kind in broken if verdict(rig, name, kind, control_runs, one)
        ]
        for one, kind in missed:
            print(f"NOT FOUND OUT: {one} on {kind}")
        return 1 if missed else 0
    held = [
        verdict(rig, name, kind, given.runs or runs[kind][0 if given.short else 1])
        for kind in chosen
    ]
    return 0 if all(held) else 1
