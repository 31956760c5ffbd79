"""Runs: bulk retries that are kept like jobs, so that each outlives whoever asked for it.

A run is a note. Its jobs carry its number as a tag, below zero while they only wait for it; so the
set is frozen, no job can wait for two runs, and who dies loses nothing. Nobody counts along: how a
run fares is asked of the store, by tag, and how many jobs were let go is the sum of the acts that
let them go, which are written in the same step. `driver` drives them; `desk.runs` is for people.

This module knows the record, the counting and the rules: when to let how many go, when to stop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Literal, cast

from redrive.errors import UsageError
from redrive.jobs import checks
from redrive.jobs.job import Act, State
from redrive.stores.contract import Members, Store, note_named

NOTE = "run:"
"""What the names of runs' notes begin with; the number follows."""
BOOK = "runs"
"""The note with the last number and the numbers of the runs that are not over."""
RELEASE = "release"
"""The verb of the acts that let a run's jobs go."""
QUIET = frozenset({"enlist", RELEASE})
"""Verbs that only a look at one run is about."""
SLICE = 1000
"""How many jobs of a run are let go and not yet tried, at most."""
AHEAD = 2.0
"""Seconds for which jobs are let go in advance: what is let go can be paused no more."""
RAMP_STEP = 10.0
"""Seconds after which a ramp doubles; it begins at a tenth of the rate."""
JUDGED_FROM = 10
"""How many jobs must have ended before a share of them means anything."""
KEPT = 200
"""How many runs that are over are remembered."""
SAMPLES = 5
"""How many of the jobs that were left out are named."""

Phase = Literal["freezing", "live", "paused", "done", "stopped", "cancelled"]
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*(s|m|h))?")
_STOP = re.compile(r"(\d{1,9})|(\d{1,3}(?:\.\d{1,9})?)\s*%")
_FULL = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """How a run is to be driven."""

    canary: int = 0
    """So many jobs go first, and the others only if these do well."""
    rate: float | None = None
    """Jobs a second; None: as fast as the workers are."""
    ramp: bool = False
    """Begin at a tenth of the rate and double every ten seconds."""
    stop_on: str = ""
    """Stop at so many failures ("25") or at such a share of them ("10%")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How a run fares; the parts add up to the jobs that were frozen."""

    waiting: int = 0
    """Not yet let go."""
    working: int = 0
    """Let go, and pending or running."""
    failing: int = 0
    """Those of them that failed at least once and wait for their next try."""
    succeeded: int = 0
    failed: int = 0
    """Dead again."""
    closed: int = 0
    """Resolved or discarded by a person after they were let go."""
    left: int = 0
    """Never let go: they changed meanwhile, or the run was stopped or cancelled before."""
    alone: int = 0
    """Those of them that ran by themselves before their turn came."""
    same: int = 0
    """Dead again of a cause that the run set out with."""
    new: Mapping[int, int] = field(default_factory=dict[int, int])
    """Dead of another cause, by group."""

    @property
    def ended(self) -> int:
        """How many jobs were tried to their end."""
        return self.succeeded + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A bulk retry: who asked for what, how it is driven, and how far it is."""

    number: int
    by: str
    asked: str = ""
    """The selection as it was asked for."""
    name: str = ""
    reason: str = ""
    created: float
    phase: Phase = "freezing"
    spec: Spec = field(default_factory=Spec)
    total: int = 0
    """How many jobs were frozen."""
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Why jobs that were asked for were not frozen, and how many."""
    samples: tuple[tuple[str, str], ...] = ()
    """A few of these, and why."""
    groups: tuple[int, ...] = ()
    """The causes its jobs had when they were frozen."""
    touched: float = 0.0
    """While it freezes: when it was last seen to go on."""
    released: int = 0
    """How many jobs were let go, up to the act `act`."""
    act: int = 0
    passed: bool = False
    """Whether the canary did well."""
    paced: float = 0.0
    """Up to when jobs are let go already, at its rate."""
    ramped: float = 0.0
    """When the ramp began."""
    why: str = ""
    """Why it was stopped or cancelled."""
    ended: float | None = None
    counts: Counts | None = None
    """How it ended; None while it is not over."""

    @property
    def id(self) -> str:
        """R12, as people type it."""
        return f"R{self.number}"

    @property
    def is_over(self) -> bool:
        """Whether nothing more is let go or counted."""
        return self.ended is not None

    @property
    def created_at(self) -> datetime:
        """When it was asked for, as an aware datetime."""
        return datetime.fromtimestamp(self.created, UTC)


