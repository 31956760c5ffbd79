"""Run the rigs, one after the other, and say which failed.

    python rigs/run.py                    all of them in their full form; takes long
    python rigs/run.py --short            a taste of each, for every change
    python rigs/run.py --short kill cuts  only these
    python rigs/run.py --list             what there is

Each rig prints its figures and has a negative control: a build that is broken on purpose and must be
found out. A rig that cannot fail proves nothing. System packages that are missing are installed,
if this user may; `make` sees to the Python ones.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = {"strace": "strace", "fusermount3": "fuse3", "pgbouncer": "pgbouncer"}
"""Programs that rigs call, and the Debian package of each."""


@dataclass(frozen=True, kw_only=True)
class Rig:
    """What is run; the words follow the interpreter. No words: there is no such form."""

    full: str = ""
    short: str = ""
    needs: tuple[str, ...] = ()
    """Programs that must be there."""
    environment: dict[str, str] = field(default_factory=dict)


RIGS: dict[str, Rig] = {
    "machine": Rig(full="rigs/machine.py", short="rigs/machine.py --short"),
    "machine-control": Rig(full="rigs/machine.py --control", short="rigs/machine.py --control"),
    "journal": Rig(
        full="-m pytest -q -n 2 --timeout 1800 tests/stores/jsonl",
        environment={"REDRIVE_FULL": "1"},
    ),
    "kill": Rig(full="rigs/kill.py", short="rigs/kill.py --short"),
    "kill-control": Rig(full="rigs/kill.py --control", short="rigs/kill.py --control"),
    "listeners": Rig(full="rigs/listeners.py", short="rigs/listeners.py --short"),
    "listeners-control": Rig(
        full="rigs/listeners.py --control", short="rigs/listeners.py --control"
    ),
    "poison": Rig(full="rigs/poison.py", short="rigs/poison.py --short"),
    "poison-control": Rig(full="rigs/poison.py --control", short="rigs/poison.py --control"),
    "outage": Rig(full="rigs/outage.py", short="rigs/outage.py --short"),
    "outage-control": Rig(full="rigs/outage.py --control", short="rigs/outage.py --control"),
    "soak": Rig(full="rigs/soak.py", short="rigs/soak.py --short"),
    "soak-control": Rig(full="rigs/soak.py --control", short="rigs/soak.py --control"),
    "server": Rig(full="rigs/server.py", short="rigs/server.py --short"),
    "server-control": Rig(full="rigs/server.py --control", short="rigs/server.py --control"),
    "cuts": Rig(full="rigs/cuts.py", short="rigs/cuts.py --short"),
    "cuts-control": Rig(full="rigs/cuts.py --control", short="rigs/cuts.py --control"),
    "crowd": Rig(full="rigs/crowd.py", short="rigs/crowd.py --short"),
    "crowd-control": Rig(full="rigs/crowd.py --control", short="rigs/crowd.py --control"),
    "rewind": Rig(full="rigs/rewind.py", short="rigs/rewind.py --short"),
    "rewind-control": Rig(full="rigs/rewind.py --control", short="rigs/rewind.py --control"),
    "import": Rig(full="rigs/imports.py", short="rigs/imports.py --short"),
    "import-control": Rig(full="rigs/imports.py --control", short="rigs/imports.py --control"),
    "pooler": Rig(full="rigs/pooler.py", short="rigs/pooler.py --short", needs=("pgbouncer",)),
    "pooler-control": Rig(
        full="rigs/pooler.py --control", short="rigs/pooler.py --control", needs=("pgbouncer",)
    ),
    "locks": Rig(full="rigs/locks.py", short="rigs/locks.py --short"),
    "locks-control": Rig(full="rigs/locks.py --control", short="rigs/locks.py --control"),
    "evil": Rig(full="rigs/evil.py", short="rigs/evil.py --short"),
    "evil-control": Rig(full="rigs/evil.py --control", short="rigs/evil.py --control"),
    "mask-oracle": Rig(full="rigs/mask_oracle.py", short="rigs/mask_oracle.py --short"),
    "mask-oracle-control": Rig(
        full="rigs/mask_oracle.py --control", short="rigs/mask_oracle.py --control"
    ),
    "grouping": Rig(full="rigs/grouping.py", short="rigs/grouping.py --short"),
    "grouping-control": Rig(full="rigs/grouping.py --control", short="rigs/grouping.py --control"),
    "disk-strace": Rig(
        full="rigs/disk_strace.py", short="rigs/disk_strace.py --short", needs=("strace",)
    ),
    "disk-strace-control": Rig(
        full="rigs/disk_strace.py --control",
        short="rigs/disk_strace.py --control",
        needs=("strace",),
    ),
    "disk-power": Rig(
        full="rigs/disk_power.py", short="rigs/disk_power.py --short", needs=("fusermount3",)
    ),
    "disk-power-control": Rig(
        full="rigs/disk_power.py --control",
        short="rigs/disk_power.py --control",
        needs=("fusermount3",),
    ),
    "disk-errors": Rig(
        full="rigs/disk_errors.py",
        short="rigs/disk_errors.py --short",
        needs=("strace", "fusermount3"),
    ),
    "disk-errors-control": Rig(
        full="rigs/disk_errors.py --control",
        short="rigs/disk_errors.py --control",
        needs=("strace", "fusermount3"),
    ),
    "disk-full": Rig(full="rigs/disk_full.py", short="rigs/disk_full.py --short"),
    "disk-full-control": Rig(
        full="rigs/disk_full.py --control", short="rigs/disk_full.py --control"
    ),
}


def missing(rigs: list[Rig]) -> list[str]:
    """Give the packages of the programs that these need and that are not there."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    needed = {one for rig in rigs for one in rig.needs}
    return sorted(PACKAGES[one] for one in needed if shutil.which(one, path=path) is None)


def install(packages: list[str]) -> None:
    """Install Debian packages, or say which ones somebody else must."""
    words = f"apt-get install {' '.join(packages)}"
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        sys.exit(f"these rigs need more programs; as root: {words} (or your system's equivalent)")
    # RUNLEVEL keeps the packages from starting services: rigs start what they need themselves.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for step in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run([apt, "-qq", *step], env=environment, check=False)
        if done.returncode:
            sys.exit(f"these rigs need more programs, and `{words}` failed")


def run(name: str, rig: Rig, words: str) -> bool:
    """Run one rig; whether it held."""
    print(f"== {name}", flush=True)
    began = time.monotonic()
    environment = {**os.environ, **rig.environment}
    command = [sys.executable, *words.split()]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    held = done.returncode == 0
    print(f"{'held' if held else 'FAILED'}, {time.monotonic() - began:.0f} s", flush=True)
    return held


def main() -> int:
    """Run those that are asked for; gives the exit code."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup would pass it on as ignored
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--short", action="store_true", help="the short forms")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    given = parser.parse_args()
    if unknown := set(given.names) - set(RIGS):
        parser.error(f"no such rig: {', '.join(sorted(unknown))}")
    chosen = {name: rig for name, rig in RIGS.items() if not given.names or name in given.names}
    forms = {name: rig.short if given.short else rig.full for name, rig in chosen.items()}
    forms = {name: words for name, words in forms.items() if words}
    if given.list:
        print(*(f"{name:<20} {words}" for name, words in forms.items()), sep="\n")
        return 0
    if packages := missing([RIGS[name] for name in forms]):
        install(packages)
    failed = [name for name, words in forms.items() if not run(name, RIGS[name], words)]
    print(f"{len(forms) - len(failed)} passed, {len(failed)} failed")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
