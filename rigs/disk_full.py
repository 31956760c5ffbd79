"""Fill a tiny disk by submitting, free it, and go on; over and over.

    python rigs/disk_full.py            20 cycles for each file store
    python rigs/disk_full.py --short    4 for each
    python rigs/disk_full.py --control  a build that takes a failed write for a good one

The disk is a tmpfs of 1 MiB, half of it taken by files of somebody else. In each cycle jobs are
submitted, claimed, settled and resolved until the disk is full, and some more while it stays full; then
one of the other files goes, and the same store must work again without being opened anew. After four
cycles there is a new disk. A call may only ever give StoreFull.

Exit code 1 when something acknowledged was lost (with --control: when nothing was). Needs root, to
mount.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

from broken import disks
from disk_life import KINDS, open_store

from kit import make_action, make_job, make_settlement
from redrive.errors import StoreError, StoreFull
from redrive.jobs.job import Claim, Completed, Reason, State
from redrive.stores.contract import Query

DISK, BALLAST, PIECES = 1 << 20, 1 << 17, 4
MOST = 100
"""Rounds of work that surely fill the disk, unless what does not fit is not noticed."""


@contextlib.contextmanager
def tiny_disk() -> Generator[Path]:
    """Mount a disk of a mebibyte for a while."""
    if os.geteuid() != 0:
        sys.exit("this rig mounts a tiny disk: it needs root")
    with tempfile.TemporaryDirectory() as place:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", place]
        subprocess.run(mount, check=True)
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)  # noqa: S607


@dataclass
class Tally:
    """What came of it."""

    cycles: int = 0
    acknowledged: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list[str])


class Filler:
    """Fills one disk, and remembers what it was told."""

    def __init__(self, kind: str, disk: Path, tally: Tally) -> None:
        self._kind = kind
        self._disk = disk
        self._tally = tally
        self._rand = random.Random(tally.cycles)
        self._kept: dict[str, State] = {}
        """The jobs that were acknowledged, and how they were left."""
        self._store = open_store(kind, disk)
        for piece in range(PIECES):
            (disk / f"ballast{piece}").write_bytes(bytes(BALLAST))

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def cycle(self) -> None:
        """Fill the disk, free a part of it, go on, and look at everything, also from anew."""
        enough = self._tally.refused + 5
        for _ in range(MOST):
            if self._tally.refused >= enough:
                break
            self._work(self._rand.choice([100, 3000, 20_000]))
        next(self._disk.glob("ballast*")).unlink()
        before = self._tally.refused
        self._work(100)
        self._note(self._tally.refused > before, "still full after space was freed")
        self._look()
        self._store.close()
        self._store = open_store(self._kind, self._disk)
        self._look()
        self._tally.cycles += 1

    def _work(self, size: int) -> None:
        """Submit some jobs of a size; one of them is run, one resolved."""
        names = [f"{self._tally.acknowledged + self._tally.refused}.{at}" for at in range(3)]
        jobs = [make_job(name, payload=f'{{"x":"{"x" * size}"}}') for name in names]
        if self._try(lambda: self._store.add(jobs)):
            self._kept.update(dict.fromkeys(names, State.PENDING))
            self._do(names[0])
            if self._try(lambda: self._store.move([names[1]], "resolve", make_action("resolve"))):
                self._kept[names[1]] = State.RESOLVED

    def _do(self, name: str) -> None:
        """Claim and settle a job."""
        claims: list[Claim] = []

        def claim() -> None:
            claims.extend(
                self._store.claim(["mail"], limit=1, holder="w", lease_for=30, only=[name])
            )

        if self._try(claim):
            self._kept[name] = State.RUNNING
            result = make_settlement(claims[0], Completed(Reason.DONE))
            if self._try(lambda: self._store.settle([result])):
                self._kept[name] = State.COMPLETED

    def _try(self, call: Callable[[], object]) -> bool:
        try:
            call()
        except StoreFull:
            self._tally.refused += 1
            return False
        except StoreError as error:
            self._note(True, f"{type(error).__name__} in place of StoreFull: {error}")
            return False
        self._tally.acknowledged += 1
        return True

    def _look(self) -> None:
        """Every job that was acknowledged is there as it was left, and no other."""
        everything = Query(states=frozenset(State), limit=10_000)
        try:
            found = {job.id: job.state for job in self._store.find(everything).jobs}
            report = self._store.verify()
        except StoreError as error:
            self._note(True, f"{type(error).__name__}: {error}")
            return
        lost = sorted(set(self._kept) - set(found))
        self._note(bool(lost), f"{len(lost)} jobs are lost, such as {lost[:1]}")
        odd = [name for name in found if self._kept.get(name) != found[name]]
        self._note(bool(odd), f"{len(odd)} jobs are not as they were left, such as {odd[:1]}")
        self._note(not report.ok, f"verify found {report.problems[:1]}")

    def _note(self, is_wrong: bool, what: str) -> None:
        if is_wrong:
            self._tally.wrong.append(f"{self._kind}, cycle {self._tally.cycles}: {what}")


def run(kind: str, cycles: int, tally: Tally) -> None:
    """Fill and free so often, with a new disk now and then; ends when something is wrong."""
    while tally.cycles < cycles and not tally.wrong:
        with tiny_disk() as disk:
            filler = Filler(kind, disk, tally)
            for _ in range(min(PIECES, cycles - tally.cycles)):
                filler.cycle()
            filler.close()


def report(kind: str, cycles: int) -> bool:
    """Run for one kind and print the figures; whether all was well."""
    began, tally = time.monotonic(), Tally()
    run(kind, cycles, tally)
    print(*tally.wrong[:10], sep="\n", end="\n" if tally.wrong else "")
    print(
        f"{kind}: filled and freed {tally.cycles} times, {tally.acknowledged} calls acknowledged, "
        f"{tally.refused} refused, {len(tally.wrong)} wrong, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return not tally.wrong


def found_out() -> bool:
    """Run the broken build; whether it shows."""
    disks.full_disk_ignored()
    tally = Tally()
    run("jsonl", 1, tally)
    print(f"full disk ignored: {tally.wrong[0] if tally.wrong else 'NOT FOUND OUT'}")
    return bool(tally.wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="4 cycles")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    if given.control:
        return 0 if found_out() else 1
    held = [report(kind, 4 if given.short else 20) for kind in KINDS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