def written(run: Run) -> str:
    """Give the text of a run's note."""
    return json.dumps(asdict(run))


def read(text: str) -> Run | None:
    """Read a run's note; None for one that nobody can read."""
    try:
        value = cast("dict[str, Any]", json.loads(text))
        told = cast("dict[str, Any] | None", value.pop("counts"))
        if told is not None:
            told["new"] = {int(group): jobs for group, jobs in told["new"].items()}
        counts = None if told is None else Counts(**told)
        tuples: dict[str, Any] = {
            "samples": tuple((one, why) for one, why in value.pop("samples")),
            "groups": tuple(value.pop("groups")),
        }
        return Run(spec=Spec(**value.pop("spec")), counts=counts, **tuples, **value)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def found(store: Store, number: int) -> tuple[Run, int] | None:
    """Give a run and the version of its note."""
    note = note_named(store, f"{NOTE}{number}")
    run = read(note.value) if note else None
    return (run, note.version) if note and run else None


def book(store: Store) -> tuple[int, tuple[int, ...], int]:
    """Give the last number, the runs that are not over, and the version of the note."""
    if (note := note_named(store, BOOK)) is None:
        return 0, (), 0
    value = cast("dict[str, Any]", json.loads(note.value))
    return value["last"], tuple(value["live"]), note.version


def open_next(store: Store) -> int:
    """Take the next number."""
    while True:
        last, live, version = book(store)
        value = {"last": last + 1, "live": [*live, last + 1]}
        if store.note(BOOK, json.dumps(value), expected=version, durable=True) is not None:
            return last + 1


def strike(store: Store, number: int) -> None:
    """Take a run off the list of those that are not over."""
    while True:
        last, live, version = book(store)
        value = {"last": last, "live": [one for one in live if one != number]}
        if number not in live or store.note(
            BOOK, json.dumps(value), expected=version, durable=True
        ):
            return


def every(store: Store) -> Iterator[Run]:
    """Give all runs that are remembered, newest first."""
    known = (read(note.value) for note in store.notes(NOTE))
    return iter(sorted((run for run in known if run), key=lambda run: -run.number))


def forget_old(store: Store) -> None:
    """Forget the oldest of the runs that are over."""
    over = [run.number for run in every(store) if run.is_over]
    for number in over[KEPT:]:
        store.note(f"{NOTE}{number}", None)


def caught_up(store: Store, run: Run) -> Run:
    """Count the acts that let jobs go since the run was written; they are the truth."""
    before: int | None = None
    newest, released = run.act, run.released
    while acts := store.acts(limit=100, before=before):
        for act in acts:
            if act.number <= run.act:
                return replace(run, act=newest, released=released)
            if act.verb == RELEASE and act.target == run.id:
                newest, released = max(newest, act.number), released + act.done
        before = acts[-1].number
    return replace(run, act=newest, released=released)


def is_about(act: Act, run: str | None) -> bool:
    """Whether an act is about this run; without one, whether it is no mere step of any."""
    if run is None:
        return act.verb not in QUIET
    return run in {act.target, act.detail.get("run")}


def counted(store: Store, run: Run) -> tuple[Run, Counts]:
    """Ask the store how a run fares.

    In this order, so that once nothing waits the number of those let go is final.
    """
    if run.is_over and run.counts is not None:
        return run, run.counts
    waiting = store.members(-run.number)
    run = caught_up(store, run)
    return run, tallied(run, waiting, store.members(run.number))


def tallied(run: Run, waiting: Members, out: Members) -> Counts:
    """Make the counts of a run of what its two tags have."""
    wait = sum(jobs for state, jobs in waiting.states.items() if state is not State.COMPLETED)
    working = out.states.get(State.PENDING, 0) + out.states.get(State.RUNNING, 0)
    failed, closed = out.states.get(State.DEAD, 0), out.states.get(State.RESOLVED, 0)
    new = {group: jobs for group, jobs in out.causes.items() if group not in run.groups}
    left = max(0, run.total - run.released - wait)
    return Counts(
        waiting=wait,
        working=working,
        failing=out.failing,
        # What is left over has completed; it may be purged already.
        succeeded=max(0, run.released - working - failed - closed),
        failed=failed,
        closed=closed,
        left=left,
        alone=min(left, waiting.states.get(State.COMPLETED, 0)),
        same=failed - sum(new.values()),
        new=new,
    )


