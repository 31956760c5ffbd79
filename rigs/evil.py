"""Handlers that do everything they should not, in children: each comes to its end, nothing is left.

    python rigs/evil.py            1,000 runs
    python rigs/evil.py --short    each handler once
    python rigs/evil.py --control  builds that clean up badly: must be found out

Four threads with a child each run the handlers of `tests/evilkit.py` in random order. After each one
a decent handler looks whether all is as it was. In the end the rig counts the processes, zombies,
descriptors and threads that are left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from unittest import mock

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from childkit import PROGRAM, end_of, evil_job, held, is_right_end, left, marked
from evilkit import ENDS
from redrive.job import Done, Outcome
from redrive.worker import children
from redrive.worker.children import Child
from redrive.worker.process import Process
from redrive.worker.wire import Message, outcome_in

THREADS = 4
RUNS = 1000
PATIENCE = 60.0
"""Seconds that any one run may take at most."""


class Rig:
    """Runs handlers and writes down what was wrong."""

    def __init__(self, names: list[str]) -> None:
        self.problems: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.longest = 0.0
        self._names: SimpleQueue[str] = SimpleQueue()
        for name in names:
            self._names.put(name)

    def run(self) -> None:
        """Run all, and look at what is left."""
        before = held()
        threads = [threading.Thread(target=self._work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if processes := left():
            self.problems["a process was left"] += len(processes)
        if (now := held()) != before:
            self.problems[f"descriptors and threads were {before} and are {now}"] += 1

    def _work(self) -> None:
        child = Child(PROGRAM, grace=0.5)
        with contextlib.suppress(Empty):
            while True:
                self._try(child, self._names.get_nowait())
        child.close()

    def _try(self, child: Child, name: str) -> None:
        began = time.monotonic()
        try:
            outcome = child.run(*evil_job(name)).outcome
            after = child.run(*evil_job("look")).outcome
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the rig looks for
            self.problems[f"{name} raised {type(error).__name__}: {error}"] += 1
            return
        self.longest = max(self.longest, time.monotonic() - began)
        self.ends[end_of(outcome)[0] or "done"] += 1
        if not is_right_end(name, outcome):
            self.problems[f"{name} ended as {end_of(outcome)}"] += 1
        if not isinstance(after, Done):
            self.problems[f"{name} harmed the next job: {end_of(after)[1][:80]}"] += 1
        if self.longest > PATIENCE:
            self.problems[f"{name} took {self.longest:.0f} s"] += 1


def kills_only_the_child(process: Process, number: int) -> None:
    """Forget what the handler started; the lifeline, which would end it too, is held open."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process._popen.pid, number)  # noqa: SLF001
    if number == signal.SIGKILL:
        kept.append(process._open.pop_all())  # noqa: SLF001


def leaves_descriptors_open(process: Process, patience: float = 0.0) -> str:
    """Forget what belongs to a process."""
    kept.append(process._open.pop_all())  # noqa: SLF001
    return _END(process, patience)


kept: list[contextlib.ExitStack] = []
_END = Process.end


def takes_a_death_for_success(_why: str) -> Outcome:
    """Believe that who ended is done."""
    return Done()


def overlooks_what_is_spoiled(message: Message) -> Outcome:
    """Go on with a process in which a handler changed something."""
    message["spoiled"] = ""
    return outcome_in(message)


CONTROLS: dict[str, tuple[object, str, Callable[..., object]]] = {
    "a process was left": (Process, "signal", kills_only_the_child),
    "descriptors and threads were": (Process, "end", leaves_descriptors_open),
    "aborts ended as": (children, "crash", takes_a_death_for_success),
    "moves harmed the next job": (children, "outcome_in", overlooks_what_is_spoiled),
}
"""What the rig must say, and what is broken for that."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the handlers' output away; it is what they print, not what the rig does."""
    with Path(os.devnull).open("w") as nowhere, mock.patch.object(sys, "stderr", nowhere):
        yield


def once(names: list[str]) -> Rig:
    rig = Rig(names)
    with marked(), quiet():
        rig.run()
        for line in left(len(names)):  # of a broken build
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
    return rig


def control() -> bool:
    """Whether each broken build is found out."""
    names = random.sample(list(ENDS), len(ENDS))
    found = True
    for words, (owner, attribute, broken) in CONTROLS.items():
        with mock.patch.object(owner, attribute, broken):
            problems = [one for one in once(names).problems if one.startswith(words)]
        print(f"{broken.__name__}: {problems[0] if problems else 'NOT FOUND OUT'}")
        found &= bool(problems)
        while kept:
            kept.pop().close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="each handler once")
    parser.add_argument("--control", action="store_true", help="broken builds must be found out")
    given = parser.parse_args()
    if given.control:
        return 0 if control() else 1
    names = [*ENDS] if given.short else [*ENDS, *random.choices([*ENDS], k=RUNS - len(ENDS))]
    random.shuffle(names)
    began = time.monotonic()
    rig = once(names)
    ends = ", ".join(f"{count} {end}" for end, count in rig.ends.most_common())
    print(f"{len(names):,} runs in {time.monotonic() - began:.0f} s: {ends}")
    print(f"the longest, with a look afterwards, took {rig.longest:.1f} s")
    print(*(f"PROBLEM {count} x {what}" for what, count in rig.problems.items()), sep="\n")
    return 1 if rig.problems else 0


if __name__ == "__main__":
    sys.exit(main())
