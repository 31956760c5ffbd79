"""Let every file system call of a store's life fail once, or from then on, and see who is told what.

    python rigs/disk_errors.py            each call, each error
    python rigs/disk_errors.py --short    a shorter life, some of the calls
    python rigs/disk_errors.py --control  builds that do not look at what a call gives: must be found out

EIO, ENOSPC and EINTR come from strace; writes that write half, and a sync that fails and lets the next
one believe it has nothing left to do, come from our own file system (`lossy_fs`), whose power is cut
some time after. The caller may only ever see a StoreError; then it looks what became of its call, which must
be all or nothing, and repeats it. What was acknowledged must be there in the end.

A limit: SQLite tells nobody when a sync fails while it takes its log over in the middle of things, so
with syncs that are forgotten it does that only when it is closed.

Exit code 1 when it was not (with --control: when it was). Needs strace, FUSE and root.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from broken import disks
from disk_inject import at_every, live
from disk_life import KINDS, Broken, Life, Told, checkpoint_every, directories, read
from disk_power import Power, mounted

TRIES = 4
ERRORS = ("EIO", "ENOSPC", "EINTR", "EIO for good", "ENOSPC for good")
"""What a call fails with; for good, all that follow of the same name do too."""
LOSSY = ("short", "forget", "forget and crash")
"""What `lossy_fs` makes of a write and of a sync; a program may crash when it is told."""

CONTROLS: dict[str, tuple[str, str, Broken]] = {
    "full disk ignored": ("jsonl", "ENOSPC", disks.full_disk_ignored),
    "short write ignored": ("jsonl", "short", disks.short_write_ignored),
    "sync errors ignored": ("jsonl", "forget", disks.sync_errors_ignored),
    "failed sync built upon": ("jsonl", "forget", disks.failed_syncs_built_upon),
    "failed sync built upon, sqlite": (
        "sqlite",
        "forget and crash",
        disks.failed_syncs_built_upon,
    ),
}


@dataclass
class Tally:
    """What came of it."""

    faults: int = 0
    told: Counter[str] = field(default_factory=Counter[str])
    """The errors that callers saw."""
    wrong: list[str] = field(default_factory=list[str])

    def take(self, what: str, told: Told, found: str, *, must_finish: bool) -> None:
        """Count one life; where the fault struck once, it has to come to its end."""
        self.faults += 1
        self.told.update(told.failed)
        if not found and must_finish and not told.finished:
            found = f"it was given up after {told.failed}"
        if found:
            self.wrong.append(f"{what}: {found}")


@dataclass(frozen=True)
class Plan:
    """How long the life is, every how-manieth call of a name fails, and how."""

    chapters: int = 2
    every: int = 1
    faults: tuple[str, ...] = (*ERRORS, *LOSSY)


SHORT = Plan(1, 12, ("EIO", "ENOSPC for good", *LOSSY))


class Trial:
    """Lets one sort of thing go wrong, at one call after the other."""

    def __init__(self, life: Life, fault: str, every: int, broken: Broken | None = None) -> None:
        self._life = life
        self._fault = fault
        self._every = every
        self._broken = broken

    def run(self, tally: Tally) -> None:
        """Try them all; a broken build only until it shows."""
        with tempfile.TemporaryDirectory() as root:
            if self._fault in LOSSY:
                checkpoint_every(10_000 if self._fault.startswith("forget") else 24)
                with mounted() as power:
                    self._on_lossy(power, Path(root), tally)
                checkpoint_every(24)
            else:
                self._under_strace(Path(root), tally)

    def _under_strace(self, root: Path, tally: Tally) -> None:
        """Let calls fail without their having been made."""
        error, _, for_good = self._fault.partition(" ")
        places = directories(root)

        def one(call: str, number: int) -> bool:
            if self._broken and tally.wrong:
                return False
            place = next(places)
            what = f"error={error}:when={number}{'+' if for_good else ''}"
            struck, told = live(self._life, place, call, what, tries=TRIES, broken=self._broken)
            if struck:
                found = self._life.judge(place, told, told.done, faults=True)
                where = f"{self._life.kind}, {self._fault} at {call} {number}"
                tally.take(where, told, found, must_finish=not for_good)
            return struck

        at_every(one, self._every)

    def _on_lossy(self, power: Power, root: Path, tally: Tally) -> None:
        """Let calls half succeed, or succeed in appearance, and cut the power later on."""
        for number in itertools.count(1, self._every):
            disk, image = power.plug_in(), root / str(number)
            fault, _, crash = self._fault.partition(" ")
            after = random.Random(number).randint(1, 40) if fault == "forget" else 0
            power.tell(disk, image=str(image), seed=number, fault=fault, at=number, after=after)
            told = self._live(power, disk, 1 if crash else TRIES)
            if crash and told.failed:
                again = self._live(power, disk, TRIES, told.done)
                told = replace(again, done=max(told.done, again.done))
            count = Path(f"{image}.count")
            cut = count.exists()
            if not cut:
                power.tell(disk, now=True)
            struck = json.loads(count.read_text("utf-8"))["struck"]
            if struck < number or (self._broken and tally.wrong):
                return
            found = self._life.judge(image, told, self._life.durable(told), faults=True)
            where = f"{self._life.kind}, {self._fault} at {number}"
            tally.take(where, told, found, must_finish=not cut)

    def _live(self, power: Power, disk: str, tries: int, first: int = 0) -> Told:
        place = power.root / disk
        child, ledger = self._life.start(place, first=first, tries=tries, broken=self._broken)
        power.tell(disk, process=child)
        ledger.send(b"!")
        told = read(ledger)
        os.waitpid(child, 0)
        return told


def report(kind: str, plan: Plan) -> bool:
    """Run for one kind and print the figures; whether all was well."""
    began, tally = time.monotonic(), Tally()
    life = Life.of(kind, plan.chapters)
    for fault in plan.faults:
        Trial(life, fault, plan.every).run(tally)
    print(*tally.wrong[:10], sep="\n", end="\n" if tally.wrong else "")
    seconds = time.monotonic() - began
    seen = ", ".join(f"{name} {count}" for name, count in sorted(tally.told.items()))
    print(
        f"{kind}: {tally.faults} faults, {len(tally.wrong)} wrong, {seconds:.0f} s; told: {seen}",
        flush=True,
    )
    return not tally.wrong


def found_out(name: str) -> bool:
    """Run a broken build until it shows; whether it did."""
    kind, fault, broken = CONTROLS[name]
    tally = Tally()
    Trial(Life.of(kind, 2), fault, 1, broken).run(tally)
    print(f"{name}: {tally.wrong[0] if tally.wrong else 'NOT FOUND OUT'}", flush=True)
    return bool(tally.wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="a shorter life, some of the calls")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    if given.control:
        held = [found_out(name) for name in CONTROLS]
    else:
        held = [report(kind, SHORT if given.short else Plan()) for kind in KINDS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
