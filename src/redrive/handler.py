"""A registered function: call it as before, submit it, or run it now and store it if it fails."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, cast

from redrive.attempts.executions import Execution, awaited, finished
from redrive.errors import Kept, KeyConflict, RedriveError, UsageError
from redrive.jobs import checks, durations, ids
from redrive.jobs.durations import Duration
from redrive.jobs.job import Job, State
from redrive.jobs.outcomes import Failed, Returned
from redrive.jobs.records import BLANK, evolve
from redrive.jobs.threads import Threads, hop
from redrive.registry import Entry, check_key, check_tags, warn_unlimited
from redrive.submission import Options, Submitter

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

_CHUNK, _CHUNK_TEXT = 1000, 4_000_000
"""The jobs of one write, and the characters of their payloads, at most."""


class Choices(TypedDict, total=False):
    """The options of a submit by name, as they are given; see `Handler.options`."""

    delay: Duration
    key: str | None
    tags: Iterable[str]
    attempts: int | None
    within: object


def choose(
    *,
    delay: Duration = 0.0,
    key: str | None = None,
    tags: Iterable[str] = (),
    attempts: int | None = None,
    within: object = None,
    durable: bool = False,
) -> Options:
    """Return options as they are used; UsageError for a wrong one."""
    if attempts is not None:
        checks.whole(attempts, "attempts", least=1)
    return Options(
        delay=durations.seconds(delay, name="delay"),
        key=check_key(key),
        tags=check_tags(tags),
        attempts=attempts,
        within=within,
        durable=durable,
    )


@dataclass(frozen=True, slots=True)
class Item:
    """One call for `Handler.submit_many`, with options of its own; `Handler.item` makes it."""

    entry: Entry
    payload: str
    options: Options


Items = Iterable[Item | Mapping[str, object]]
"""What `Handler.submit_many` takes: items, or plain mappings of names to arguments."""


@dataclass(frozen=True, slots=True)
class Tried(Generic[R_co]):
    """The result of `try_now`: a value, or the stored job."""

    done: bool
    job: Job | None = None
    _value: R_co | None = field(default=None, repr=False)

    @property
    def value(self) -> R_co:
        """The handler's result; raise Kept if it did not run here, or failed and was stored."""
        job = self.job
        if job is None or (self.done and job.is_new):
            return cast("R_co", self._value)
        if self.done:
            msg = f"job {job.id} already ran under the same key; results are not stored"
        else:
            why = job.failure.message if job.failure else job.detail
            why = f": {why}" if why else ""
            msg = f"{job.handler} has no value; it is stored as job {job.id} ({job.state}){why}"
        raise Kept(msg, job=job)


