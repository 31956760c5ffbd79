"""Has strace make system calls of a child fail, or kill it there, and gives what it told."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from disk_life import Broken, Life, Told, read

CALLS = [
    "openat",
    "write",
    "pwrite64",
    "writev",
    "fsync",
    "fdatasync",
    "ftruncate",
    "fallocate",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
]
"""The calls that change files, and the one that opens them. strace counts each by itself."""


def live(
    life: Life,
    directory: Path,
    call: str,
    what: str,
    *,
    tries: int = 1,
    broken: Broken | None = None,
) -> tuple[bool, Told]:
    """Live with something happening at a call (`signal=SIGKILL:when=7`); gives whether it did."""
    child, ledger = life.start(directory, tries=tries, broken=broken)
    log = directory.with_suffix(".strace")
    command = ["strace", "-o", str(log), "-p", str(child)]
    command += ["-e", f"trace={call}", "-e", f"inject={call}:{what}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        said = strace.stderr.readline()
        if "attached" not in said:
            os.kill(child, signal.SIGKILL)
            sys.exit(f"strace cannot attach here: {said.strip()}")
        ledger.send(b"!")
        told = read(ledger)
        _, status = os.waitpid(child, 0)
        strace.stderr.read()
    if os.WIFSIGNALED(status) and status != signal.SIGKILL:
        told.wrong = f"it was ended by signal {os.WTERMSIG(status)}"
    return status == signal.SIGKILL or "(INJECTED)" in log.read_text("utf-8", "replace"), told


def at_every(one: Callable[[str, int], bool], every: int) -> int:
    """Try the 1st, 2nd, 3rd … (or every so-manieth) of each call while there is one; gives how many."""
    count = 0
    for call in CALLS:
        for number in itertools.count(1, every):
            if not one(call, number):
                break
            count += 1
    return count
