"""Driving runs: about once a second one worker releases the next jobs of each and checks its stop rule.

Only as many jobs are released as are due in the next seconds, so a pause, a cancel or another rate takes
effect at once. If that worker dies, the next one goes on: what was released is in the audit log, written
in the same step, and everything else is read from the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from redrive.errors import Refused
from redrive.events import Bus, Event
from redrive.jobs.job import Action, State
from redrive.jobs.logger import log
from redrive.runs import rules, run_records
from redrive.runs.run_records import Counts, Phase, Run
from redrive.stores.contract import Query, Store, every
from redrive.stores.note_verbs import Note

EVERY = 1.0  # seconds between two looks
CHUNK = 10_000  # how many jobs are tagged in one step
_TURN = "runs:turn"  # the note of the worker that drives now
_LASTS = 5.0
_GIVEN_UP = 60.0
"""Seconds without a sign after which the process that froze a run's jobs is taken for dead."""


class Driver:
    """Drives the runs of a store, while nobody else does."""

    def __init__(self, store: Store, bus: Bus, holder: str) -> None:
        self._store = store
        self._bus = bus
        self._holder = holder

    def tick(self) -> list[str]:
        """Take every run a step further; return the ids of the jobs that were let go."""
        live = run_records.book(self._store)[1]
        if not live or not self._take_turn():
            return []
        return [job_id for number in live for job_id in self._step(number)]

    def close(self, number: int) -> None:
        """End a run that was called off, unless somebody drives who will; lets nothing go."""
        if self._take_turn():
            self._open(number)
            self.leave()

    def leave(self) -> None:
        """Let another drive at once."""
        turn = self._turn()
        if turn is not None and turn.value == self._holder:
            self._store.note(_TURN, None, expected=turn.version)

    def _turn(self) -> Note | None:
        return next(iter(self._store.notes(_TURN)), None)

    def _take_turn(self) -> bool:
        last = self._turn()
        if last is not None and last.value != self._holder:
            return False
        version = 0 if last is None else last.version
        taken = self._store.note(_TURN, self._holder, expected=version, expires_in=_LASTS)
        return taken is not None

    def _open(self, number: int) -> tuple[Run, int] | None:
        """Return a run that is to be driven; one that was called off or given up is closed."""
        stored = run_records.stored(self._store, number)
        if stored is None:
            return None  # it is being made, or its maker died before it was
        run, version = stored
        if run.phase in {"live", "paused"}:
            return stored
        if run.phase != "freezing":
            close(self._store, run, version)
        elif self._store.now() - run.touched > _GIVEN_UP:
            why = "the process that started it ended before its jobs were frozen"
            self._end(run, version, "cancelled", why)
        return None

    def _step(self, number: int) -> list[str]:
        opened = self._open(number)
        if opened is None:
            return []
        now, version = self._store.now(), opened[1]
        run, counts = run_records.counted(self._store, opened[0])
        if why := rules.stops(run, counts):
            self._end(run, version, "stopped", why)
        elif not counts.waiting and not counts.working:
            self._end(run, version, "done", "")
        elif run.phase == "live":
            return self._let_go(run, counts, version, now)
        return []

    def _end(self, run: Run, version: int, phase: Phase, why: str) -> None:
        """Let nothing more go, for all to see, and then close it."""
        run = replace(run, phase=phase, why=why)
        written = save(self._store, run, version, durable=True)
        if written is not None:
            close(self._store, run, written)

    def _let_go(self, run: Run, counts: Counts, version: int, now: float) -> list[str]:
        next_run, delays = rules.due(run, counts, now)
        ids = self._store.members(-run.number, limit=len(delays)).oldest if delays else []
        done: list[str] = []
        if ids:
            action = Action(
                actor=run.by, verb=run_records.RELEASE, target=run.id, reason=run.reason
            )
            delays = delays[: len(ids)]
            moved = self._store.move(ids, "retry", action, delays=delays, run=run.number)
            done = [job.id for job in moved.done]
            released = next_run.released + len(done)
            next_run = replace(next_run, released=released, act=moved.action.number)
            for job in moved.done:
                self._bus.emit(Event("retried", job, detail=run.reason))
        if next_run != run:
            # Refused if it was paused meanwhile: then only the pace is forgotten.
            save(self._store, next_run, version)
        return done


