"""A crew at work for long, killed and stopped all the time: nothing is lost, nothing is done twice.

    python rigs/soak.py              100,000 jobs, 200 kills and 200 stops of 3 s, on each store
    python rigs/soak.py --short      a taste of it, 20 s a store
    python rigs/soak.py --control    builds that answer too early, or hide crashes: must be found out

Eight worker processes (one for JSON Lines) under a supervisor, with leases of 2 s. Now one, now
another is killed, or stopped for 3 s, so that its leases end and others take its jobs over while it
sleeps; some of that while it holds the store's lock. Threads of the rig submit all the time. Who ran
what, who was told that it is completed, and when each submit was accepted, is written down outside
the store. In the end every job must be completed, or dead of three crashes; no job was completed
twice; every further execution of a job has a crash in the job's history; and every 10 s accepted a
submit and started a job (A6, T5).
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from scene import KINDS, place

from crewkit import Crew, Ran, app_of, crew, is_alive, read
from redrive import Redrive

HERE = Path(__file__).parent
SLEEP = 3.0
"""Seconds for which a process stands still: longer than a lease."""
LEASE = 2.0
WINDOW = 10.0
"""Seconds in which at least one submit is accepted and one job is started."""
LONGEST = 0.1
"""Seconds that a job takes at most."""
SILENCE = "silence"
HANG = 60.0
ALONE = 4.0
"""Seconds between two deeds to a process that works alone."""
FEEDERS = 4


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of it."""

    jobs: int
    kills: int
    stops: int
    locked: int
    """How many of the kills, and of the stops, hit a process that holds the store's lock."""
    seconds: float
    """For how long it goes on; the rest is worked off afterwards."""
    processes: int = 8
    patience: float = 300.0
    """Seconds in which the rest must be worked off."""


FULL = Scale(jobs=100_000, kills=200, stops=200, locked=25, seconds=420)
SHORT = Scale(jobs=3_000, kills=6, stops=4, locked=2, seconds=15, processes=4)
CONTROL = replace(SHORT, jobs=6_000, kills=12, patience=20)
CONTROLS = [("sqlite", "early"), ("sqlite", "forgiving")]


@dataclass
class Account:
    """What was seen from outside."""

    accepted: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    """What was done to the crew."""


class Feeder:
    """Threads that submit jobs at a steady rate."""

    def __init__(self, app: Redrive, account: Account, scale: Scale) -> None:
        self._handler = app.submitter.registry.need("work")
        self._app, self._account = app, account
        self._numbers = iter(range(scale.jobs))
        self._pace = scale.seconds / scale.jobs
        self._began = time.monotonic()
        self._threads = [threading.Thread(target=self._feed, daemon=True) for _ in range(FEEDERS)]

    def start(self) -> None:
        """Begin to submit."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until all jobs are submitted, while there is any progress."""
        before = -1
        while before < len(self._account.accepted) and any(one.is_alive() for one in self._threads):
            before = len(self._account.accepted)
            for thread in self._threads:
                thread.join(HANG / FEEDERS)
        if any(one.is_alive() for one in self._threads):
            self._account.errors.append("submits hang")

    def _feed(self) -> None:
        from redrive.submission import Options  # noqa: PLC0415

        for number in self._numbers:
            wait = self._began + number * self._pace - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            payload = f'{{"number":{number},"seconds":{random.random() * LONGEST:.4f}}}'
            try:
                job = self._app.submitter.submit(self._handler, payload, Options())
            except Exception as error:  # noqa: BLE001 - told in the end
                self._account.errors.append(f"submit: {error!r}")
            else:
                self._account.accepted[job.id] = time.monotonic()


