"""All that a store knows beside its jobs: groups, counts, events, alerts, actions and notes.

Changes go in by `apply` only. The bodies of events and what actions changed stay where `place` says: in
the journal's file or, for memory, in the change itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from redrive.jobs.groups import GroupRecord, Variant
from redrive.jobs.job import Act
from redrive.stores.counting import Tick
from redrive.stores.index.changes import (
    Bucket,
    Change,
    Delivered,
    Folded,
    Forgotten,
    Handed,
    Noted,
    Queued,
    Subscribed,
    Took,
    Varied,
)
from redrive.stores.outbox_verbs import SentAlert

Place = Change | int
"""A change, or where the journal has its line: offset and length in one number."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event in the outbox, without its body."""

    subscription: str
    job: str
    due: float
    attempts: int
    place: Place
    holder: str | None = None
    end: float | None = None
    boot: str | None = None


class Ledger:
    """What is known beside jobs."""

    def __init__(self) -> None:
        self.groups: dict[int, GroupRecord] = {}
        self.fingerprints: dict[str, int] = {}
        self.old_fingerprints: dict[str, int] = {}
        """Of the groups without a fingerprint of the present rules."""
        self.last_group = 0
        self.variants: dict[int, dict[int, Variant]] = {}
        self.texts: dict[tuple[int, str], int] = {}
        self.ticks: list[Tick] = []
        self.folded_at = float("-inf")
        self.buckets: dict[tuple[int, int], Bucket] = {}
        self.subscriptions: dict[str, frozenset[str]] = {}
        self.outbox: dict[int, Waiting] = {}
        self.last_event = 0
        self.alerts: dict[tuple[int, str, str], SentAlert] = {}
        self.acts: list[Act] = []
        self.took: dict[int, list[tuple[tuple[str, ...], Place]]] = {}
        self.actions: dict[str, list[int]] = {}
        """The numbers of the actions that took a job, by its id."""
        self.notes: dict[str, Noted] = {}
        self.note_version = 0

    def apply(self, change: Change, place: Place) -> None:
        """Make a change part of what is known; it cannot fail."""
        match change:
            case Noted():
                self._apply_note(change)
            case Act() | Took() | SentAlert() | Forgotten():
                self._apply_action(change, place)
            case Subscribed() | Queued() | Handed() | Delivered():
                self._apply_event(change, place)
            case _:
                self._apply_count(change)

    def _apply_count(self, change: Change) -> None:
        match change:
            case GroupRecord():
                self._put_group(change)
            case Varied(group, number, text, deaths, last_seen):
                known = self.variants.setdefault(group, {})
                known[number] = Variant(number, text, deaths, last_seen)
                if number:
                    self.texts[group, text] = number
            case Tick():
                self.ticks.append(change)
            case Folded(at):
                self.ticks, self.folded_at = [], at
            case Bucket(span, start, lanes, groups):
                self.buckets[span, start] = change
                if not (lanes or groups):
                    del self.buckets[span, start]
            case _:
                pass  # a job: the index knows what to do

    def _apply_action(self, change: Act | Took | SentAlert | Forgotten, place: Place) -> None:
        match change:
            case Act():
                self.acts.append(change)
            case Took(action, jobs):
                ids = tuple(one for one, _ in jobs)
                self.took.setdefault(action, []).append((ids, place))
                for one in ids:
                    self.actions.setdefault(one, []).append(action)
            case SentAlert(group, channel, kind):
                self.alerts[group, channel, kind] = change
            case Forgotten():
                self._forget(change)

    def _apply_note(self, note: Noted) -> None:
        self.note_version = max(self.note_version, note.version)
        if note.value is None:
            self.notes.pop(note.name, None)
        else:
            self.notes[note.name] = note

    def _apply_event(self, change: Subscribed | Queued | Handed | Delivered, place: Place) -> None:
        match change:
            case Subscribed(name, kinds):
                self.subscriptions[name] = frozenset(kinds)
                if not kinds:
                    del self.subscriptions[name]
                    waiting = self.outbox.items()
                    self.outbox = {n: one for n, one in waiting if one.subscription != name}
            case Queued(number, subscription, job, _, at):
                self.last_event = max(self.last_event, number)
                self.outbox[number] = Waiting(subscription, job, at, 0, place)
            case Handed():
                for number in change.numbers:
                    if number in self.outbox:
                        self.outbox[number] = _handed(self.outbox[number], change)
            case Delivered(numbers):
                for number in numbers:
                    self.outbox.pop(number, None)

    def _put_group(self, record: GroupRecord) -> None:
        number = record.number
        self.groups[number] = record
        self.last_group = max(self.last_group, number)
        if record.fingerprint is not None:
            self.fingerprints[record.fingerprint] = number
            self.old_fingerprints.pop(record.fingerprint_v1 or "", None)
        elif record.fingerprint_v1 is not None:
            self.old_fingerprints[record.fingerprint_v1] = number

    def _forget(self, change: Forgotten) -> None:
        alerts = self.alerts.items()
        self.alerts = {key: one for key, one in alerts if one.at >= change.alerts}
        for action in [number for number in self.took if number <= change.actions]:
            for ids, _ in self.took.pop(action):
                for one in ids:
                    self.actions[one].remove(action)
                    if not self.actions[one]:
                        del self.actions[one]


def _handed(one: Waiting, to: Handed) -> Waiting:
    due = one.due if to.due is None else to.due
    attempts = one.attempts if to.attempts is None else to.attempts
    return replace(one, holder=to.holder, end=to.end, boot=to.boot, due=due, attempts=attempts)
