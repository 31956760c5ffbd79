"""Kill -9 while listeners are called: every change is delivered at least once, in order for each job.

    python rigs/listeners.py            300 kills on each file store, 100 on PostgreSQL
    python rigs/listeners.py --short    a taste of it
    python rigs/listeners.py --control  builds that forget or misorder events: must be found out

Three processes submit jobs, run them (in passes or with a worker), retry the dead ones, and deliver what they report; each is killed
and replaced at random moments, as in the rig `kill`. One in five calls of the listener fails. In the end
a program that nobody kills does the rest. A delivery in which three processes died is a dead letter; it is
retried too, and may then come after newer events of its job. The lives of a job, as stored, say which events it must have
had; numbers and times of the calls say whether they came in order.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

from broken import processes
from children import Crew, Line
from kill import strike
from ledger import Ledger
from scene import look, main, place

from redrive import Event, GiveUp, Handler, Policy, Redrive, constant

LAP = 50
"""Kills on one store; then an empty one again."""
CREW = 3
LEASE = 1.0
"""Seconds: a process that is alive must not lose one, however busy the machine is."""
KINDS = ("died", "retried", "completed")
_POLICY = Policy(attempts=1_000_000, alike=True, wait=constant(0.02))


@dataclass
class Deliveries(Ledger):
    """What listeners were called with, and what is stored in the end."""

    calls: dict[str, list[tuple[float, int, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    lives: dict[str, int] = field(default_factory=dict)
    buried: set[tuple[str, int]] = field(default_factory=set)
    """Deliveries that three processes died in: dead letters, which come late when they are retried."""

    def hear(self, words: list[str]) -> None:
        """Note down one line."""
        match words:
            case ["called", job, number, kind, at]:
                self.calls[job].append((float(at), int(number), kind))
            case ["buried", job, number]:
                self.buried.add((job, int(number)))
            case ["lives", job, lives]:
                self.lives[job] = int(lives)
            case _:
                super().hear(words)

    def faults(self) -> dict[str, list[str]]:
        """Return everything that is wrong, by kind."""
        return {
            **super().faults(),
            "undelivered": self.undelivered(),
            "misordered": self.misordered(),
        }

    def undelivered(self) -> list[str]:
        """Return the jobs that had a change which no listener was called with."""
        found: list[str] = []
        for job, lives in self.lives.items():
            kinds = {number: kind for _, number, kind in self.calls[job]}
            delivered = [kinds[number] for number in sorted(kinds)]
            if delivered != [*["died", "retried"] * lives, "completed"]:
                found.append(f"{job} died {lives} times; delivered: {delivered}")
        return found

    def misordered(self) -> list[str]:
        """Return the jobs for which a listener was called with an older event after a newer one."""
        numbers = {
            job: [number for _, number, _ in sorted(calls) if (job, number) not in self.buried]
            for job, calls in self.calls.items()
        }
        return [f"{job}: {one}" for job, one in numbers.items() if one != sorted(one)]


def program(
    url: str, line: Line, *, fails: float = 0.2, dies: float = 0.3
) -> tuple[Redrive, Handler[[int], None]]:
    """Return an app whose jobs die now and then, and whose listener fails now and then."""
    app = Redrive(url, policy=_POLICY, lease=LEASE)

    @app.handler("work")
    def work(number: int) -> None:
        if random.random() < dies:
            raise GiveUp(f"number {number} is not wanted")

    @app.on(*KINDS, name="rig", policy=_POLICY)
    def heard(event: Event) -> None:
        if random.random() < fails:
            raise ConnectionError("the receiver is down")
        assert event.job is not None
        line.tell("called", event.job.id, event.number, event.kind, time.monotonic())
        time.sleep(random.random() * 0.002)

    return app, work


def labour(url: str, broken: str, line: Line) -> None:
    """Submit, work, retry and deliver until killed."""
    processes.sabotage(broken)
    random.seed()
    app, work = program(url, line)
    works = random.random() < 0.5
    if works:
        app.worker(concurrency=2).__enter__()
    _ = app.store
    line.tell("ready")
    for number in range(1_000_000):
        line.tell("accepted", work.submit(number).id)
        if works:
            time.sleep(0.01)
        else:
            app.run_due(limit=2)
        if random.random() < 0.3:
            app.desk.retry(state="dead")


def finish(url: str, line: Line) -> None:
    """Do what is left to be done; then tell what is stored."""
    app, _ = program(url, line, fails=0.0, dies=0.0)
    end = time.monotonic() + 120
    while app.store.waiting_events() or any(
        count.state != "completed" for count in app.desk.jobs.counts()
    ):
        app.desk.retry(state="dead")
        app.run_due()
        assert time.monotonic() < end, f"there is no end to it: {app.desk.jobs.counts()}"
        time.sleep(0.01)
    for job in app.desk.jobs.each():
        line.tell("job", job.id, job.state, job.lease, "-")
        if job.handler == "work":
            line.tell("lives", job.id, job.redrives)
        else:
            event = json.loads(job.payload)["event"]
            line.tell("buried", event["job"]["id"], event["number"])
    line.tell("looked")
    look(url, line)
    app.close()


def rig(kind: str, kills: int, broken: str) -> tuple[str, Ledger]:
    """Kill so often; return words for the figures, and the ledger."""
    ledger = Deliveries()
    for lap in range(0, kills, LAP):
        with place(kind) as url:
            crew = Crew(ledger.hear)
            for _ in range(CREW):
                crew.start(partial(labour, url, broken))
            for _ in range(min(LAP, kills - lap)):
                strike(crew, random.choice(crew.children))
                crew.start(partial(labour, url, broken))
            crew.close()
            crew.join(crew.start(partial(finish, url)))
    calls = sum(map(len, ledger.calls.values()))
    numbers = sum(len({number for _, number, _ in one}) for one in ledger.calls.values())
    words = f"{numbers:,} events in {calls:,} calls, {len(ledger.buried)} dead deliveries"
    return f"{kills:,} kills, {words}", ledger


if __name__ == "__main__":
    sys.exit(
        main(
            rig,
            name="listeners",
            runs={"sqlite": (20, 300), "jsonl": (20, 300), "postgresql": (20, 100)},
            controls=[
                (broken, kind)
                for broken in ("beforehand", "in-memory")
                for kind in ("sqlite", "jsonl", "postgresql")
            ],
            control_runs=40,
            doc=__doc__,
        )
    )
