"""Runs: bulk retries that are stored like jobs, so that each outlives the process that started it.

A run is a note. Its jobs carry its number as a tag, below zero while they only wait for it; so the
set is frozen, no job can wait for two runs, and who dies loses nothing. Nobody counts along: how a
run fares is asked of the store, by tag, and how many jobs were let go is the sum of the actions
that let them go, which are written in the same step. `driver` drives them; `desk.runs` is for people.

This module knows the record and the counting; `rules` knows when to let how many go, and when to stop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast

from redrive.errors import UsageError
from redrive.jobs.job import Action, State
from redrive.stores.contract import Members, Store
from redrive.stores.note_verbs import note_named

NOTE = "run:"  # what the names of runs' notes begin with; the number follows
BOOK = "runs"  # the note with the last number and the numbers of the runs that are not over
RELEASE = "release"  # the verb of the actions that let a run's jobs go
QUIET = frozenset({"enlist", RELEASE})  # verbs that only a look at one run is about
KEPT = 200  # how many runs that are over are remembered
SAMPLES = 5  # how many of the jobs that were left out are named

Phase = Literal["freezing", "live", "paused", "done", "stopped", "cancelled"]


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
    """Those of them of which an attempt failed since they were released; they are tried again."""
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

    @property
    def untried(self) -> int:
        """How many jobs were released and have had no result of an attempt yet."""
        return self.working - self.failing


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
    """How many jobs were let go, up to the action `act`."""
    act: int = 0
    passed: bool = False
    """True if the canary succeeded."""
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
        """True if nothing more is let go or counted."""
        return self.ended is not None

    @property
    def created_at(self) -> datetime:
        """When it was asked for, as an aware datetime."""
        return datetime.fromtimestamp(self.created, UTC)


def written(run: Run) -> str:
    """Return the text of a run's note."""
    return json.dumps(asdict(run))


def read(text: str) -> Run | None:
    """Read a run's note; None for one that nobody can read."""
    try:
        value = cast("dict[str, Any]", json.loads(text))
        counts = cast("dict[str, Any] | None", value.pop("counts"))
        if counts is not None:
            counts["new"] = {int(group): jobs for group, jobs in counts["new"].items()}
        tuples: dict[str, Any] = {
            "samples": tuple((one, why) for one, why in value.pop("samples")),
            "groups": tuple(value.pop("groups")),
        }
        return Run(
            spec=Spec(**value.pop("spec")),
            counts=Counts(**counts) if counts else None,
            **tuples,
            **value,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def stored(store: Store, number: int) -> tuple[Run, int] | None:
    """Return a run and the version of its note."""
    note = note_named(store, f"{NOTE}{number}")
    run = read(note.value) if note else None
    return (run, note.version) if note and run else None


def book(store: Store) -> tuple[int, tuple[int, ...], int]:
    """Return the last number, the runs that are not over, and the version of the note."""
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
    """Return all runs that are remembered, newest first."""
    known = (read(note.value) for note in store.notes(NOTE))
    return iter(sorted((run for run in known if run), key=lambda run: -run.number))


def forget_old(store: Store) -> None:
    """Forget the oldest of the runs that are over."""
    over = [run.number for run in every(store) if run.is_over]
    for number in over[KEPT:]:
        store.note(f"{NOTE}{number}", None)


def caught_up(store: Store, run: Run) -> Run:
    """Count the actions that let jobs go since the run was written; they are the truth."""
    before: int | None = None
    newest, released = run.act, run.released
    while actions := store.actions(limit=100, before=before):
        for action in actions:
            if action.number <= run.act:
                return replace(run, act=newest, released=released)
            if action.verb == RELEASE and action.target == run.id:
                newest, released = max(newest, action.number), released + action.done
        before = actions[-1].number
    return replace(run, act=newest, released=released)


def is_about(action: Action, run: str | None) -> bool:
    """Return True if an action is about this run; without one, if it is no mere step of any."""
    if run is None:
        return action.verb not in QUIET
    return run in {action.target, action.detail.get("run")}


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


def number_of(value: int | str | Run) -> int:
    """Return the number of a run written as 12, "12" or "R12"."""
    if isinstance(value, Run):
        return value.number
    if found := re.fullmatch(r"[Rr]?([0-9]{1,9})", str(value).strip()):
        return int(found[1])
    raise UsageError(f"{str(value)[:100]!r} is not a run, such as R1 or R2: see `redrive run`")