class Disturber:
    """Kills and stops processes of a crew, in any order, some when they hold the lock."""

    def __init__(self, made: Crew, account: Account, scale: Scale, traps: Path) -> None:
        plain = ["kill"] * (scale.kills - scale.locked) + ["stop"] * (scale.stops - scale.locked)
        self._deeds = plain + ["kill in the lock", "stop in the lock"] * scale.locked
        random.shuffle(self._deeds)
        self._made, self._account, self._traps = made, account, traps
        self._pace = scale.seconds / len(self._deeds)
        self._is_alone = scale.processes == 1
        self._asleep: dict[int, float] = {}
        self._number = 0

    def run(self) -> None:
        """Do all of it."""
        began = time.monotonic()
        for number, deed in enumerate(self._deeds):
            while time.monotonic() < began + number * self._pace:
                self._wake()
                time.sleep(0.02)
            self._do(deed)
        while self._asleep:
            self._wake()
            time.sleep(0.02)

    def _do(self, deed: str) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            self._wake()
            if self._is_alone and not self._is_busy():
                time.sleep(0.1)
                continue
            if self._trapped(deed[:4]) if "lock" in deed else self._struck(deed):
                self._account.done[deed] += 1
                return
            time.sleep(0.02)
        self._account.errors.append(f"nobody was there to {deed}")

    def _is_busy(self) -> bool:
        """Whether the only worker is at work again: else it would never come to it."""
        return any(is_at_work(self._made.directory, pid) for pid in self._made.workers())

    def _struck(self, deed: str) -> bool:
        awake = [pid for pid in self._made.workers() if pid not in self._asleep]
        if not awake:
            return False
        pid = random.choice(awake)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if deed == "kill" else signal.SIGSTOP)
            if deed == "stop":
                self._asleep[pid] = time.monotonic() + SLEEP
            return True
        return False

    def _trapped(self, deed: str) -> bool:
        """Lay a trap and wait until somebody steps into it."""
        self._number += 1
        name = f"{deed}{self._number}"
        (self._traps / name).touch()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            self._wake()
            found = [one.name for one in self._traps.glob(f"sprung-{name}-*")]
            if found:
                if deed == "stop":
                    self._asleep[int(found[0].rpartition("-")[2])] = time.monotonic() + SLEEP
                return True
            time.sleep(0.005)
        return False

    def _wake(self) -> None:
        now = time.monotonic()
        for pid in [pid for pid, until in self._asleep.items() if until <= now]:
            del self._asleep[pid]
            with contextlib.suppress(ProcessLookupError):
                if is_alive(pid):
                    os.kill(pid, signal.SIGCONT)


def is_at_work(directory: Path, pid: int) -> bool:
    """Whether a process has begun a job of late."""
    with (directory / "ran").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        return any(b"began" in line and b" %d " % pid in line for line in file)


def soak(kind: str, scale: Scale, broken: str) -> tuple[list[str], str]:
    """Run it once; what is wrong, and words for the figures."""
    account = Account()
    with tempfile.TemporaryDirectory(prefix="redrive-rig-") as name, place(kind) as url:
        directory = Path(name)
        traps = directory / "traps"
        traps.mkdir()
        more = {"CREW_TRAPS": str(traps), "CREW_BROKEN": broken, "CREW_LEASE": str(LEASE)}
        slots = 32 // scale.processes
        options = ["--processes", str(scale.processes), "--concurrency", str(max(8, slots))]
        with (
            app_of(url) as app,
            crew(directory, url, *options, program="crewed:app", path=HERE, **more) as made,
        ):
            wait(lambda: len(made.workers()) == scale.processes and read(directory, "ready"), 60)
            feeder = Feeder(app, account, scale)
            feeder.start()
            Disturber(made, account, scale, traps).run()
            feeder.join()
            finish(app, made, account, scale.patience)
            return judge(app, account, made, scale)


def finish(app: Redrive, made: Crew, account: Account, patience: float) -> None:
    """Let the crew work off the rest, then end it as one should."""
    if not wait(lambda: not left(app), patience):
        account.errors.append(f"there is no end to it: {app.desk.jobs.counts()}")
    made.terminate()
    if (code := made.end()) != 0:
        account.errors.append(f"the supervisor ended with code {code}")


def left(app: Redrive) -> int:
    """Count what is not yet at its end."""
    return sum(
        count.jobs for count in app.desk.jobs.counts() if count.state in {"pending", "running"}
    )