def stops(run: Run, counts: Counts) -> str:
    """Say why a run must go no further; empty while it may."""
    failed, ended = counts.failed, counts.ended
    if run.spec.canary and not run.passed and run.released >= run.spec.canary:
        if counts.working == 0 and failed and _is_too_many(run.spec.stop_on or "1", failed, ended):
            return f"of its canary {failed:,} of {ended:,} failed again"
        if counts.waiting:
            return ""  # judged as a whole, once all of it has ended
    return (
        too_many(run.spec.stop_on, failed, ended, canary=run.spec.canary) if counts.waiting else ""
    )


def too_many(stop_on: str, failed: int, ended: int, *, canary: int = 0) -> str:
    """Say how many failed, if that is more than may; a share is judged once enough have ended."""
    few = stop_on.endswith("%") and ended < max(JUDGED_FROM, canary)
    if not stop_on or few or not _is_too_many(stop_on, failed, ended):
        return ""
    return f"{failed:,} of {ended:,} failed again"


def _is_too_many(stop_on: str, failed: int, ended: int) -> bool:
    if stop_on.endswith("%"):
        return failed > 0 and failed * _FULL >= float(stop_on[:-1]) * ended
    return failed >= int(stop_on)


def due(run: Run, counts: Counts, now: float) -> tuple[Run, list[float]]:
    """Say how many jobs to let go now, each with its delay, and what to remember of it."""
    canary = run.spec.canary
    if canary and not run.passed:
        if run.released < canary:
            return run, [0.0] * min(canary - run.released, counts.waiting)
        if counts.working:
            return run, []
        run = replace(run, passed=True)
    rate = run.spec.rate
    most = SLICE if rate is None else max(SLICE, int(rate * AHEAD))
    room = min(counts.waiting, most - (counts.working - counts.failing))
    if rate is None:
        return run, [0.0] * room
    return _paced(run, rate, room, now)


def _paced(run: Run, rate: float, room: int, now: float) -> tuple[Run, list[float]]:
    """Spread what is due in the next seconds; time in which nobody looked is not made up for."""
    at, ramped = max(run.paced, now), run.ramped or now
    delays: list[float] = []
    while at < now + AHEAD and len(delays) < room:
        delays.append(at - now)
        at += 1.0 / speed(run.spec, rate, at - ramped)
    return replace(run, paced=at, ramped=ramped), delays


def speed(spec: Spec, rate: float, passed: float) -> float:
    """Give the jobs a second at so many seconds into a ramp."""
    if not spec.ramp:
        return rate
    return min(rate, rate / 10 * float(1 << min(int(passed // RAMP_STEP), 10)))


def spec_of(*, canary: int = 0, rate: float | str | None = None, ramp: bool, stop_on: str) -> Spec:
    """Make a spec of what people say; refuses what would not do what it seems to."""
    checks.whole(canary, "canary", least=0)
    if ramp and rate is None:
        msg = "ramp needs a rate to lead to, such as 20/s"
        raise UsageError(msg)
    limit = checks.text(stop_on, "stop_on").replace(" ", "")
    most = _FULL if limit.endswith("%") else inf
    if limit and not (_STOP.fullmatch(limit) and 0 < float(limit.rstrip("%")) <= most):
        msg = f"stop_on must be a share such as 10% or a number of jobs, above 0; found {stop_on!r}"
        raise UsageError(msg)
    per_second = None if rate is None else rate_of(rate)
    return Spec(canary=canary, rate=per_second, ramp=ramp, stop_on=limit)


def rate_of(value: float | str) -> float:
    """Turn a rate into jobs a second.

    >>> rate_of("20/s"), rate_of("30/m"), rate_of(5)
    (20.0, 0.5, 5.0)
    """
    parts = _RATE.fullmatch(str(value).strip())
    number = float(parts[1]) / _UNITS[parts[2] or "s"] if parts else 0.0
    if number <= 0:
        msg = f"a rate must be like 20/s, 30/m or 100/h, above 0; found {value!r}"
        raise UsageError(msg)
    return number


def number_of(value: int | str | Run) -> int:
    """Give the number of a run said as 12, "12" or "R12"."""
    if isinstance(value, Run):
        return value.number
    text = str(value).strip()
    digits = text[1:] if text[:1] in {"R", "r"} else text
    if digits.isascii() and digits.isdecimal():
        return int(digits)
    msg = f"{value!r} is no run; runs are named R1, R2 …: see `redrive runs`"
    raise UsageError(msg)