@dataclass(frozen=True, slots=True)
class Handler(Generic[P, R_co]):
    """Your function, registered: call it plainly, `.submit` it, or `.try_now`."""

    entry: Entry
    submitter: Submitter
    threads: Threads
    chosen: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        """The name that is stored with its jobs."""
        return self.entry.name

    def __repr__(self) -> str:
        return f"Handler({self.name!r})"  # options may hold a key of the user's

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        """The function itself, for tools that unwrap decorators."""
        return cast("Callable[P, R_co]", self.entry.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function as if it had not been registered; nothing is stored."""
        return cast("R_co", self.entry.function(*args, **kwargs))

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Store the call for a worker; once this returns, it survives a crash and a power cut."""
        return self.submitter.submit(self.entry, self._payload(args, kwargs), self.chosen)

    async def asubmit(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Do the same from async code, together with all coroutines that submit at the same time.

        If the await is cancelled, it may still be stored.
        """
        payload = self._payload(args, kwargs)
        return await self.submitter.asubmit(self.threads, self.entry, payload, self.chosen)

    def item(self, *args: P.args, **kwargs: P.kwargs) -> Item:
        """Return this call, with the options chosen here, for `submit_many`."""
        return Item(self.entry, self._payload(args, kwargs), self.chosen)

    def submit_many(self, items: Items) -> list[Job]:
        """Store many calls, in order; each is a mapping of arguments, or made by `item`.

        They are stored in chunks of up to 1000, each all or none and in one write: if an item is
        wrong, the error names it, and the chunks before it stay stored. With `options(within=…)` it is
        one chunk, of which nothing is stored then. A job that its key already has comes back with
        `is_new=False`.
        """
        return _Bulk(self.submitter, self.entry, self.chosen).submit(items)

    async def asubmit_many(self, items: Items) -> list[Job]:
        """Do the same from async code, on another thread."""
        bulk = _Bulk(self.submitter, self.entry, self.chosen)
        return await bulk.asubmit(self.threads, items)

    def try_now(self, *args: P.args, **kwargs: P.kwargs) -> Tried[R_co]:
        """Run it now, in this process; if it fails, store it and retry it later.

        Nothing is stored unless it fails (or `options(durable=True)` asks for it). With a key that
        already has a job it does not run and returns that job.
        """
        if self.entry.is_async:
            raise UsageError(f"{self.name} is async; use `await` and its `atry_now`")
        if self.entry.is_unlimited:
            warn_unlimited(self.entry)
        execution = self.submitter.begin(self.entry, self._payload(args, kwargs), self.chosen)
        if isinstance(execution, Job):
            return Tried(done=execution.state is State.COMPLETED, job=execution)
        try:
            with self.submitter.holding(execution, self.chosen), execution:
                execution.value = finished(self.entry.function(*args, **kwargs))
        except KeyboardInterrupt:
            self.submitter.end(execution, self.chosen)
            raise
        return self._tried(execution, self.submitter.end(execution, self.chosen))

    async def atry_now(
        self: Handler[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Tried[T]:
        """Do the same with an async handler; storing happens on another thread."""
        if not self.entry.is_async:
            msg = f"{self.name} is not async; use `await app.aio({self.name}.try_now, …)`"
            raise UsageError(msg)
        execution = await self._begun(self._payload(args, kwargs))
        if isinstance(execution, Job):
            return Tried(done=execution.state is State.COMPLETED, job=execution)
        try:
            with self.submitter.holding(execution, self.chosen), execution:
                execution.value = await awaited(execution, self.entry.function(*args, **kwargs))
        except BaseException:
            self.submitter.end(execution, self.chosen)  # cancelled: return the claim first
            raise
        job = await self.submitter.aend(self.threads, execution, self.chosen)
        return cast("Tried[T]", self._tried(execution, job))

    def options(
        self,
        *,
        delay: Duration = 0.0,
        key: str | None = None,
        tags: Iterable[str] = (),
        attempts: int | None = None,
        within: object = None,
        durable: bool = False,
    ) -> Handler[P, R_co]:
        """Return the same handler with options for the next call; the types stay.

        `delay`: how long until it may run. `key`: the same key is the same job. `tags`: for finding
        it. `attempts`: its own limit of attempts. `within`: your connection to the store's PostgreSQL
        database, whose transaction the submit joins. `durable`: `try_now` stores it before it runs.
        """
        chosen = choose(
            delay=delay, key=key, tags=tags, attempts=attempts, within=within, durable=durable
        )
        return replace(self, chosen=chosen)

    def _payload(self, args: tuple[object, ...], kwargs: dict[str, object]) -> str:
        return self.entry.arguments.dump(args, kwargs, self.submitter.settings.payload_limit)

    async def _begun(self, payload: str) -> Execution | Job:
        """Begin on another thread; if we are cancelled meanwhile, return what was claimed."""
        import asyncio  # noqa: PLC0415 - code that awaits this has imported it

        began = asyncio.ensure_future(
            hop(self.threads, self.submitter.begin, self.entry, payload, self.chosen)
        )
        try:
            return await asyncio.shield(began)
        except asyncio.CancelledError:
            execution = await began
            if isinstance(execution, Execution):
                self.submitter.end(execution, self.chosen)
            raise

    def _tried(self, execution: Execution, job: Job | None) -> Tried[R_co]:
        if isinstance(execution.outcome, Failed | Returned):
            return Tried(done=False, job=job)
        return Tried(done=True, job=job, _value=cast("R_co", execution.value))


@dataclass(frozen=True, slots=True)
class _Bulk:
    """The jobs of one handler, submitted with these options."""

    submitter: Submitter
    entry: Entry
    options: Options

    def submit(self, items: Items) -> list[Job]:
        """Store the items; see `Handler.submit_many`."""
        stored: list[Job] = []
        with _counting(stored):
            if self.options.within is None:
                self._add_chunks(self._drafts(items), stored)
            else:
                answers = self._add(list(self._drafts(items)), 0, self.options.within)
                stored += map(self.submitter.reported, answers)
        return stored

    async def asubmit(self, threads: Threads, items: Items) -> list[Job]:
        """Do the same from async code."""
        if self.options.within is None:
            return await hop(threads, self.submit, list(items))
        with _counting([]):
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
        raise UsageError(
            "an item is a mapping of names to arguments, or made by `handler.item(…)`; "
            f"found {type(item).__name__}"
        )
    if item.entry is not entry:
        raise UsageError(f"this is an item of {item.entry.name!r}, not of {entry.name!r}")
    if item.options.durable:
        raise UsageError("`durable` is for try_now; submit_many stores every item before it runs")
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


@contextmanager
def _counting(stored: list[Job]) -> Generator[None]:
    """Add the number of items that are stored to an error raised inside `with`."""
    try:
        yield
    except RedriveError as error:
        error.args = (f"{error}; of the items, the first {len(stored)} are stored",)
        raise


def _named_item(error: KeyConflict, jobs: Sequence[Job], first: int) -> KeyConflict:
    index = first + next((at for at, job in enumerate(jobs) if job.id == error.job_id), 0)
    return KeyConflict(f"items[{index}]: {error}", job_id=error.job_id)
