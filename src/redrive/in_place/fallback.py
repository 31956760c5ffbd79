"""Call several providers in order of preference, and return the first answer.

Each provider is called once. A provider that fails enters cooldown (`cooldowns`), and the next call
starts with another. Nothing here retries or decides about the job: when no provider is left, one
error carries all of theirs, and the policy decides about it as about any other.

A call tries these providers, in this order:

1. those that are not paused; after a cooldown one caller at a time, as a probe;
2. those that another caller is probing now;
3. those whose cooldown Redrive estimated, if another provider was called and failed.

A provider that a person paused, or that asked for a wait, is not called; if all are paused, none is
called.
"""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, overload

from redrive.classify import classify, is_about_the_server
from redrive.classify.rules import has_rule
from redrive.classify.tables import WORST_FIRST
from redrive.context import running
from redrive.errors import AllProvidersFailed, ProviderPaused, Skip, StoreError, UsageError
from redrive.in_place.cooldowns import COOLDOWN, Cooling, Override, Standing, log
from redrive.jobs import checks, durations, ids
from redrive.jobs.durations import Duration
from redrive.jobs.job import HOPELESS, Category, Failure
from redrive.jobs.threads import Threads, hop
from redrive.payloads import masking
from redrive.policies.policy import When, category_named
from redrive.registry import check_lane
from redrive.stores.contract import Store
from redrive.strategies import RetryStrategy

P = ParamSpec("P")
R = TypeVar("R")

_INPUTS = frozenset({Category.INVALID, Category.PERMANENT})
PASSES = frozenset(Category) - _INPUTS
"""On these the next provider is asked. What is wrong with the input is wrong for all of them."""
_threads = Threads()
_missing: set[str] = set()  # the providers of which was logged that a library is missing


@dataclass(frozen=True, slots=True)
class Miss:
    """A provider that was asked and failed."""

    provider: str
    category: Category
    why: str
    seconds: float

    def __str__(self) -> str:
        return masking.inert(f"{self.provider}: {self.category}, {self.why}")


