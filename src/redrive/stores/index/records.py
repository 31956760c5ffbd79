"""The verbs about all that a store keeps beside jobs: groups, counts, events, actions, notes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, cast

from redrive.jobs.groups import GroupRecord, LaneCount, Span
from redrive.jobs.job import Action
from redrive.jobs.reports import EventKind
from redrive.stores.group_codec import check_changes
from redrive.stores.index.base import Drafted, IndexStore, reads, writes
from redrive.stores.index.changes import Change, Delivered, Handed, Noted, Queued, Subscribed
from redrive.stores.index.counts import view
from redrive.stores.note_verbs import PAUSE, Note
from redrive.stores.outbox_verbs import (
    OutboxEvent,
    WaitingEvents,
)
from redrive.stores.refusals import no_group


class RecordStore(IndexStore):
    """Evaluates every verb but those about jobs; see the contract for what each promises."""

    def note(
        self,
        name: str,
        value: str | None,
        *,
        expected: int | None = None,
        expires_in: float | None = None,
        durable: bool = False,
    ) -> Note | None:
        """Write or remove a note, if its version is still the expected one."""
        written = self._write(
            lambda: self._note(name, value, expected, expires_in), durable=durable
        )
        if value is None and name.startswith(PAUSE):
            self._hint()
        return written

    def _note(
        self, name: str, value: str | None, expected: int | None, expires_in: float | None
    ) -> Drafted[Note | None]:
        now = self._clock.now()
        stored = self.index.notes.get(name)
        live = stored is not None and _is_live(stored, now)
        if expected is not None and expected != (stored.version if stored and live else 0):
            return None, []
        version = self.index.note_version + 1
        if value is None:
            changes: list[Change] = [Noted(name, None, version, None)] if stored else []
            return Note(name, "", 0), changes
        expires = None if expires_in is None else now + expires_in
        return Note(name, value, version, expires_in), [Noted(name, value, version, expires)]

    @reads
    def notes(self, prefix: str = "") -> list[Note]:
        """Return the live notes, by name."""
        now = self._clock.now()
        return [
            Note(
                note.name,
                note.value or "",
                note.version,
                None if note.expires is None else note.expires - now,
            )
            for note in sorted(self._live_notes(prefix))
        ]

    def _live_notes(self, prefix: str) -> Iterator[Noted]:
        now = self._clock.now()
        for name, note in self.index.notes.items():
            if name.startswith(prefix) and _is_live(note, now):
                yield note

    @writes(durable=True)
    def record(self, action: Action) -> Drafted[Action]:
        """Record an action that moved no job."""
        draft = self._draft()
        return draft.action(action), draft.changes

    @reads
    def actions(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        numbers: Collection[int] | None = None,
    ) -> list[Action]:
        """Return actions, newest first."""
        found = (
            action
            for action in reversed(self.index.actions)
            if (before is None or action.number < before)
            and (numbers is None or action.number in numbers)
        )
        return list(islice(found, max(limit, 0)))

    @reads
    def group_records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """Return the records of groups, with what is not folded."""
        seen = self._view()
        found = {
            one: seen.record(one) for one in (self.index.groups if numbers is None else numbers)
        }
        return {number: record for number, record in found.items() if record is not None}

    @reads
    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return what happened in each lane."""
        return self._view().lane_curve(span, number)

    @reads
    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of groups."""
        return self._view().group_curve(span, number, groups)

    @writes(durable=True)
    def change_group(
        self, number: int, changes: Mapping[str, object], action: Action, *, expected: int
    ) -> Drafted[GroupRecord | None]:
        """Change what people say of a group, if nobody else did meanwhile."""
        check_changes(changes)
        record = self.index.groups.get(number)
        if record is None:
            raise no_group(number)
        if record.version != expected:
            return None, []
        draft = self._draft()
        fields: dict[str, Any] = {**changes, "version": expected + 1}
        draft.changes.append(replace(record, **fields))
        draft.action(action)
        return replace(self._view().record(number) or record, **fields), draft.changes

    @writes(durable=False)
    def fold(self) -> Drafted[bool]:
        """Add all that was counted to buckets and groups."""
        rest = self._backlog.rest()
        self._shares.append(rest)
        return True, view(self.index, rest.write, self._clock.now()).fold()

    @writes(durable=True)
    def subscribe(self, name: str, kinds: Collection[EventKind]) -> Drafted[None]:
        """Change the kinds of a subscription; without any it goes, and its events."""
        known = name in self.index.subscriptions
        return None, [Subscribed(name, tuple(sorted(kinds)))] if kinds or known else []

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription and its events."""
        self.subscribe(name, ())

    @reads
    def subscriptions(self) -> dict[str, frozenset[EventKind]]:
        """Return the kinds of each subscription by name."""
        return cast("dict[str, frozenset[EventKind]]", dict(self.index.subscriptions))

    @writes(durable=False)
    def take_events(
        self, *, subscriptions: Collection[str], holder: str, lease_for: float, limit: int
    ) -> Drafted[list[OutboxEvent]]:
        """Lease due events."""
        now = self._clock.now()
        numbers = self.index.outbox.free(limit, of=subscriptions, now=now)
        events = [self._event(number) for number in numbers]
        leased = partial(Handed, holder=holder, end=now + lease_for)
        changes: list[Change] = [
            leased((event.number,), lost=event.lost) for event in events if event.lost
        ]
        if whole := tuple(event.number for event in events if not event.lost):
            changes.append(leased(whole))
        return events, changes

    @writes(durable=False)
    def renew_events(
        self, numbers: Sequence[int], *, holder: str, lease_for: float
    ) -> Drafted[int]:
        """Renew the leases that this holder still has."""
        waiting, now = self.index.outbox.waiting, self._clock.now()
        held = tuple(
            number for number in numbers if number in waiting and waiting[number].holder == holder
        )
        return len(held), [Handed(held, holder, now + lease_for)] if held else []

    @reads
    def waiting_events(self) -> dict[str, WaitingEvents]:
        """Return how many events wait for each subscription that has some."""
        return self.index.outbox.counted()

    def _event(self, number: int) -> OutboxEvent:
        one = self.index.outbox.waiting[number]
        lost = one.lost + (one.holder is not None)
        event = self._change_at(one.place)
        assert isinstance(event, Queued)  # noqa: S101 - only these are put there
        kind = cast("EventKind", event.kind)
        return OutboxEvent(
            number, event.subscription, event.job, kind, event.at, one.attempts, lost, event.body
        )

    @writes(durable=False)
    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> Drafted[int]:
        """Remove delivered events, put others off."""
        waiting, now = self.index.outbox.waiting, self._clock.now()
        delays: dict[int, float | None] = {**dict(later), **dict.fromkeys(done)}
        held = {
            number: delay
            for number, delay in delays.items()
            if number in waiting and waiting[number].holder == holder
        }
        gone = tuple(number for number, delay in held.items() if delay is None)
        changes: list[Change] = [Delivered(gone)] if gone else []
        for number, delay in held.items():
            if delay is not None:
                attempts = waiting[number].attempts + 1
                changes.append(Handed((number,), due=now + delay, attempts=attempts))
        return len(held), changes


def _is_live(note: Noted, now: float) -> bool:
    return note.expires is None or note.expires > now
