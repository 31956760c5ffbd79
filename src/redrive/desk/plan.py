"""Plans: which jobs an action would take, and taking those of them that have not changed since.

Nothing is stored in between. A plan answers with `as_of`, a mark of the moment when the jobs were looked
at. `carry_out` evaluates the same selection again as of that moment, takes the jobs that are still as they
were, and lists the others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from redrive.desk import search, shapes, waits
from redrive.desk.documents import job_document
from redrive.desk.search import USUAL, Selection, Target, read
from redrive.desk.selectors import Filters, no_job
from redrive.errors import JobNotFound, Refused, StoreReadOnly, UsageError
from redrive.jobs import checks, transitions
from redrive.jobs.clock import iso
from redrive.jobs.job import Job, State
from redrive.jobs.transitions import CHANGED, SLACK, is_changed
from redrive.payloads.masking import mask_text
from redrive.runs import run_records
from redrive.runs.run_records import Run, Spec
from redrive.stores.contract import Query

if TYPE_CHECKING:
    from redrive.desk.desk import Desk
    from redrive.stores.contract import Store

Verb = Literal["retry", "resolve", "discard", "reopen", "purge"]

LISTED = 100  # how many of the jobs that are left out are named; all are counted
AT_ONCE = 10_000  # how many jobs one write changes, and how many that changed are examined
SAMPLES = 5
MISSING = "there is no such job"
_MARK = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?):([0-9]{1,15})")
_NOW = 0.1  # seconds that a worker may need to store the end of an attempt
_PAGE = 1000

Left = list[tuple[str, str]]
"""Jobs that are left out: the id of each (empty if it is not known), and why."""


class Order(TypedDict, total=False):
    """How a plan is carried out: on what, by whom, why and, for a retry, as which run."""

    as_of: str | None
    """The plan's mark. It and `confirm` may be left out where ids name the jobs."""
    confirm: int | None
    """The plan's number of eligible jobs."""
    reason: str
    actor: str | None
    name: str
    spec: Spec | None


@dataclass(slots=True)
class Plan:
    """The jobs that an action would take, and those that it would not."""

    verb: Verb
    asked: str
    """The selection as it was typed, masked."""
    selection: Selection
    at: float
    """When the jobs were looked at."""
    ids: list[str] = field(default_factory=list[str])
    left: Left = field(default_factory=Left)
    states: Counter[State] = field(default_factory=Counter[State])
    handlers: Counter[str] = field(default_factory=Counter[str])
    lanes: set[str] = field(default_factory=set[str])
    runs: Counter[int] = field(default_factory=Counter[int])
    """How many of the jobs that are left out each live run has."""
    oldest: float | None = None
    """When the longest unchanged of the jobs changed."""
    samples: list[Job] = field(default_factory=list[Job])
    """A few of the jobs, masked."""
    waits: list[str] = field(default_factory=list[str])
    """What the jobs would wait for."""

    @property
    def as_of(self) -> str:
        """The mark for `carry_out`: when the jobs were looked at, and how many are eligible."""
        return f"{float(self.at)!r}:{len(self.ids)}"

    @property
    def matched(self) -> int:
        """How many jobs the selection means."""
        return len(self.ids) + len(self.left)

    @property
    def refusal(self) -> str:
        """Why none of the jobs can be taken."""
        if not self.matched:
            return "no jobs match; nothing was changed"
        if self.matched == 1:
            return f"{' '.join(self.left[0])}; nothing was changed"
        whys = Counter(why for _, why in self.left).most_common(3)
        many = ", ".join(f"{why} ({jobs})" for why, jobs in whys)
        return f"none of the {self.matched} jobs can be taken: {many}; nothing was changed"

    @property
    def whole_groups(self) -> list[int]:
        """Groups whose jobs are all meant, so that the group itself is marked as resolved or open."""
        narrowed = self.selection.terms or self.selection.query != Query()
        marks = self.verb in {"resolve", "reopen"} and not narrowed
        return self.selection.groups if marks else []

    def document(self) -> shapes.Plan:
        """Return what would be done, what not and why, for machines."""
        return {
            "verb": self.verb,
            "asked": self.asked,
            "as_of": self.as_of,
            "matched": self.matched,
            "eligible": len(self.ids),
            "states": {state.value: jobs for state, jobs in self.states.most_common()},
            "handlers": dict(self.handlers.most_common()),
            "oldest": iso(self.oldest),
            "waits": self.waits,
            "samples": [job_document(job) for job in self.samples],
            "ineligible": left_document(self.left),
        }


