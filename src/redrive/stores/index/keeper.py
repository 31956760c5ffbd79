"""The verbs about all that a store keeps beside jobs: groups, counts, events, alerts, actions, notes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from redrive.errors import JobNotFound
from redrive.jobs.clock import Clock
from redrive.jobs.groups import GroupRecord, LaneCount, Span, Variant
from redrive.jobs.job import Act, Job
from redrive.stores.counting import FOLD_EVERY, Backlog, Counts, Share
from redrive.stores.group_codec import check_changes
from redrive.stores.index import outbox
from redrive.stores.index.changes import Change, Noted, Put, Subscribed, Took
from redrive.stores.index.counts import View, view
from redrive.stores.index.draft import Draft
from redrive.stores.index.entries import Entry, Index, Lease
from redrive.stores.index.outbox import ReadChange
from redrive.stores.note_verbs import Note
from redrive.stores.outbox_verbs import OutboxEvent, SentAlert
from redrive.stores.record_codec import more_from

R = TypeVar("R")
Drafted = tuple[R, list[Change]]
"""What an operation gives back, and what must be kept before it may."""


class Keeper:
    """What an engine works with; `read` returns the change at a place, such as a whole job."""

    def __init__(self, index: Index, clock: Clock, read: ReadChange, backlog: Backlog) -> None:
        self.index = index
        self.shares: list[Share] = []
        """What the operations so far do with their counts: to be closed once they are committed."""
        self._clock = clock
        self._read = read
        self._backlog = backlog

    def close_shares(self, *, committed: bool, after: int = 0) -> None:
        """Keep the counts of operations, after the first so many, that were not written."""
        for share in self.shares[after:]:
            self._backlog.close(share, committed=committed)
        del self.shares[after:]

    def _load(self, entry: Entry) -> Job:
        put = self._read(entry.place)
        assert isinstance(put, Put)  # noqa: S101 - entries have no other places
        return put.job

    def _draft(self) -> Draft:
        return Draft(self.index, self._load, self._clock.now())

    def _count(self, draft: Draft, counts: Counts) -> None:
        """Write the counts of an operation, or leave them in the process for a while."""
        if not counts.lanes:
            return
        if self.index.ticks and not 0 <= draft.now - self.index.folded_at < FOLD_EVERY:
            draft.changes += view(self.index, (), draft.now).fold()
        share = self._backlog.share(counts, draft.now)
        self.shares.append(share)
        draft.changes += share.write

    def note(
        self,
        name: str,
        value: str | None,
        *,
        expected: int | None,
        expires_in: float | None,
    ) -> Drafted[Note | None]:
        """Write or remove a note, if its version is still the expected one."""
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

    def record(self, act: Act) -> Drafted[Act]:
        """Keep an act that moved no job."""
        draft = self._draft()
        return draft.act(act), draft.changes

    def notes(self, prefix: str) -> list[Note]:
        """Give the live notes, by name."""
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

    def acts(self, *, limit: int, before: int | None, job: str | None) -> list[Act]:
        """Give acts, newest first."""
        took = None if job is None else frozenset(self.index.actions.get(job, ()))
        found = (
            act
            for act in reversed(self.index.acts)
            if (before is None or act.number < before) and (took is None or act.number in took)
        )
        return [act for act, _ in zip(found, range(max(limit, 0)), strict=False)]

    def action_jobs(self, number: int) -> list[tuple[str, dict[str, object]]]:
        """Return the jobs that an action took, with the changed fields before it."""
        changes = [self._read(place) for _, place in self.index.took.get(number, ())]
        jobs = (job for one in changes if isinstance(one, Took) for job in one.jobs)
        return [(job_id, more_from(fields)) for job_id, fields in jobs]

    def _view(self) -> View:
        return view(self.index, self._backlog.waiting(), self._clock.now())

    def group_records(self, numbers: Collection[int] | None) -> dict[int, GroupRecord]:
        """Return the records of groups, with what is not folded."""
        seen = self._view()
        found = {
            one: seen.record(one) for one in (self.index.groups if numbers is None else numbers)
        }
        return {number: record for number, record in found.items() if record is not None}

    def variants(self, group: int) -> list[Variant]:
        """Return the variants of a group, with what is not folded."""
        return self._view().variants(group)

    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return what happened in each lane."""
        return self._view().lane_curve(span, number)

    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of groups."""
        return self._view().group_curve(span, number, groups)

    def change_group(
        self, number: int, changes: Mapping[str, object], action: Act, *, expected: int
    ) -> Drafted[GroupRecord | None]:
        """Change what people say of a group, if nobody else did meanwhile."""
        check_changes(changes)
        record = self.index.groups.get(number)
        if record is None:
            msg = f"no group G{number}"
            raise JobNotFound(msg)
        if record.version != expected:
            return None, []
        draft = self._draft()
        said: dict[str, Any] = {**changes, "version": expected + 1}
        draft.changes.append(replace(record, **said))
        draft.act(action)
        return replace(self._view().record(number) or record, **said), draft.changes

    def fold(self) -> Drafted[bool]:
        """Add all that was counted to buckets, groups and variants."""
        rest = self._backlog.rest()
        self.shares.append(rest)
        seen = view(self.index, rest.write, self._clock.now())
        return True, seen.fold()

    def write_rest(self) -> Drafted[None]:
        """Write the counts that wait in this process."""
        rest = self._backlog.rest()
        self.shares.append(rest)
        return None, [*rest.write]

    def subscribe(self, name: str, kinds: Collection[str]) -> Drafted[None]:
        """Change the kinds of a subscription; without any it goes, and its events."""
        known = name in self.index.subscriptions
        return None, [Subscribed(name, tuple(sorted(kinds)))] if kinds or known else []

    def take_events(
        self, *, holder: str, lease_for: float, limit: int
    ) -> Drafted[list[OutboxEvent]]:
        """Lease due events."""
        now, boot = self._clock.now(), self._clock.boot()
        lease = Lease(0, holder, boot[1] + lease_for, boot[0], now)
        return outbox.take(self.index, self._read, lease, limit, seconds=boot[1])

    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> Drafted[int]:
        """Remove delivered events, put others off."""
        return outbox.settle(self.index, done, later, holder=holder, now=self._clock.now())

    def claim_alert(
        self, group: int, channel: str, kind: str, *, every: float, more: Mapping[str, object]
    ) -> Drafted[bool]:
        """Take the turn to send an alert."""
        wanted = SentAlert(group, channel, kind, self._clock.now(), more)
        return outbox.claim_alert(self.index, wanted, every)

    def alerts(self, group: int | None) -> list[SentAlert]:
        """Return sent alerts, newest first."""
        found = [one for one in self.index.alerts.values() if group in {None, one.group}]
        return sorted(found, key=lambda one: one.at, reverse=True)


def _is_live(note: Noted, now: float) -> bool:
    return note.expires is None or note.expires > now
