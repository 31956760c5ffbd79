"""How things are measured: contestants take turns, round by round, so that noise hits all alike.

To add a measure: write a contestant (a context manager that prepares what it needs once and gives a
function which does one round and returns its figure), put it in a `Measure` with what it has to
reach, and name that in `run.MEASURES`. A peer that cannot be prepared is left out, with the reason.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Round = Callable[[], float]
"""Does a round and gives its figure, in the unit of the measure."""

METERS: list[Callable[[], float]] = [time.process_time]
"""Each returns seconds of processor time; the server adds its own while it runs."""

_used: list[float] = []
"""Microseconds of processor time a job, as the round under way reported them."""

NOISY = 0.25
"""A median whose rounds lie further apart than this part of it means little."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a measure takes place, how full a full store is, and whether a taste will do."""

    directory: Path
    many: int = 1_000_000
    quick: bool = False

    def fresh(self) -> Path:
        """Give a new, empty directory; it is removed with the stage."""
        return Path(tempfile.mkdtemp(dir=self.directory))

    def size(self, full: int, quick: int) -> int:
        """Give how many there shall be."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Contestant:
    """One who takes part. Durability: P survives a power cut, K survives kill -9."""

    name: str
    durability: str
    prepare: Callable[[Stage], AbstractContextManager[Round]]


@dataclass(frozen=True, slots=True)
class Goal:
    """What one contestant has to reach: a multiple of another's figure or, alone, a figure."""

    who: str
    over: str
    must: float
    aim: float
    at_most: bool = False
    why: str = ""
    """Shown if it is missed: what stands in the way."""

    def holds(self, found: float, bound: float) -> bool:
        """Whether what was found keeps a bound."""
        return found <= bound if self.at_most else found >= bound


@dataclass(frozen=True, slots=True)
class Measure:
    """One comparison. The unit `/s` is the better the more, every other the less."""

    name: str
    title: str
    unit: str
    contestants: tuple[Contestant, ...]
    goals: tuple[Goal, ...] = ()
    note: str = ""
    plotted: bool = False


@dataclass(slots=True)
class Result:
    """The figures of a measure, by contestant, and why others have none."""

    measure: Measure
    figures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    cpu: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Microseconds of processor time a job, where a round reports them."""

    def median(self, name: str) -> float | None:
        """Give the middle figure of a contestant."""
        return statistics.median(self.figures[name]) if self.figures.get(name) else None

    def spread(self, name: str) -> float:
        """Give how far the rounds lie apart, as a part of their median."""
        figures = self.figures[name]
        return (max(figures) - min(figures)) / abs(statistics.median(figures))

    @property
    def worst(self) -> float:
        """The widest spread of all."""
        return max(map(self.spread, self.figures), default=0.0)

    def reached(self, goal: Goal) -> float | None:
        """Give what came of a goal; None if one of the two did not run."""
        ours = self.median(goal.who)
        theirs = self.median(goal.over) if goal.over else 1.0
        return ours / theirs if ours is not None and theirs is not None else None


def measured(measure: Measure, stage: Stage, *, rounds: int, tries: int = 1) -> Result:
    """Let the contestants take turns; while it was noisy and tries are left, all of it again."""
    failed: dict[str, str] = {}
    with ExitStack() as opened:
        ready = _ready(measure, stage, opened, failed)
        gc.collect()
        gc.freeze()  # what was imported and loaded must not slow the collector down
        found = [_rounds(measure, ready, rounds, failed)]
        while len(found) < tries and found[-1].worst > NOISY:
            found.append(_rounds(measure, ready, rounds, failed))
    gc.unfreeze()
    return min(found, key=lambda result: result.worst)


def _ready(
    measure: Measure, stage: Stage, opened: ExitStack, failed: dict[str, str]
) -> dict[str, Round]:
    ready: dict[str, Round] = {}
    for one in measure.contestants:
        try:
            ready[one.name] = opened.enter_context(one.prepare(stage))
        except Exception as error:  # noqa: BLE001 - a peer's trouble is told in the table
            failed[one.name] = reason(error)
    return ready


def _rounds(
    measure: Measure, ready: dict[str, Round], rounds: int, failed: dict[str, str]
) -> Result:
    result = Result(measure, failed=failed)
    for _ in range(rounds):
        for name, one_round in ready.items():
            if name not in failed:
                gc.collect()
                _used.clear()
                try:
                    result.figures.setdefault(name, []).append(one_round())
                    result.cpu.setdefault(name, []).extend(_used)
                except Exception as error:  # noqa: BLE001 - the same
                    failed[name] = reason(error)
                    result.figures.pop(name, None)
    return result


def reason(error: Exception) -> str:
    """Say in one line why something did not run."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:120]


Submit = Callable[[int, int], None]
"""Submits so many jobs, so many a call (all of them at once in a transaction)."""


def submitting(
    opened: Callable[[Stage], AbstractContextManager[Submit]],
    *,
    full: int = 3000,
    quick: int = 300,
    bulk: int = 1,
) -> Callable[[Stage], AbstractContextManager[Round]]:
    """Make a contestant of someone who can submit: how many jobs a second."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number = max(stage.size(full, quick), bulk)
        with opened(stage) as submit:
            submit(max(number // 10, bulk), bulk)  # warm
            yield lambda: timed(number, lambda: submit(number, bulk))

    return prepare


def timed(number: int, work: Callable[[], object]) -> float:
    """Return how many a second, if `work` does so many; report their processor time."""
    before = cpu()
    spent = seconds(work)
    report_cpu(number, cpu() - before)
    return number / spent


def cpu() -> float:
    """Return the seconds of processor time that this process and the server have spent."""
    return sum(meter() for meter in METERS)


def report_cpu(jobs: float, spent: float) -> None:
    """Add the processor time of this round to its row."""
    _used.append(spent / jobs * 1e6)


def seconds(work: Callable[[], object]) -> float:
    """Return how long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
