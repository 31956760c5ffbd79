"""Pauses after an outage: a lane is paused before its jobs use up their attempts.

When enough different jobs of a lane fail in a row for reasons that are not their own, the lane is
paused for all workers. From time to time one job runs as a probe. If it fails for such a reason
too, it is returned and uses up no attempt; if it succeeds, the backlog is released, and the pause
ends. The state is one note in the store, changed by compare-and-set, so any worker may take the next
step and none takes it twice. Pauses by people are left alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redrive.errors import StoreError
from redrive.events import Bus, Event
from redrive.jobs.job import Category, Completed, Job, Settlement
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Failed, Interrupted, Outcome
from redrive.stores.contract import Store
from redrive.stores.note_verbs import PAUSE, Note, note_named

if TYPE_CHECKING:
    from redrive.policies.policy import Pause
    from redrive.registry import Entry, Registry

OUTAGES = frozenset({Category.TRANSIENT, Category.RATE_LIMIT, Category.QUOTA, Category.AUTH})
"""The categories that say nothing about the job itself."""
_GONE = 410


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to claim some jobs of a paused lane."""

    lane: str
    jobs: int
    note: Note
    is_probe: bool


class Pauses:
    """Pauses lanes, probes them and releases them again."""

    def __init__(self, store: Store, registry: Registry, bus: Bus) -> None:
        self._store = store
        self._registry = registry
        self._bus = bus
        self._streaks: dict[str, set[str]] = {}
        self.burst = 1.0
        """Seconds of the rate that one grant may cover, at most."""
        self.is_releasing = False
        """True if a backlog was being released at the last call of `grants`."""
        self.is_held_up = False
        """True if more of it could have been released with more room."""
        self._known: frozenset[str] = frozenset()
        """The lanes that were paused at the last call of `grants`."""

    @property
    def may_trip(self) -> bool:
        """True if the policy of any handler pauses its lane."""
        return any(entry.policy.pause for entry in self._registry)

    def excused(self, entry: Entry, job: Job, outcome: Failed) -> Outcome:
        """Return Interrupted instead of a failure by an outage for which the lane is paused already."""
        if not entry.policy.pause or outcome.failure.category not in OUTAGES:
            return outcome
        try:
            note = self._tripped(job.lane)
        except StoreError:
            return outcome  # its result must not be lost over this
        if note is None or _read(note)["mode"] != "paused":
            return outcome
        log.info("job %s failed while lane %s is paused; it is not counted", job.id, job.lane)
        return Interrupted()

    def is_no_news(self, settlement: Settlement) -> bool:
        """Return True for a success in a lane where nothing failed and nothing is paused."""
        lane = settlement.claim.job.lane
        return (
            type(settlement.verdict) is Completed
            and lane not in self._streaks
            and lane not in self._known
        )

    def seen(self, settlement: Settlement) -> None:
        """Count a stored settlement; pause or release its lane."""
        job, attempt = settlement.claim.job, settlement.attempt
        if attempt is None:
            return
        if isinstance(settlement.verdict, Completed):
            self._succeeded(job.lane)
            return
        entry = self._registry.get(job.handler)
        wanted = entry.policy.pause if entry else None
        if wanted is None:
            return
        if attempt.failure is not None and attempt.failure.category in OUTAGES:
            streak = self._streaks.setdefault(job.lane, set())
            streak.add(job.id)
            is_refused = wanted.at_once and attempt.failure.category is Category.AUTH
            if len(streak) >= (1 if is_refused else wanted.after):
                self._trip(job.lane, wanted, attempt.failure.why)
        elif attempt.failure is not None and attempt.failure.status == _GONE and wanted.at_once:
            self._close(job.lane, attempt.failure.why)

    def _close(self, lane: str, why: str) -> None:
        """Pause a lane until a person resumes it: a probe would only cost its job."""
        note = self._note(lane)
        if note is not None and not _is_ours(note):
            return
        value = {"by": "worker", "reason": f"gone permanently: {why}", "since": self._store.now()}
        expected = note.version if note else 0
        if self._store.note(PAUSE + lane, json.dumps(value), expected=expected, durable=True):
            log.warning("lane %s is paused until a person resumes it: %s", lane, value["reason"])
            self._bus.emit(Event("paused", detail=lane))

    def _trip(self, lane: str, wanted: Pause, why: str) -> None:
        jobs = len(self._streaks.pop(lane))
        note = self._note(lane)
        if note is not None and (not _is_ours(note) or _read(note)["mode"] == "paused"):
            return
        now = self._store.now()
        value = {
            "by": "worker",
            "reason": f"{jobs} jobs failed in a row: {why}" if jobs > 1 else f"a job failed: {why}",
            "since": now,
            "mode": "paused",
            "probe": wanted.probe,
            "rate": wanted.release,
            "at": now,
        }
        if self._write(lane, value, note.version if note else 0):
            self._known |= {lane}
            log.warning("lane %s is paused: %s", lane, value["reason"])
            self._bus.emit(Event("paused", detail=lane))

    def _succeeded(self, lane: str) -> None:
        """Forget the streak; release a paused lane."""
        self._streaks.pop(lane, None)
        note = self._tripped(lane) if lane in self._known else None
        if note is None or _read(note)["mode"] != "paused":
            return
        value = {**_read(note), "mode": "releasing", "at": self._store.now()}
        if self._write(lane, value, note.version):
            log.warning("lane %s works again; %g jobs a second are released", lane, value["rate"])

    def grants(self, room: int) -> Iterator[Grant]:
        """Yield permissions to claim past a pause: one job as a probe, or as many as the rate allows."""
        if room < 1 or not self.may_trip:
            return
        self.is_releasing = self.is_held_up = False
        notes = {note.name.removeprefix(PAUSE): note for note in self._store.notes(PAUSE)}
        self._known = frozenset(notes)
        for lane in notes.keys() & self._registry.served_lanes():
            if _is_ours(notes[lane]) and (grant := self._grant(lane, notes[lane], room)):
                yield grant

    def _grant(self, lane: str, note: Note, room: int) -> Grant | None:
        value, now = _read(note), self._store.now()
        passed = now - value["at"]
        if passed < -1.0:  # the clock was put back
            self._write(lane, {**value, "at": now}, note.version)
            return None
        if value["mode"] == "paused":
            jobs = 1 if passed >= value["probe"] else 0
            at = now
        else:
            rate = max(value["rate"], 0.001)
            saved = min(passed * rate, max(self.burst * rate, 1.0))
            self.is_releasing = True
            jobs = min(int(saved), room)
            self.is_held_up |= jobs == room
            at = now - (saved - jobs) / rate
        if jobs < 1:
            return None
        written = self._write(lane, {**value, "at": at}, note.version)
        return Grant(lane, jobs, written, value["mode"] == "paused") if written else None

    def used(self, grant: Grant, claimed: int) -> None:
        """Note how many jobs were claimed; end the pause of a released lane that has none due."""
        if grant.is_probe or claimed or self._has_due(grant.lane):
            return
        if self._store.note(grant.note.name, None, expected=grant.note.version) is not None:
            log.warning("lane %s is no longer paused", grant.lane)
            self._bus.emit(Event("resumed", detail=grant.lane))

    def _has_due(self, lane: str) -> bool:
        """Return True if jobs are due there, also for handlers of other workers."""
        now = self._store.now()
        return any(count.lane == lane and count.is_due(now) for count in self._store.counts())

    def _write(self, lane: str, value: dict[str, Any], expected: int) -> Note | None:
        return self._store.note(PAUSE + lane, json.dumps(value), expected=expected)

    def _note(self, lane: str) -> Note | None:
        return note_named(self._store, PAUSE + lane)

    def _tripped(self, lane: str) -> Note | None:
        note = self._note(lane)
        return note if note is not None and _is_ours(note) else None


def _is_ours(note: Note) -> bool:
    return bool(_read(note))


def _read(note: Note) -> dict[str, Any]:
    """Return the fields of our note; empty for pauses by people and for unreadable notes."""
    value = note.fields
    try:
        numbers = [float(value[name]) for name in ("at", "probe", "rate")]
        return value if "mode" in value and all(map(math.isfinite, numbers)) else {}
    except (ValueError, TypeError, KeyError):
        return {}