def plan(
    desk: Desk,
    verb: Verb,
    targets: Sequence[Target],
    *,
    as_of: str | None = None,
    as_run: bool = False,
) -> Plan:
    """Evaluate a selection once; nothing is changed.

    With the mark of a plan only the jobs count that have not changed since it was made. A run, and so a
    retry of more than one job, takes no job of another run. JobNotFound if none of the ids is known.
    """
    usual = USUAL[checks.choice(verb, "verb", USUAL)]
    selection = read(targets, Filters(), usual)
    asked = mask_text(selection.asked)
    at = None if as_of is None else _read_mark(as_of, desk.store.now())[0]
    looked = _look(desk.store) if at is None else at
    found, now = Plan(verb, asked, selection, looked), desk.store.now()
    live = set(run_records.book(desk.store)[1])
    as_run = verb == "retry" and (as_run or len(selection.ids) != 1)
    for job in _meant(desk.store, selection, usual, looked):
        if isinstance(job, str):
            found.left.append((job, MISSING))
        elif is_changed(job.updated, looked, now):
            if selection.ids:
                found.left.append((job.id, f"{CHANGED}, now {job.state}"))
        elif abs(job.run or 0) in live and (
            as_run or (verb == "purge" and job.state is not State.COMPLETED)
        ):
            run = abs(job.run or 0)
            found.left.append((job.id, f"is part of R{run}, which has not ended"))
            found.runs[run] += 1
        elif (why := _refusal(job, verb)) is not None:
            found.left.append((job.id, why))
        else:
            found.ids.append(job.id)
            found.states[job.state] += 1
            found.handlers[job.handler] += 1
            found.lanes.add(job.lane)
            found.oldest = job.updated if found.oldest is None else min(found.oldest, job.updated)
    if found.left and not found.ids and all(why == MISSING for _, why in found.left):
        raise JobNotFound(no_job(found.left[0][0]))
    found.samples = desk.jobs.with_history(found.ids[:SAMPLES])
    found.waits = waits.of_lanes(desk, found.lanes) if verb == "retry" and found.ids else []
    return found


def carry_out(
    desk: Desk,
    verb: Verb,
    targets: Sequence[Target],
    **order: Unpack[Order],
) -> shapes.Done:
    """Do it to the jobs of a plan that are unchanged since; a repeat finds none left and changes nothing.

    A retry of several jobs, or with a `name` or a `spec`, becomes a run.
    """
    is_run = bool(order.get("name")) or order.get("spec") is not None
    if verb != "retry" and is_run:
        raise UsageError("name, canary, rate, ramp and stop_on are only for the verb retry: a run")
    as_of, confirm = order.get("as_of"), order.get("confirm")
    planned = None if as_of is None else _read_mark(as_of, desk.store.now())[1]
    if planned is not None and confirm != planned:
        typed = "nothing" if confirm is None else confirm
        msg = f"confirm must be {planned}, the number of eligible jobs; found {typed}"
        raise Refused(f"{msg}; nothing was changed")
    if planned is None and not read(targets, Filters()).ids:
        raise UsageError("as_of is missing: make a plan first, which answers with it")
    found = plan(desk, verb, targets, as_of=as_of, as_run=is_run)
    planned = len(found.ids) if planned is None else planned
    if len(found.ids) > planned:
        msg = f"{len(found.ids)} jobs match, and {planned} were planned; make the plan again"
        raise Refused(f"{msg}; nothing was changed")
    if not planned:
        raise Refused(found.refusal)
    left = [*found.left, *_changed(desk, found, planned)]
    done, run = 0, desk.runs.get(found.runs.most_common(1)[0][0]) if found.runs else None
    if found.ids and verb == "retry" and (is_run or len(found.selection.ids) != 1):
        run = _start(desk, found, left, order)
        done = run.total if run else 0
    elif found.ids:
        run, done = None, _move(desk, found, left, order)
    return {
        "verb": verb,
        "asked": found.asked,
        "matched": done + len(left),
        "planned": planned,
        "done": done,
        "skipped": left_document(left),
        "run": run.id if run else None,
        "waits": waits.of_run(desk, run) if run else found.waits,
    }


def _start(desk: Desk, found: Plan, left: Left, order: Order) -> Run | None:
    """Start a run of the jobs; None if another request has taken all of them meanwhile."""
    before = len(left)
    try:
        return desk.runs.freeze(
            found.ids,
            left,
            order.get("spec") or Spec(),
            asked=found.asked,
            since=found.at,
            name=order.get("name", ""),
            reason=order.get("reason", ""),
            actor=order.get("actor"),
        )
    except Refused:
        if len(left) < before + len(found.ids):
            raise
        return None


