"""Kill a store at every file system call of its life, and see that nothing acknowledged is lost.

    python rigs/disk_strace.py            killed at the 1st, 2nd, 3rd … call until it lives through
    python rigs/disk_strace.py --short    a shorter life, at every third
    python rigs/disk_strace.py --control  builds that answer too early: must be found out

Exit code 1 when something was lost, half or twice (with --control: when nothing was). Needs strace.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from broken import disks
from disk_inject import at_every, live
from disk_life import KINDS, Broken, Life, directories

CONTROLS: dict[str, tuple[str, Broken]] = {
    "late write": ("jsonl", disks.late_write),
    "no log": ("sqlite", disks.no_log),
}


@dataclass(frozen=True)
class Plan:
    """How long the life is, and at every how-manieth call it is ended."""

    chapters: int
    every: int


FULL, SHORT = Plan(3, 1), Plan(1, 3)


def run(kind: str, root: Path, plan: Plan, broken: Broken | None = None) -> tuple[int, list[str]]:
    """Kill at one call after the other; gives how many kills there were, and what went wrong."""
    places = directories(root)
    life = Life.of(kind, plan.chapters)
    wrong: list[str] = []

    def one(call: str, number: int) -> bool:
        if broken and wrong:
            return False
        place = next(places)
        what = f"signal=SIGKILL:when={number}"
        killed, told = live(life, place, call, what, broken=broken)
        if found := life.judge(place, told, told.done):
            wrong.append(f"{kind}, killed at {call} {number}: {found}")
        return killed

    return at_every(one, plan.every), wrong


def report(kind: str, plan: Plan) -> bool:
    """Run for one kind and print the figures; whether all was well."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        kills, wrong = run(kind, Path(root), plan)
    print(*wrong[:10], sep="\n", end="\n" if wrong else "")
    seconds = time.monotonic() - began
    print(f"{kind}: {kills} kills at file calls, {len(wrong)} wrong, {seconds:.0f} s", flush=True)
    return not wrong


def found_out(name: str) -> bool:
    """Run a broken build until it shows; whether it did."""
    kind, broken = CONTROLS[name]
    with tempfile.TemporaryDirectory() as root:
        kills, wrong = run(kind, Path(root), Plan(1, 1), broken)
    print(f"{name}: {wrong[0]}" if wrong else f"{name}: NOT FOUND OUT in {kills} kills", flush=True)
    return bool(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="a shorter life, every third call")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    if given.control:
        held = [found_out(name) for name in CONTROLS]
    else:
        held = [report(kind, SHORT if given.short else FULL) for kind in KINDS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