def freeze(
    store: Store, run: Run, ids: Sequence[str], left: list[tuple[str, str]], *, since: float = 0.0
) -> Run:
    """Tag the jobs of a run and start it; each step shows that its maker is alive.

    Refused if none of them can be taken, or if it was cancelled meanwhile.
    """
    version = save(store, replace(run, touched=store.now()), 0, durable=True) or 0
    groups: set[int] = set()
    for at in range(0, len(ids), CHUNK):
        action = Action(actor=run.by, verb="enlist", target=run.id, at=since)
        moved = store.move(ids[at : at + CHUNK], "enlist", action, run=-run.number)
        left += moved.skipped
        groups.update(job.group for job in moved.done if job.group is not None)
        run = replace(
            run, total=run.total + len(moved.done), touched=store.now(), act=moved.action.number
        )
        version = save(store, run, version) or 0
        if not version:
            break
    reasons = dict(Counter(why for _, why in left))
    few = tuple(left[: run_records.SAMPLES])
    run = replace(run, groups=tuple(sorted(groups)), skipped=reasons, samples=few)
    if not run.total:
        why = f"; the first {left[0][1]}" if left else ""
        msg = f"none of the {len(left)} jobs is eligible{why}"
        close(store, replace(run, phase="cancelled", why=msg), version)
        raise Refused(msg)
    live = replace(run, phase="live", touched=0.0)
    if not version or save(store, live, version, durable=True) is None:
        untag(store, run)
        raise Refused(f"{run.id} was cancelled while its jobs were frozen")
    return live


def save(store: Store, run: Run, version: int, *, durable: bool = False) -> int | None:
    """Write a run unless somebody else did; return the version."""
    name = f"{run_records.NOTE}{run.number}"
    note = store.note(name, run_records.written(run), expected=version, durable=durable)
    return None if note is None else note.version


def close(store: Store, run: Run, version: int) -> None:
    """End a run with its results; jobs that still wait for it stay as they were.

    Only for the worker that drives, so that nothing is released meanwhile. It can be repeated.
    """
    untag(store, run)
    if not run.is_over:
        run, counts = run_records.counted(store, run)
        run = replace(run, ended=store.now(), counts=counts)
        if save(store, run, version, durable=True) is None:
            return
        _log_end(run, counts)
    if run.phase == "done":
        _resolve_groups(store, run)
    run_records.strike(store, run.number)
    run_records.forget_old(store)


def untag(store: Store, run: Run) -> None:
    """Let no job wait for a run any more."""
    action = Action(actor=run.by, verb="enlist", target=run.id, reason=run.why or run.phase)
    while ids := _waiting(store, run.number):
        store.move(ids, "enlist", action, run=0)


def _log_end(run: Run, counts: Counts) -> None:
    say = log.warning if run.phase == "stopped" else log.info
    why = f" ({run.why})" if run.why else ""
    ends = (counts.succeeded, counts.failed, counts.left)
    say("run %s is %s: %d succeeded, %d failed again, %d left%s", run.id, run.phase, *ends, why)


def _waiting(store: Store, number: int) -> list[str]:
    """Return jobs that wait for a run, running ones too."""
    waiting = store.members(-number, limit=CHUNK)
    if waiting.oldest or not waiting.states.get(State.RUNNING):
        return waiting.oldest
    running = every(store, Query(run=number, states=frozenset({State.RUNNING})))
    return [job.id for job in running if job.run == -number]


def _resolve_groups(store: Store, run: Run) -> None:
    """Mark the groups that have no dead job any more: a new one of these is a regression."""
    changes = {"resolved": run.ended, "resolved_by": run.id, "reason": run.reason}
    for number, record in store.group_records(run.groups).items():
        if record.resolved != run.ended and not store.groups(Query(group=number, limit=1)):
            detail = {"said": "resolved", "run": run.id}
            action = Action(
                actor=run.by, verb="mark", target=f"G{number}", reason="resolved", detail=detail
            )
            store.change_group(number, changes, action, expected=record.version)