def _move(desk: Desk, found: Plan, left: Left, order: Order) -> int:
    """Change the jobs at once, and mark the groups that were meant as a whole; return how many changed."""
    reason, actor = order.get("reason", ""), order.get("actor")
    asked, done = found.asked, 0
    if found.verb == "purge":
        done = desk.jobs.purge(found.ids, target=asked, since=found.at, reason=reason, actor=actor)
        left += [("", CHANGED)] * (len(found.ids) - done)
        return done
    for start in range(0, len(found.ids), AT_ONCE):
        ids = found.ids[start : start + AT_ONCE]
        moved = desk.jobs.move(
            found.verb, ids, asked=asked, since=found.at, reason=reason, actor=actor
        )
        left += moved.skipped
        done += len(moved.done)
    for group in found.whole_groups if done else ():
        resolved = found.verb == "resolve"
        desk.groups.mark(group, resolved=resolved, reason=reason, actor=actor, at=found.at)
    return done


def left_document(left: Left) -> shapes.LeftOut:
    """Count the jobs that are left out by reason, and list some."""
    return {
        "total": len(left),
        "reasons": dict(Counter(why for _, why in left).most_common()),
        "samples": [shapes.Left(id=job_id, why=why) for job_id, why in left if job_id][:LISTED],
    }


def _look(store: Store) -> float:
    """Return the time before a look at the jobs: who changes one after the look has a later time.

    The clock is read first. Then a write that changes nothing waits until every writer before it has
    committed; those after it read their time under the same lock, later than this one. On PostgreSQL,
    where writers do not wait for each other, one that is open during the look may have an older time.
    """
    now = store.now()
    if not store.is_server:
        with suppress(StoreReadOnly):  # nothing can be carried out either
            store.note("plan", None)
    return now


def _read_mark(as_of: str, now: float) -> tuple[float, int]:
    """Return when a plan was made, and how many jobs were eligible."""
    match = _MARK.fullmatch(checks.text(as_of, "as_of"))
    if match is None:
        raise UsageError(f"as_of must be the mark that a plan answered with; found {as_of!r:.80}")
    if float(match[1]) > now + SLACK:
        raise Refused("the clock was set back since the plan was made; make the plan again")
    return float(match[1]), int(match[2])


def _meant(
    store: Store, selection: Selection, usual: Sequence[State], at: float
) -> Iterator[Job | str]:
    """Yield the jobs of a selection whose ages are reckoned from a time that is past."""
    query, passed = selection.query, store.now() - at
    older, newer = -inf, inf
    if query.older_than is not None:
        older = query.older_than
        query = replace(query, older_than=max(0.0, older + passed - SLACK))
    if query.newer_than is not None:
        newer = query.newer_than
        query = replace(query, newer_than=newer + passed + SLACK)
    for job in search.meant(store, replace(selection, query=query), usual):
        if isinstance(job, str) or older <= at - job.updated <= newer:
            yield job


def _refusal(job: Job, verb: Verb) -> str | None:
    """Return why an action cannot change a job; None if it can."""
    if verb == "purge":
        return None if job.is_terminal else f"is {job.state}; only finished jobs can be purged"
    try:
        transitions.action_changes(job, verb, actor="", reason="", now=job.updated)
    except Refused as refused:
        return str(refused)
    return None


def _changed(desk: Desk, found: Plan, planned: int) -> Left:
    """Return what became of the planned jobs that are not among those found now.

    Those that are still found by the selection, whatever their state is now, are named.
    """
    runs = {number: run_records.stored(desk.store, number) for number in found.runs}
    since_then = [number for number, run in runs.items() if run and run[0].created > found.at]
    missing = planned - len(found.ids) - sum(found.runs[number] for number in since_then)
    if missing <= 0 or found.selection.ids:
        return []
    query = found.selection.usual(USUAL[found.verb]).query
    states, passed = query.states, desk.store.now() - found.at
    query = replace(query, states=frozenset(), newer_than=passed + SLACK, older_than=None)
    known = {*found.ids, *(job_id for job_id, _ in found.left)}
    since = search.each(desk.store, replace(found.selection, query=query))
    ids = [job.id for job in islice(since, AT_ONCE) if job.updated >= found.at]
    changed = [
        (job.id, f"{CHANGED}, now {job.state}")
        for start in range(0, len(ids), _PAGE)
        for job in desk.jobs.with_history(ids[start : start + _PAGE])
        if job.id not in known and _was_in(job, states, found.at)
    ][:missing]
    return [*changed, *[("", CHANGED)] * (missing - len(changed))]


def _was_in(job: Job, states: frozenset[State], at: float) -> bool:
    """Return True if a job that changed after a time may have been in one of these states then."""
    ended = [attempt.started + attempt.duration - _NOW for attempt in job.history]
    before = sum(end <= at for end in ended)
    after = job.history[before:]
    if job.created > at or (after and after[0].started <= at):  # new, or running then
        return job.created <= at and State.RUNNING in states
    if not (after or job.state is State.RUNNING):
        return True  # a person changed it
    life = after[0].life if after else job.redrives
    was_closed = life > (job.history[before - 1].life if before else 0)
    return bool(states & ({State.DEAD, State.RESOLVED} if was_closed else {State.PENDING}))
