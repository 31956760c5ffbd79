"""Submit many calls at once: in chunks, each one write, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from redrive.errors import KeyConflict, RedriveError, UsageError
from redrive.jobs import ids
from redrive.jobs.job import Job
from redrive.jobs.records import BLANK, evolve
from redrive.jobs.threads import Threads, hop
from redrive.registry import Entry
from redrive.submission import Options, Submitter

_CHUNK, _CHUNK_TEXT = 1000, 4_000_000
"""The jobs of one write, and the characters of their payloads, at most."""


@dataclass(frozen=True, slots=True)
class Item:
    """One call for `Handler.submit_many`, with options of its own; `Handler.item` makes it."""

    entry: Entry
    payload: str
    options: Options


Items = Iterable[Item | Mapping[str, object]]
"""What `Handler.submit_many` takes: items, or plain mappings of names to arguments."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """The jobs of one handler, submitted with these options."""

    submitter: Submitter
    entry: Entry
    options: Options

    def submit(self, items: Items) -> list[Job]:
        """Store the items; see `Handler.submit_many`."""
        stored: list[Job] = []
        try:
            if self.options.within is None:
                self._add_chunks(self._drafts(items), stored)
            else:
                answers = self._add(list(self._drafts(items)), 0, self.options.within)
                stored += map(self.submitter.reported, answers)
        except RedriveError as error:
            error.args = (f"{error}; of the items, the first {len(stored)} are stored",)
            raise
        return stored

    async def asubmit(self, threads: Threads, items: Items) -> list[Job]:
        """Do the same from async code."""
        if self.options.within is None:
            return await hop(threads, self.submit, list(items))
        jobs = await hop(threads, list, self._drafts(list(items)))
        try:
            return await self.submitter.aadd(threads, self.entry, jobs, self.options.within)
        except KeyConflict as error:
            raise _named_item(error, jobs, 0) from error

    def _add_chunks(self, drafts: Iterator[Job], stored: list[Job]) -> None:
        """Add jobs to the store and to `stored`; while a thread writes a chunk, the next is drafted."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - slow to load

        with ThreadPoolExecutor(1, "redrive-bulk") as writer:
            chunk = _chunk(drafts)
            while chunk:
                writing = writer.submit(self._add, chunk, len(stored))
                try:
                    chunk = _chunk(drafts)
                finally:
                    stored += map(self.submitter.reported, writing.result())

    def _add(self, jobs: list[Job], first: int, within: object = None) -> list[Job]:
        """Add jobs in one write; a conflict names its item, before which `first` were stored."""
        try:
            ready = self.submitter.ready(self.entry, jobs)
            return self.submitter.store.add(ready, within=within)
        except KeyConflict as error:
            raise _named_item(error, jobs, first) from error

    def _drafts(self, items: Items) -> Iterator[Job]:
        entry, options = self.entry, self.options
        if options.key is not None or options.durable:
            msg = "`key` and `durable` are not for many: name a key with `.options(key=…).item(…)`"
            raise UsageError(msg)
        blank, chosen, limit = BLANK, None, self.submitter.settings.payload_limit
        for index, item in enumerate(items):
            try:
                if isinstance(item, Mapping):
                    payload, own = entry.arguments.dump((), {**item}, limit), options
                else:
                    payload, own = _checked_item(entry, item, options)
            except UsageError as error:
                error.args = (f"items[{index}]: {error}",)
                raise
            if own is not chosen or index % _CHUNK == 0:  # its time is that of the chunk
                blank, chosen = self.submitter.blank(entry, own), own
            yield evolve(blank, id=ids.new_id(), payload=payload)


def _checked_item(entry: Entry, item: object, options: Options) -> tuple[str, Options]:
    """Return the payload and the options of an item; UsageError if it is none of this call."""
    if not isinstance(item, Item):
        msg = (
            "an item is a mapping of names to arguments, or made by `handler.item(…)`; "
            f"found {type(item).__name__}"
        )
        raise UsageError(msg)
    if item.entry is not entry:
        raise UsageError(f"this is an item of {item.entry.name!r}, not of {entry.name!r}")
    if item.options.within is not None and item.options.within is not options.within:
        raise UsageError("give `within` to submit_many: `handler.options(within=…)`")
    return item.payload, item.options


def _chunk(drafts: Iterator[Job]) -> list[Job]:
    """Take the jobs of the next write."""
    chunk: list[Job] = []
    room = _CHUNK_TEXT
    for job in drafts:
        chunk.append(job)
        room -= len(job.payload)
        if room <= 0 or len(chunk) >= _CHUNK:
            break
    return chunk


def _named_item(error: KeyConflict, jobs: Sequence[Job], first: int) -> KeyConflict:
    index = first + next((at for at, job in enumerate(jobs) if job.id == error.job_id), 0)
    return KeyConflict(f"items[{index}]: {error}", job_id=error.job_id)