def wait(is_so: Callable[[], object], seconds: float) -> bool:
    """Wait for something; whether it came about."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def judge(app: Redrive, account: Account, made: Crew, scale: Scale) -> tuple[list[str], str]:
    """Compare the store with what was seen from outside."""
    began = made.ran()
    runs, told = Counter(one.job for one in began), Counter(one.job for one in made.ran("told"))
    stored, faults, dead, crashes = set[str](), list(account.errors), 0, 0
    for job in app.desk.jobs.each():
        stored.add(job.id)
        history = app.get(job.id).history
        ends = Counter(one.outcome for one in history)
        crashes += ends["crashed"]
        dead += job.state == "dead"
        words = f"{job.id} ({job.state}, {runs[job.id]} runs, told {told[job.id]}, {dict(ends)})"
        right = {"completed": ends["done"] == 1, "dead": job.crashes == 3 == ends["crashed"]}
        faults += [] if right.get(job.state) else [f"{words}: not at a right end"]
        faults += [f"{words}: completed twice"] if told[job.id] > 1 or ends["done"] > 1 else []
        extra = runs[job.id] - 1 > ends["crashed"]
        faults += [f"{words}: ran more often than it crashed"] if extra else []
        unrun = job.state == "completed" and not runs[job.id]
        faults += [f"{words}: completed without a run"] if unrun else []
    faults += [f"{one} was accepted and is lost" for one in account.accepted.keys() - stored]
    gaps, late = silences(account, began)
    faults += late
    deeds = ", ".join(f"{number} x {deed}" for deed, number in sorted(account.done.items()))
    return faults, (
        f"{len(account.accepted):,} jobs, {scale.processes} processes, {deeds}, "
        f"{sum(runs.values()):,} runs, {sum(runs.values()) - len(runs):,} of them again, "
        f"{crashes:,} crashes recorded, {dead} dead of three, longest silence {gaps}"
    )


def silences(account: Account, began: list[Ran]) -> tuple[str, list[str]]:
    """Give the longest times without an accepted submit and without a start, while jobs came."""
    times = sorted(account.accepted.values())
    first, last = times[0], times[-1]
    starts = sorted(one.at for one in began if first <= one.at <= last)
    found = {
        "submits": _longest(times, first, last),
        "starts": _longest(starts, first, last),
    }
    words = ", ".join(f"{seconds:.1f} s without {what}" for what, seconds in found.items())
    late = [
        f"{SILENCE}: {seconds:.1f} s without {what}"
        for what, seconds in found.items()
        if seconds > WINDOW
    ]
    return words, late


def _longest(times: list[float], first: float, last: float) -> float:
    points = [first, *times, last]
    return max(after - before for before, after in itertools.pairwise(points))


def verdict(kind: str, scale: Scale, broken: str = "") -> bool:
    """Run it on one store and print the figures; whether nothing was wrong."""
    began = time.monotonic()
    if kind == "jsonl":
        scale = replace(scale, processes=1, seconds=(scale.kills + scale.stops) * ALONE)
    faults, words = soak(kind, scale, broken)
    if broken:
        faults = [one for one in faults if not one.startswith(SILENCE)]  # the machine may be busy
    name = f"soak {kind}{f' ({broken})' if broken else ''}"
    print(f"{name}: {words}, {len(faults)} faults, {time.monotonic() - began:.0f} s", flush=True)
    if not broken:
        print(*faults[:10], sep="\n", end="\n" if faults else "", flush=True)
    return not faults


def main() -> int:
    """Run what is asked for; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stores", nargs="*", help=f"of: {', '.join(KINDS)}; all if none is named")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--deeds", type=int, default=0, help="another number of kills and of stops")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    chosen = given.stores or list(KINDS)
    if given.control:
        missed = [one for one in CONTROLS if one[0] in chosen and verdict(one[0], CONTROL, one[1])]
        print(*(f"NOT FOUND OUT: {broken} on {kind}" for kind, broken in missed), sep="\n", end="")
        return 1 if missed else 0
    scale = SHORT if given.short else FULL
    if given.deeds:
        locked = min(given.deeds, scale.locked)
        scale = replace(scale, kills=given.deeds, stops=given.deeds, locked=locked)
    held = [verdict(kind, scale) for kind in chosen]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
