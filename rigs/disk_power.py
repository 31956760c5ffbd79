"""Cut the power under a store at a random change of its disk, and see what is left.

    python rigs/disk_power.py             200 cuts for each file store
    python rigs/disk_power.py --short     20 for each
    python rigs/disk_power.py --control   builds that do not sync, or not everything: must be found out
    python rigs/disk_power.py --seed 7    the same cuts again

The stores live on a file system of our own (`lossy_fs`) that loses what was not synced. Submits and
acts of people must survive; claims and settlements since may be undone, from the last one on. Every
third time the power fails again while the store is being opened.

Exit code 1 when something promised was lost (with --control: when nothing was). Needs FUSE and root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from broken import disks
from disk_life import KINDS, Broken, Life, Step, Told, read

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-rigs" / "bin" / "python"
"""The one that `make` gives what only rigs need."""

CHAPTERS = 3
CONTROLS: dict[str, tuple[str, Broken]] = {
    "no fsync": ("jsonl", disks.no_fsync),
    "no directory fsync": ("jsonl", disks.no_directory_fsync),
    "no directory fsync, sqlite": ("sqlite", disks.no_directory_fsync),
    "batch mark missing": ("jsonl", disks.no_batch_mark),
    "synchronous = OFF": ("sqlite", disks.synchronous_off),
}


class Power:
    """A mounted file system whose disks can be cut off."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._disks = 0

    def tell(self, disk: str, **order: object) -> None:
        """Give an order about a disk."""
        (self.root / ".control").write_text(json.dumps({"disk": disk, **order}), "utf-8")

    def plug_in(self, image: Path | None = None) -> str:
        """Add a disk, empty or with what is in an image; all of that is on it for good."""
        self._disks += 1
        name = str(self._disks)
        (self.root / name).mkdir()
        if image is not None:
            shutil.copytree(image, self.root / name, dirs_exist_ok=True)
            self._sync(self.root / name)
        return name

    def _sync(self, directory: Path) -> None:
        for place, _, files in os.walk(directory):
            for one in (Path(place), *(Path(place) / file for file in files)):
                descriptor = os.open(one, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)


@contextlib.contextmanager
def mounted() -> Generator[Power]:
    """Mount the file system for a while."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        sys.exit("this rig mounts a file system: it needs root and /dev/fuse")
    if not PYTHON.exists():
        sys.exit(
            "this rig needs an environment of its own: start it with make rigs RIGS=disk-power"
        )
    root = Path(tempfile.mkdtemp())
    command = [str(PYTHON), str(ROOT / "rigs" / "lossy_fs.py"), str(root)]
    environment = {**os.environ, "FUSE_LIBRARY_NAME": "fuse3"}  # else version 2, where there is one
    with subprocess.Popen(command, env=environment) as server:
        try:
            while not root.is_mount():
                if server.poll() is not None:
                    sys.exit("the lossy file system could not be mounted")
                time.sleep(0.01)
            yield Power(root)
        finally:
            subprocess.run(["umount", "--lazy", str(root)], check=False)  # noqa: S607
            server.wait(10)
    root.rmdir()


class Cutter:
    """Lives one life after the other, each to its power cut."""

    def __init__(self, power: Power, work: Path, life: Life, broken: Broken | None = None) -> None:
        self._power = power
        self._work = work
        self._life = life
        self._opening = Life(life.kind, [Step(lambda store: store.counts())], [], [])
        self._broken = broken
        self._lives = 0
        _, _, self._changes = self._live(life, cut=0, seed=0)
        """How many changes of the disk there are in a whole life."""

    def cut(self, seed: int) -> str:
        """Cut the power once or twice; gives what is wrong, or nothing."""
        rand = random.Random(seed)
        cut = rand.randint(1, self._changes + 5)
        image, told, _ = self._live(self._life, cut=cut, seed=seed)
        if rand.random() < 1 / 3:
            cut = rand.randint(1, 12)
            image, again, _ = self._live(self._opening, cut=cut, seed=seed, image=image)
            told.failed += again.failed
            told.wrong = told.wrong or again.wrong
        return self._life.judge(image, told, self._life.durable(told))

    def _live(
        self, life: Life, *, cut: int, seed: int, image: Path | None = None
    ) -> tuple[Path, Told, int]:
        """Live until the cut, on a new disk or on what is left of one."""
        self._lives += 1
        disk, left = self._power.plug_in(image), self._work / str(self._lives)
        child, ledger = life.start(self._power.root / disk, broken=self._broken)
        orders = {"image": str(left), "seed": seed, "cut": cut, "process": child, "changes": 0}
        self._power.tell(disk, **orders)
        ledger.send(b"!")
        told = read(ledger)
        os.waitpid(child, 0)
        count = Path(f"{left}.count")
        if not count.exists():
            self._power.tell(disk, now=True)
        return left, told, json.loads(count.read_text("utf-8"))["changes"]


def run(kind: str, cuts: int, seed: int, broken: Broken | None = None) -> list[str]:
    """Cut the power so often, or until a broken build shows; gives what went wrong."""
    wrong: list[str] = []
    with mounted() as power, tempfile.TemporaryDirectory() as work:
        cutter = Cutter(power, Path(work), Life.of(kind, CHAPTERS), broken)
        for one in range(seed, seed + cuts):
            if found := cutter.cut(one):
                wrong.append(f"{kind}, seed {one}: {found}")
                if broken:
                    break
    return wrong


def report(kind: str, cuts: int, seed: int) -> bool:
    """Run for one kind and print the figures; whether all was well."""
    began = time.monotonic()
    wrong = run(kind, cuts, seed)
    print(*wrong[:10], sep="\n", end="\n" if wrong else "")
    seconds = time.monotonic() - began
    print(f"{kind}: {cuts} power cuts, {len(wrong)} wrong, {seconds:.0f} s", flush=True)
    return not wrong


def found_out(name: str, seed: int) -> bool:
    """Run a broken build until it shows; whether it did."""
    kind, broken = CONTROLS[name]
    wrong = run(kind, 200, seed, broken)
    print(f"{name}: {wrong[0] if wrong else 'NOT FOUND OUT in 200 power cuts'}", flush=True)
    return bool(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cuts", type=int, default=200, help="for each store")
    parser.add_argument("--short", dest="cuts", action="store_const", const=20, help="20 cuts")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    given = parser.parse_args()
    if given.control:
        held = [found_out(name, given.seed) for name in CONTROLS]
    else:
        held = [report(kind, given.cuts, given.seed) for kind in KINDS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
