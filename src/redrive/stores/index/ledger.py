"""All that a store knows beside its jobs: groups, counts, events, actions and notes.

Changes go in by `apply` only. The bodies of events stay where `place` says: in the journal's file or, for
memory, in the change itself.
"""

from __future__ import annotations

from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import Action
from redrive.stores.counting import Tick
from redrive.stores.index import changes as c
from redrive.stores.index.changes import Change
from redrive.stores.index.outbox import Outbox, Place


class Ledger:
    """What is known beside jobs."""

    def __init__(self) -> None:
        self.groups: dict[int, GroupRecord] = {}
        self.fingerprints: dict[str, int] = {}
        self.last_group = 0
        self.ticks: list[Tick] = []
        self.folded_at = float("-inf")
        self.buckets: dict[tuple[int, int], c.Bucket] = {}
        self.subscriptions: dict[str, frozenset[str]] = {}
        self.outbox = Outbox()
        self.last_event = 0
        self.actions: list[Action] = []
        self.notes: dict[str, c.Noted] = {}
        self.note_version = 0

    def apply(self, change: Change, place: Place) -> None:
        """Make a change part of what is known; it cannot fail."""
        match change:
            case c.Noted():
                self._apply_note(change)
            case Action():
                self.actions.append(change)
            case c.Subscribed() | c.Queued() | c.Handed() | c.Delivered():
                self._apply_event(change, place)
            case _:
                self._apply_count(change)

    def _apply_count(self, change: Change) -> None:
        match change:
            case GroupRecord():
                self._put_group(change)
            case Tick():
                self.ticks.append(change)
            case c.Folded(at):
                self.ticks, self.folded_at = [], at
            case c.Bucket(span, start, lanes, groups):
                self.buckets[span, start] = change
                if not (lanes or groups):
                    del self.buckets[span, start]
            case _:
                pass  # a job: the index knows what to do

    def _apply_note(self, note: c.Noted) -> None:
        self.note_version = max(self.note_version, note.version)
        if note.value is None:
            self.notes.pop(note.name, None)
        else:
            self.notes[note.name] = note

    def _apply_event(
        self, change: c.Subscribed | c.Queued | c.Handed | c.Delivered, place: Place
    ) -> None:
        match change:
            case c.Subscribed(name, kinds):
                self.subscriptions[name] = frozenset(kinds)
                if not kinds:
                    del self.subscriptions[name]
                    self.outbox.drop(name)
            case c.Queued():
                self.last_event = max(self.last_event, change.number)
                self.outbox.add(change, place)
            case c.Handed():
                self.outbox.hand(change)
            case c.Delivered(numbers):
                self.outbox.remove(numbers)

    def _put_group(self, record: GroupRecord) -> None:
        number = record.number
        self.groups[number] = record
        self.last_group = max(self.last_group, number)
        self.fingerprints[record.fingerprint] = number
