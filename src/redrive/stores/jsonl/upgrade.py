"""Bringing a journal of version 1 up to this version: what its lines are in the new one.

Version 1 knew no records of groups, no time of death and no counts: they are made of the jobs that are
dead now, and of the notes `group:N`, which become part of the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import Job, State
from redrive.jobs.records import evolve
from redrive.stores.contract import UPGRADED
from redrive.stores.counting import KEPT, Counts, GroupCount, Tick, folded
from redrive.stores.group_codec import mark_from
from redrive.stores.index.changes import Bucket, Change, Folded, Noted, Put
from redrive.stores.jsonl.journal import Journal

_GROUP = "group:"  # how the names of notes about groups began


def changes(journal: Journal, now: float) -> Iterator[Change]:
    """Return all that the new file holds."""
    index = journal.index
    records, ticks = _deaths(journal)
    added = folded(records, ticks, now)
    yield from {**records, **added.records}.values()
    buckets: dict[tuple[int, int], dict[int, int]] = {}
    for (span, start, group), deaths in added.groups.items():
        if start + span > now - KEPT[span]:
            buckets.setdefault((span, start), {})[group] = deaths
    yield from (Bucket(*place, {}, groups) for place, groups in buckets.items())
    yield Folded(now)
    yield from index.actions
    yield from (note for note in index.notes.values() if _is_kept(note, now))
    yield from (Put(job) for job in _jobs(journal))


def _deaths(journal: Journal) -> tuple[dict[int, GroupRecord], list[Tick]]:
    """Return the groups as they were before the first death, and the deaths that are known."""
    records = {number: _record(journal, one) for number, one in journal.index.groups.items()}
    ticks: list[Tick] = []
    for job in _jobs(journal):
        record = records.get(job.group or 0)
        if record is None:
            continue
        first = job.updated if job.first_failed is None else job.first_failed
        if record.first_seen is None or first < record.first_seen:
            records[record.number] = replace(record, first_seen=first)
        if job.state is State.DEAD and job.died_at is not None:
            count = GroupCount(1, job.release, {})
            ticks.append(Tick(job.died_at, Counts({}, {record.number: count})))
    return records, ticks


def _record(journal: Journal, old: GroupRecord) -> GroupRecord:
    record = replace(old, fingerprint=None, fingerprint_v1=old.fingerprint)
    note = journal.index.notes.get(f"{_GROUP}{old.number}")
    mark = None if note is None else mark_from(note.name, note.value or "")
    return replace(record, version=1, **mark[1]) if mark else record


def _is_kept(note: Noted, now: float) -> bool:
    live = note.expires is None or note.expires > now
    return live and not mark_from(note.name, note.value or "")


def _jobs(journal: Journal) -> Iterator[Job]:
    """Return all jobs as they are in the new file, in the order of the old one."""
    places = (entry.place for entry in journal.index.entries.values())
    for place in sorted(place for place in places if isinstance(place, int)):
        put = journal.change_at(place)
        assert isinstance(put, Put)  # noqa: S101 - entries have no other places
        job = evolve(put.job, died_at=_died_at(put.job))
        if job.state is State.RUNNING:
            job = evolve(job, holder=f"{UPGRADED}{job.holder}")
        yield job


def _died_at(job: Job) -> float | None:
    """Return when a job last died, as far as version 1 says it."""
    if job.state not in {State.DEAD, State.RESOLVED}:
        return None
    if job.state is State.DEAD and job.detail != "reopened":
        return job.finished
    if job.state is State.RESOLVED and (job.resolution is None or job.resolution.was is None):
        return None
    failed = [one.started + one.duration for one in job.history if one.failure is not None]
    return failed[-1] if failed else job.finished