@dataclass(frozen=True, slots=True)
class Answer(Generic[R]):
    """The value of a provider, its name, and the providers that failed before it."""

    value: R
    winner: str
    tried: tuple[Miss, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """The settings of one `fallback`."""

    providers: Mapping[str, Callable[..., Any]]
    passes: frozenset[Category]
    rules: tuple[When, ...]
    cooldown: RetryStrategy
    longest: float
    store: Store | None

    @functools.cached_property
    def own_store(self) -> Store:
        """Where cooldowns are kept outside of a job: in this process."""
        from redrive.stores.memory import MemoryStore  # noqa: PLC0415 - jobs have a store

        return MemoryStore()


# Both overloads fit an async provider, whose R may be an awaitable; the first one is meant.
@overload
def fallback(  # type: ignore[overload-overlap] # pyright: ignore[reportOverlappingOverload]
    *,
    on: Iterable[Category | str | When] = ...,
    cooldown: RetryStrategy = ...,
    longest: Duration = ...,
    store: Store | None = ...,
    **providers: Callable[P, Awaitable[R]],
) -> Callable[P, Awaitable[Answer[R]]]: ...


@overload
def fallback(
    *,
    on: Iterable[Category | str | When] = ...,
    cooldown: RetryStrategy = ...,
    longest: Duration = ...,
    store: Store | None = ...,
    **providers: Callable[P, R],
) -> Callable[P, Answer[R]]: ...


def fallback(
    *,
    on: Iterable[Category | str | When] = (),
    cooldown: RetryStrategy = COOLDOWN,
    longest: Duration = "24h",
    store: Store | None = None,
    **providers: Callable[..., Any],
) -> Callable[..., Any]:
    """Make one function of several that do the same: `fallback(openai=ask_openai, claude=ask_claude)`.

    The providers are called in this order, all with the same arguments; all are plain, or all are
    async. The result is an `Answer`: `value`, `winner`, and the providers `tried` before. If none
    answers, AllProvidersFailed is raised.

    `on` lists the failures after which the next provider is called: categories (`Category` alone is
    all of them), and `when(…)` rules, which also set the category of an error. By default these are
    all categories but invalid and permanent, whose errors are raised as they are. `cooldown` is the
    delay for a provider that asks for none, `longest` the maximum. Cooldowns are stored in the
    store of the running job; outside of a job in `store`, or in this process.
    """
    wanted = tuple(on)
    chain = _Chain(
        providers=providers,
        passes=frozenset(category_named(c) for c in wanted if not isinstance(c, When)) or PASSES,
        rules=tuple(each for each in wanted if isinstance(each, When)),
        cooldown=cooldown,
        longest=durations.seconds(longest, name="longest"),
        store=store,
    )
    kinds = {_checked(name, function) for name, function in providers.items()}
    if len(kinds) != 1:
        msg = "fallback() needs providers, all plain or all async: fallback(openai=f, claude=g)"
        raise UsageError(msg)
    return _async(chain) if kinds.pop() else _plain(chain)


def _plain(chain: _Chain) -> Callable[..., Answer[Any]]:
    @functools.wraps(next(iter(chain.providers.values())))
    def ask(*args: Any, **kwargs: Any) -> Answer[Any]:
        call = _Call(chain)
        while (asked := call.next()) is not None:
            try:
                value = chain.providers[asked.name](*args, **kwargs)
            except Exception as error:
                if not call.failed(asked, error):
                    raise
            else:
                return call.won(asked, value)
        raise call.error()

    return ask


def _async(chain: _Chain) -> Callable[..., Awaitable[Answer[Any]]]:
    @functools.wraps(next(iter(chain.providers.values())))
    async def ask(*args: Any, **kwargs: Any) -> Answer[Any]:
        call = _Call(chain)
        while (asked := await hop(_threads, call.next)) is not None:
            try:
                value = await chain.providers[asked.name](*args, **kwargs)
            except Exception as error:
                if not await hop(_threads, call.failed, asked, error):
                    raise
            else:
                return await hop(_threads, call.won, asked, value)
        raise call.error()

    return ask


class _Call:
    """One call of a fallback: the next provider, and the results. Sync and async callers share it."""

    def __init__(self, chain: _Chain) -> None:
        self._chain = chain
        self._job = running()
        self._rules = (*chain.rules, *(self._job.rules if self._job else ()))
        self._is_hurried = self._job is not None and self._job.hurried
        self._standings: list[Standing] = []
        self._left: list[_Leaf] = []
        self._turns = self._order()
        self._began = 0.0

    def next(self) -> Standing | None:
        """Return the provider to ask next."""
        asked = next(self._turns, None)
        self._began = time.perf_counter()
        return asked

    def _order(self) -> Iterator[Standing]:
        self._cooling = Cooling(self._store(), self._chain.cooldown, self._chain.longest)
        self._standings = self._cooling.look(self._chain.providers)
        later: list[Standing] = []
        for standing in self._standings:
            if self._is_hurried:
                yield standing
            elif standing.left is None and (mine := self._cooling.probe(standing)):
                yield mine
            elif standing.left is None or not standing.is_explicit:
                later.append(standing)
        for standing in sorted(later, key=lambda standing: standing.left is not None):
            if standing.left is None or self._left:
                yield standing

    def _store(self) -> Store:
        """Return the store of cooldowns; the one in this process if it cannot be opened."""
        opened = self._job.store if self._job else None
        if self._chain.store is None and opened is not None:
            with suppress(StoreError):
                return opened()
        return Override.store or self._chain.store or self._chain.own_store

    def failed(self, asked: Standing, error: Exception) -> bool:
        """Record a provider's error; return False if no other provider may be called for it."""
        if issubclass(type(error), Skip):
            return False
        secrets = masking.secrets_of(self._job.payload) if self._job else ()
        failure = classify(error, rules=self._rules, secrets=secrets, now=time.time())
        seconds = time.perf_counter() - self._began
        if issubclass(type(error), ImportError) and not has_rule(error, self._rules):
            why = failure.message or failure.type
            if asked.name not in _missing:
                _missing.add(asked.name)
                text = "provider %s cannot be asked here: %s; install it and restart"
                log.error(text, asked.name, masking.inert(why))
            miss = Miss(asked.name, failure.category, why, seconds)
            self._left.append(_Leaf(miss, error, failure, is_missing=True))
            return True
        wait = self._cooled(asked, failure, error)
        is_named = failure.category in self._chain.passes or has_rule(error, self._chain.rules)
        if is_named and not failure.final:
            miss = Miss(asked.name, failure.category, failure.why, seconds)
            self._left.append(_Leaf(miss, error, failure, failure.hint or wait))
            return True
        for leaf in self._left:
            with suppress(Exception):  # an error may refuse notes
                error.add_note(f"redrive: failed before: {leaf.miss}")
        if self._job is not None:
            self._job.answered(asked.name)
        return False

    def _cooled(self, asked: Standing, failure: Failure, error: Exception) -> float | None:
        """Start a cooldown if the failure calls for one; return its seconds."""
        if failure.final or failure.category in _INPUTS:
            return None
        renews = self._is_hurried and asked.left is not None
        if renews or is_about_the_server(failure, error):
            return self._cooling.cool(asked, failure)
        # Outside of a job each call counts as a job of its own.
        job = self._job.job_id if self._job else ids.new_id()
        return self._cooling.suspect(asked.name, job, failure)

    def won(self, asked: Standing, value: R) -> Answer[R]:
        """Record which provider answered."""
        kind = type(value)
        if issubclass(kind, Iterator | AsyncIterator):
            raise UsageError(
                f"provider {asked.name} returned a {kind.__name__}, which may still fail; "
                "read the stream to its end in the provider, and return the result"
            )
        if issubclass(kind, Awaitable):
            if inspect.iscoroutine(value):
                value.close()
            raise UsageError(
                f"provider {asked.name} returned a {kind.__name__}, which was not awaited; "
                "write all providers as async def"
            )
        self._cooling.warm(asked)
        misses = tuple(leaf.miss for leaf in self._left)
        after = f", after {'; '.join(map(str, misses))}" if misses else ""
        job = f" for job {self._job.job_id}" if self._job else ""
        fields = {"event": "answered", "provider": asked.name}
        log.info("%s answered%s%s", asked.name, job, after, extra=fields)
        if self._job is not None:
            self._job.answered(asked.name)
        return Answer(value, asked.name, misses)

    def error(self) -> AllProvidersFailed:
        """Return the one error that carries those of all providers."""
        known = {leaf.miss.provider: leaf for leaf in self._left}
        leaves = [known.get(standing.name) or _paused(standing) for standing in self._standings]
        # A library that is missing here is no answer: it counts only where every provider lacks one.
        asked = [leaf for leaf in self._left if not leaf.is_missing]
        all_missing = not asked and len(known) == len(leaves)
        was_asked = bool(asked) or all_missing
        hopeful = [leaf for leaf in leaves if not leaf.is_missing] or leaves
        best = max(hopeful, key=lambda leaf: WORST_FIRST.index(leaf.failure.category))
        causes = "; ".join(str(leaf.miss) for leaf in leaves)
        what = "no provider answered" if was_asked else "no provider could be asked"
        error = AllProvidersFailed(f"{what}: {causes}", [leaf.error for leaf in leaves])
        error.failures = {leaf.miss.provider: leaf.failure for leaf in leaves}
        error.was_asked = was_asked
        missing = [f"provider {leaf.miss.provider}: {leaf.miss.why}" for leaf in leaves]
        error.missing = "; ".join(missing) if all_missing else ""
        error.redrive_category = best.failure.category
        error.redrive_why = f"{what}; a retry may help {best.miss}"
        # None if the policy decides: some provider may be asked at once, or no pause has an end.
        waits = [leaf.wait for leaf in hopeful if leaf.failure.category not in HOPELESS]
        if not was_asked:
            waits = [state.left for state in self._standings if state.left is not None]
        ends = [wait for wait in waits if wait is not None and wait != math.inf]
        error.cooldown_time = min(ends) if ends and None not in waits else None
        error.code = "/".join(f"{leaf.miss.provider}:{leaf.miss.category}" for leaf in leaves)
        return error


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A provider that gave no answer, and when it may be asked again, if that is known."""

    miss: Miss
    error: Exception
    failure: Failure
    wait: float | None = None
    is_missing: bool = False
    """True if it could not be asked here because a library is missing."""


def _paused(standing: Standing) -> _Leaf:
    why = f"not asked, it is paused: {standing.reason or 'no reason given'}"
    failure = Failure(category=standing.category, why=why, type="ProviderPaused", message=why)
    error = ProviderPaused(f"{standing.name} was {why}")
    return _Leaf(Miss(standing.name, standing.category, why, 0.0), error, failure, standing.left)


def _checked(name: str, function: Callable[..., Any]) -> bool:
    """Return True if a provider is async; refuse what cannot be called."""
    check_lane(f"provider:{name}")
    if not callable(function):
        raise UsageError(f"provider {name} must be a function; found {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        msg = f"provider {name} is a generator; read the stream to its end, and return the result"
        raise UsageError(msg)
    return checks.is_async(function)
