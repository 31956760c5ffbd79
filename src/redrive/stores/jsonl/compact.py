"""Rewriting a journal: to make it shorter, or to leave damage behind.

The new file is complete and synced before it takes the old one's name, so a crash leaves the one or
the other. Numbers go on where they were, and the new file ends in a mark. Others see that the file
at the path is another one, and read it anew.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from itertools import chain
from math import isfinite
from pathlib import Path

from redrive.errors import StoreError, StoreLost
from redrive.jobs.clock import Clock
from redrive.stores import _files
from redrive.stores._files import log
from redrive.stores.index.changes import Change, Folded, Handed, Subscribed
from redrive.stores.jsonl import lines, recovery
from redrive.stores.jsonl.journal import Journal
from redrive.stores.jsonl.lines import Header
from redrive.stores.jsonl.recovery import Damage

SMALLEST = 8 << 20  # a file below this many bytes is not worth rewriting
_GARBAGE = 0.75
_CHUNK = 1 << 20


def if_worthwhile(journal: Journal, clock: Clock) -> None:
    """Compact if most of the file is garbage; looks only when it has grown by a quarter."""
    size = journal.reading.end
    if size < SMALLEST or size < journal.look_at or journal.refusal is not None:
        return
    journal.look_at = journal.size * 5 // 4
    index = journal.index
    places = [entry.place for entry in index.entries.values()]
    places += [one.place for one in index.outbox.waiting.values()]
    needed = sum(recovery.unpacked(place)[1] for place in places if isinstance(place, int))
    if needed > journal.size * (1 - _GARBAGE):
        return
    try:
        compact(journal, clock.now())
    except StoreError as error:
        log.warning("%s could not be compacted: %s", journal.place, error)


def compact(journal: Journal, now: float) -> None:
    """Rewrite the file with what is still needed. Under the lock only."""
    if journal.refusal is not None:
        raise journal.refusal.with_traceback(None)
    before = journal.size
    _rewrite(journal, now)
    journal.look_at = 0
    log.info("%s compacted from %d to %d bytes", journal.place, before, journal.size)


def repair(journal: Journal, now: float) -> list[str]:
    """Put the damaged bytes aside and rewrite the file without them. Under the lock only."""
    damage = list(journal.reading.damage)
    if not damage:
        return []
    extra = os.fstat(journal.descriptor).st_size - journal.size
    if extra > 0:
        damage.append(Damage(journal.size, extra))
    aside = recovery.quarantine(journal.place, journal.descriptor, damage)
    _rewrite(journal, now)
    log.warning("%s repaired; the damaged bytes are in %s", journal.place, aside)
    steps = [f"{length} bytes at byte {offset} put aside" for offset, length in damage if length]
    steps += [f"lines are missing at byte {offset}" for offset, length in damage if not length]
    return [*steps, f"the bytes are in {aside}", f"{len(journal.index.entries)} jobs kept"]


def remove_leftover(place: Path) -> None:
    """Remove what a compaction left behind that was cut short. Under the lock only."""
    try:
        _temporary(place).unlink(missing_ok=True)
    except OSError as error:
        raise _files.failed(error, place) from error


def if_doubtful(journal: Journal, clock: Clock) -> None:
    """Write the file anew if a sync failed before: only that brings all of it to the disk."""
    doubts = recovery.doubts(journal.place)
    if doubts.exists() and journal.refusal is None:
        compact(journal, clock.now())
        doubts.unlink(missing_ok=True)


def _temporary(place: Path) -> Path:
    return place.with_name(place.name + ".compacting")


def _rewrite(journal: Journal, now: float) -> None:
    place = journal.place
    temporary = _temporary(place)
    try:
        remove_leftover(place)
        descriptor = _files.open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            for chunk in _chunks(_new_lines(journal, now)):
                _files.write_all(descriptor, chunk)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, place)  # noqa: PTH104 - atomic, and the one call the tests watch
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _files.failed(error, place) from error
    journal.distrust()
    try:
        _files.sync_directory(place.parent)
    except OSError as error:
        # A power cut could bring the old file back, without what would be added to the new one.
        journal.lost = StoreLost(
            f"syncing the directory of {place} failed ({error.strerror}); nothing more is written "
            "from here: check the disk, then open it again"
        )
        raise journal.lost from error
    journal.refresh(locked=True)


def _new_lines(journal: Journal, now: float) -> Iterator[bytes]:
    """Return every line of the new file, oldest first."""
    index, seq = journal.index, journal.reading.seq
    store = journal.header.store or secrets.token_hex(8)
    yield lines.header_line(Header(store, seq, index.note_version, index.last_event), now)
    for body in chain(map(lines.body_of, _changes(journal, now)), journal.job_bodies()):
        seq += 1
        yield lines.line(seq, ends=True, body=body)
    yield lines.line(seq + 1, ends=True, body=lines.mark_body(seq))


def _changes(journal: Journal, now: float) -> Iterator[Change]:
    """Return all that is needed beside jobs."""
    index = journal.index
    yield from index.groups.values()
    yield from index.buckets.values()
    if isfinite(index.folded_at):
        yield Folded(index.folded_at)
    yield from index.ticks
    yield from (
        Subscribed(name, tuple(sorted(kinds))) for name, kinds in index.subscriptions.items()
    )
    for number, one in index.outbox.waiting.items():
        yield journal.change_at(one.place)
        yield Handed((number,), one.holder, one.end, one.due, one.attempts, one.lost)
    yield from index.actions
    notes = index.notes.values()
    yield from (note for note in notes if note.expires is None or note.expires > now)


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)
