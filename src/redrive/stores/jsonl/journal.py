"""The journal's file: opening it, keeping up with others, adding lines, and never lying about it.

Only one thread uses a journal at a time; among processes the lock decides. Every write goes like
this, under the lock: look whether the file is still ours, read what others added, draft, write all
lines at once, sync if asked, mark. What fails on the way is cut off again. A failed sync is never
tried twice, because the system may have dropped the bytes and call the next one a success: the
journal then refuses to write until it is opened anew and read from the disk.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from redrive.errors import (
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreLost,
    StoreMissing,
    StoreReadOnly,
)
from redrive.jobs.clock import Clock
from redrive.stores import _files
from redrive.stores.index.changes import Change, Put
from redrive.stores.index.entries import Index
from redrive.stores.index.outbox import Place
from redrive.stores.jsonl import lines, recovery
from redrive.stores.jsonl.lines import Header
from redrive.stores.jsonl.recovery import Damage, Reading
from redrive.stores.jsonl.warm import WarmJobs
from redrive.stores.refusals import check_version, importer_of

_BOM = b"\xef\xbb\xbf"
SYNC_EVERY = 1.0
"""Seconds after which bytes that nobody asked to sync are synced with the next write."""


class Journal:
    """One file of lines, what is in it, and the lines that are about to be."""

    def __init__(self, place: Path, clock: Clock, *, read_only: bool) -> None:
        self.place = place
        self._path = str(place)
        self.read_only = read_only
        self.index = Index()
        self.header = Header("", 0, 0)
        self.reading = Reading(0, 0, 0)
        self.descriptor = -1
        self.refusal: StoreError | None = None
        """Why nothing may be written."""
        self.lost: StoreLost | None = None
        """Why nothing may be read either."""
        self._broken: StoreLost | None = None
        self._clock = clock
        self._identity = (0, 0)
        self._seen = ("", 0)
        self._stale = True
        self._synced_at = time.monotonic()
        self._unwritten: dict[int, bytes] = {}
        self._ahead = 0
        self._warm = WarmJobs()
        self.look_at = 0
        """How long the file must be before compacting is considered again."""

    @property
    def size(self) -> int:
        """How long the file is, as far as we know."""
        return self.reading.end

    @property
    def needs_sync(self) -> bool:
        """True if the file has bytes that are not known to be on the disk."""
        ours = not (self.read_only or self._stale or self.refusal or self.lost)
        return ours and self.reading.synced < self.reading.seq

    def create(self) -> None:
        """Make the file with its first line, unless it has one. Under the lock only."""
        descriptor = _files.open_private(self.place, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(descriptor).st_size
            if size and not recovery.is_stillborn(self.place, descriptor, size):
                return
            header = Header(secrets.token_hex(8), 0, 0)
            _files.write_all(descriptor, lines.header_line(header, self._clock.now()))
            os.fsync(descriptor)
            _files.sync_directory(self.place.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
            raise _files.failed(error, self.place) from error
        finally:
            os.close(descriptor)

    def refresh(self, *, locked: bool) -> None:
        """Take in what others did to the file; who holds the lock may also mend its tail."""
        if self.lost is not None:
            raise self.lost.with_traceback(None)
        try:
            length = None if self._stale else self._length()
            if length == self.reading.end:
                return
            if length is not None:
                self._read_on()
                if self.reading.damage and not locked and self.refusal is None:
                    # Seen while another was writing: only a second look can tell.
                    length = None
            if length is None:
                self._load()
                if locked:
                    # Who made or renamed the file may have died before its name was on the disk.
                    _files.sync_directory(self.place.parent)
            self._arrive()
            if locked:
                self._mend()
        except OSError as error:
            self._stale = True
            raise _files.failed(error, self.place) from error

    def _length(self) -> int | None:
        """Return the length of the file at the path; None unless it is still the one we read."""
        try:
            found = os.lstat(self._path)
        except FileNotFoundError:
            return None
        size = found.st_size
        if (found.st_dev, found.st_ino) != self._identity or size < self.reading.end:
            return None
        if not _files.is_still(self.descriptor, self._identity):
            return None
        offset, start = self.reading.last
        same = start and os.pread(self.descriptor, len(start), offset) == start
        return size if same else None

    def _read_on(self) -> None:
        recovery.read_on(self.descriptor, self.reading, recovery.into(self.index, self.place))

    def _arrive(self) -> None:
        """Having read all there is: judge it, and remember what must never be missing again."""
        self._judge()
        self._ahead = self.reading.seq
        self._seen = (self.header.store, self.reading.synced)

    def _load(self) -> None:
        """Read the file from its first byte."""
        store, synced = self._seen
        self.close()
        flags = os.O_RDONLY if self.read_only else os.O_RDWR | os.O_APPEND
        try:
            self.descriptor = _files.open_private(self.place, flags)
        except StoreLost as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise self._gone() from None
        self._identity = _files.identity_of(self.descriptor)
        self.index = Index()
        self._unwritten, self._warm = {}, WarmJobs()
        self._read_first_line()
        self._read_on()
        self.index.note_version = max(self.index.note_version, self.header.notes)
        self.index.last_event = max(self.index.last_event, self.header.events)
        if store and (store != self.header.store or self.reading.seq < synced):
            raise self._forget("was replaced or cut short while it was open")
        self._stale = False

    def _gone(self) -> StoreError:
        if self._seen[0]:
            return self._forget("was deleted while it was open")
        return StoreMissing(f"no store at {self.place}; `redrive init` creates one")

    def _forget(self, what: str) -> StoreLost:
        self.lost = StoreLost(
            f"{self.place} {what}; nothing more is written to it from here: "
            "check the file, then open it again"
        )
        return self.lost

    def _read_first_line(self) -> None:
        raw = os.pread(self.descriptor, recovery.HEADER, 0)
        first = raw[: raw.find(b"\n") + 1] or raw
        bare = recovery.plain(first.removeprefix(_BOM))
        version = lines.version_of(bare)
        if version is not None:
            check_version(f"jsonl:{self.place}", version, lines.VERSION)
        header = lines.read_header(bare)
        edited = bare != first
        self.refusal = self._broken
        if header is not None:
            self.header = header
            self.reading = Reading(len(first), header.seq, header.seq, (0, first[:80]), crlf=edited)
        else:
            self._without_header(first, raw)
        if edited:
            self._refuse_edited()

    def _without_header(self, first: bytes, raw: bytes) -> None:
        following = raw[len(first) :]
        line = lines.parse(following[: following.find(b"\n") + 1])
        if line is not None:
            self.header = Header("", line.seq - 1, 0)
            self.reading = Reading(len(first), line.seq - 1, line.seq - 1, (0, first[:80]))
            self.reading.damage.append(Damage(0, len(first)))
        elif raw.strip(b"\0"):
            place, old = (
                quote(str(path))
                for path in (self.place, self.place.with_name(f"old-{self.place.name}"))
            )
            raise StoreForeign(
                f"{self.place} is not a Redrive journal: Redrive did not write its first line; name "
                f"another file. Nothing was changed. To import it: mv {place} {old} && redrive import "
                f"{old} --store jsonl:{place} --with {importer_of(os.pread(self.descriptor, 4096, 0))}"
            )
        else:
            self.header = Header("", 0, 0)
            self.reading = Reading(0, 0, 0)

    def _refuse_edited(self) -> None:
        self.refusal = StoreReadOnly(
            f"{self.place} was changed by an editor (byte order mark or CRLF line ends); it can be "
            "read but not written: remove them, for example with dos2unix"
        )
        _files.log.warning("%s", self.refusal)

    def _judge(self) -> None:
        """Refuse to write to a damaged file."""
        if self.reading.damage and not isinstance(self.refusal, StoreDamaged):
            offset = self.reading.damage[0].offset
            self.refusal = StoreDamaged(
                f"{self.place} is damaged at byte {offset}; it can be read but not written: "
                "check it with `redrive verify`, repair it with `redrive verify --repair`",
                offset=offset,
            )
            _files.log.error("%s", self.refusal)

    def _mend(self) -> None:
        """Put a torn tail aside and cut it off."""
        extra = os.fstat(self.descriptor).st_size - self.size
        if extra <= 0 or self.refusal is not None:
            return
        aside = recovery.quarantine(self.place, self.descriptor, [Damage(self.size, extra)])
        os.ftruncate(self.descriptor, self.size)
        os.fsync(self.descriptor)
        _files.log.warning(
            "%s ended in %d bytes of an unfinished write; they are in %s now",
            self.place,
            extra,
            aside,
        )

    def change_at(self, place: Place) -> Change:
        """Read a whole line, such as a job, and check that it is what was written."""
        assert isinstance(place, int)  # noqa: S101 - a journal puts nothing else there
        job = self._warm.get(place)
        if job is not None:
            return Put(job)
        offset, length = recovery.unpacked(place)
        raw = self._unwritten.get(offset)
        if raw is None:
            raw = self._bytes_at(offset, length)
        line = lines.parse(raw)
        if line is None:
            raise self._damaged(offset)
        try:
            return lines.change_at(raw, line)
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise self._damaged(offset) from error

    def _damaged(self, offset: int) -> StoreDamaged:
        self._stale = True
        msg = f"{self.place} is damaged at byte {offset}; check it with `redrive verify`"
        return StoreDamaged(msg, offset=offset)

    def _bytes_at(self, offset: int, length: int) -> bytes:
        try:
            raw = os.pread(self.descriptor, length, offset)
        except OSError as error:
            raise _files.failed(error, self.place) from error
        return recovery.plain(raw) if self.reading.crlf else raw

    def job_bodies(self) -> Iterator[bytes]:
        """Return the body of every job's line, in the order of the file."""
        places = (entry.place for entry in self.index.entries.values())
        for place in sorted(place for place in places if isinstance(place, int)):
            offset, length = recovery.unpacked(place)
            raw = self._bytes_at(offset, length)
            line = lines.parse(raw)
            if line is None:
                raise self._damaged(offset)
            yield raw[line.body - len('"job":') : -2]

    def draft(self, changes: Sequence[Change]) -> None:
        """Turn one operation's changes into lines and know them; raises before it does either."""
        if not changes:
            return
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)
        bodies = [lines.body_of(change) for change in changes]
        last = len(changes) - 1
        offset = self.reading.end + sum(map(len, self._unwritten.values()))
        for at, (change, body) in enumerate(zip(changes, bodies, strict=True)):
            self._ahead += 1
            raw = lines.line(self._ahead, ends=at == last, body=body)
            self._unwritten[offset] = raw
            place = recovery.packed(offset, len(raw))
            self.index.apply(change, place)
            if isinstance(change, Put):
                self._warm.keep(change.job, place, len(raw))
            offset += len(raw)

    def flush(self, *, durable: bool) -> None:
        """Write what was drafted; synced if asked.

        If it fails, all of it never happened, and what is in memory must be distrusted.
        """
        if self.refusal is not None:
            return
        reading = self.reading
        before = reading.end
        if self._unwritten:
            self._write()
        late = time.monotonic() - self._synced_at > SYNC_EVERY
        if (durable or late) and reading.synced < reading.seq:
            self._sync(before)
            self._mark()

    def _write(self) -> None:
        offset, last = next(reversed(self._unwritten.items()))
        data = last if len(self._unwritten) == 1 else b"".join(self._unwritten.values())
        try:
            _files.write_all(self.descriptor, data)
        except OSError as error:
            self._cut(self.size)
            raise _files.failed(error, self.place) from error
        self._unwritten.clear()
        reading = self.reading
        reading.end += len(data)
        reading.seq = self._ahead
        reading.last = (offset, last[:40])

    def _sync(self, before: int) -> None:
        try:
            _files.sync_data(self.descriptor)
        except OSError as error:
            self._cut(before)
            with contextlib.suppress(OSError):
                recovery.doubts(self.place).touch(0o600)
            self._broken = self.refusal = StoreLost(
                f"syncing {self.place} failed ({error.strerror}); what was being written is not "
                "kept, and nothing more is written from here: check the disk, then open it again"
            )
            raise self._broken from error
        self.reading.synced = self.reading.seq
        self._seen = (self.header.store, self.reading.synced)
        self._synced_at = time.monotonic()

    def _mark(self) -> None:
        """Write in the file what is synced. No caller relies on this line, so it may fail."""
        raw = lines.line(self._ahead + 1, ends=True, body=lines.mark_body(self.reading.seq))
        try:
            _files.write_all(self.descriptor, raw)
        except OSError:
            self._cut(self.size)
            return
        self._ahead += 1
        reading = self.reading
        reading.last = (reading.end, raw[:40])
        reading.end += len(raw)
        reading.seq = reading.synced = self._ahead

    def _cut(self, length: int) -> None:
        """Take back what was written in vain. If that fails too, the next reading mends it."""
        with contextlib.suppress(OSError):
            os.ftruncate(self.descriptor, length)

    def distrust(self) -> None:
        """Forget what is in memory; the next look reads the disk."""
        self._stale = True

    def close(self) -> None:
        """Let go of the file."""
        if _files.is_still(self.descriptor, self._identity):
            os.close(self.descriptor)
        self.descriptor = -1
        self._stale = True
