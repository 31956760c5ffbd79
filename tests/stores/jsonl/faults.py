"""Plays the scenario over and over, and at the N-th call to the system something goes wrong.

Run as a program, so that it has one thread and may fork. For N = 1, 2, 3 … it forks a child that
counts its calls to write, sync, rename and truncate, and does at the N-th what the mode says. Each
child's ledger is printed as one line of JSON: what it was told is done, what it had begun.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

sys.path.append(str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).parents[2] / "kits"))

from redrive.errors import StoreError, StoreLost
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock
from stores.jsonl.scenes import Operation, scenario

CALLS = ("write", "fdatasync", "fsync", "rename", "ftruncate")
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT}
real = {name: getattr(os, name) for name in CALLS}


def script() -> list[Operation]:
    """The scenario with a compaction in it, and one more job after that."""
    operations = scenario()
    compaction: Operation = lambda store: store.compact()  # noqa: E731
    return [*operations[:9], compaction, *operations[9:], compaction, operations[-1]]


class Fault:
    """Counts calls; the N-th (or every one from the N-th on) goes wrong."""

    def __init__(self, number: int, mode: str) -> None:
        self.number = number
        self.mode = mode
        self.count = 0

    def install(self) -> None:
        for name in CALLS:
            setattr(os, name, self._shim(name))

    def _shim(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.count += 1
            if self.count == self.number or (self.count > self.number and "on" in self.mode):
                return self._strike(name, args)
            return self._do(name, args)

        return call

    def _do(self, name: str, args: Any) -> Any:
        # No plug is pulled here, so the syncs need not be real.
        return None if "sync" in name else real[name](*args)

    def _strike(self, name: str, args: Any) -> Any:
        word = self.mode.split()[0]
        half = (args[0], bytes(args[1])[: len(args[1]) // 2]) if name == "write" else args
        if word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "killhalf":
            self._do(name, half)
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "short":
            return self._do(name, half)
        if "half" in self.mode:
            self._do(name, half)
        raise OSError(ERRORS[word], os.strerror(ERRORS[word]))


def play(path: Path, ledger: int, mode: str, operations: list[Operation]) -> None:
    """Run the script; where a call fails, say so and repeat it, in a new store if need be."""

    def say(*words: object) -> None:
        real["write"](ledger, json.dumps(words).encode() + b"\n")

    store: JsonlStore | None = None
    for at, operation in enumerate(operations):
        say("begun", at)
        for _ in range(3):
            try:
                store = store or JsonlStore(path, clock=ManualClock())
                operation(store)
            except StoreError as error:
                say("failed", at, type(error).__name__)
                if "on" in mode:
                    return
                if store and isinstance(error, StoreLost):
                    store.close()
                    store = None
                continue
            say("done", at)
            break
        else:
            return
    say("finished")


def one(path: Path, number: int, mode: str) -> bool:
    """Play with a fault at the N-th call; returns True if the call was ever made."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        fault = Fault(number, mode)
        fault.install()
        play(path, writes, mode, script())
        real["write"](writes, json.dumps(["calls", fault.count]).encode() + b"\n")
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        said = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    struck = status != 0 or any(word[0] == "calls" and word[1] >= number for word in said)
    if struck:
        line = json.dumps({"number": number, "status": status, "said": said})
        real["write"](1, line.encode() + b"\n")
    return struck


def main(directory: str, mode: str, step: str) -> NoReturn:
    number = 1
    while one(Path(directory) / f"{number}" / "jobs.jsonl", number, mode):
        number += int(step)
    sys.exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
