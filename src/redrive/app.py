"""Redrive: the object a program makes once; everything else hangs on it.

It registers handlers, runs what is due, and does what people ask for. It opens its store on first
use. The verbs here are the whole library: the command line and the pages call nothing else.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ParamSpec, Self, TypeVar, Unpack

from redrive import _duration, _json, config, presets, retention
from redrive._aio import Threads, hop
from redrive._clock import Clock, SystemClock
from redrive._duration import Duration
from redrive._log import log
from redrive._transitions import Verb
from redrive.args import Arguments
from redrive.errors import JobNotFound, UsageError
from redrive.events import TOLD, Event, Listener
from redrive.handler import Handler
from redrive.job import Act, Group, Job
from redrive.keeping import Capture, Keeper, Options, Settings, check_key, who
from redrive.policy import Keep, Policy
from redrive.selection import USUAL, Filters, Target, job_id, meant, query_of, spelled
from redrive.stores import open_store, shown
from redrive.stores.base import PAUSE, Count, Moved, Note, Page, Report, Store, every
from redrive.strategy import Rand
from redrive.worker.registry import Entry, check_functions, check_lane, check_name
from redrive.worker.turn import Pass

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["USUAL", "Count", "Filters", "Moved", "Note", "Page", "Redrive", "Report"]


class Redrive:
    """Keeps work that failed. Make one for your program and register handlers on it.

    `store` is a path (SQLite), `jsonl:PATH`, `memory:` or `postgresql://…`. Without one it is found
    as the command line finds it: REDRIVE_STORE, redrive.toml, pyproject.toml, else redrive.db.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store | None = None,
        *,
        policy: Policy = presets.DEFAULT,
        lease: Duration = 30.0,
        keep: Keep | None = None,
        payload_limit: int = _json.MAX_BYTES,
        release: str | None = None,
        actor: str | None = None,
        create: bool = True,
        read_only: bool = False,
        allow_network: bool = False,
        clock: Clock | None = None,
        rand: Rand = random.random,
    ) -> None:
        clock = clock or SystemClock()
        self._where = store if isinstance(store, Store) else config.place_of(store)
        self._policy = policy
        self._threads = Threads()
        self._keep = keep or Keep()

        def opener() -> Store:
            return open_store(
                self._where,
                create=create,
                read_only=read_only,
                clock=clock,
                allow_network=allow_network,
            )

        settings = Settings(
            clock=clock,
            lease=_positive(lease),
            payload_limit=payload_limit,
            release=release,
            actor=actor or who(),
            rand=rand,
        )
        self.keeper = Keeper(opener, settings)

    def handler(
        self,
        name: str,
        *,
        policy: Policy | None = None,
        attempts: int | None = None,
        timeout: Duration | None = None,
        lane: str | None = None,
        already_done: Callable[..., object] | None = None,
        formerly: str | Iterable[str] = (),
    ) -> Callable[[Callable[P, R]], Handler[P, R]]:
        """Register a function under a name that is written to disk.

        `formerly` are names it had before; `already_done` is asked before a job is declared dead.
        """
        check_name(name)
        chosen = (policy or self._policy).limited(attempts)
        if policy is not None and attempts is not None and policy.attempts is not None:
            msg = f"handler {name!r}: give attempts on the policy or on the handler, not on both"
            raise UsageError(msg)

        def register(function: Callable[P, R]) -> Handler[P, R]:
            is_async = check_functions(name, function, already_done)
            if timeout is not None and not is_async:
                msg = (
                    f"handler {name!r}: a time limit for a plain function needs the worker, which "
                    "is not built yet; make it async or leave timeout out"
                )
                raise UsageError(msg)
            entry = Entry(
                name=name,
                function=function,
                arguments=Arguments(function, name),
                policy=chosen,
                lane=lane or name,
                timeout=None if timeout is None else _duration.seconds(timeout, name="timeout"),
                already_done=already_done,
                formerly=(formerly,) if isinstance(formerly, str) else tuple(formerly),
                is_async=is_async,
            )
            self.keeper.registry.add(entry)
            return Handler(entry, self.keeper, self._threads)

        return register

    def capture(
        self,
        name: str,
        payload: Mapping[str, object],
        *,
        reraise: bool = True,
        key: str | None = None,
        tags: Iterable[str] = (),
    ) -> Capture:
        """Spread a net under ordinary code: what fails inside is kept with its error.

        With a registered handler of that name it is retried like any job; without one it is a dead
        letter at once, and needs a handler before it can be driven again. Then the error goes on
        up, unless `reraise=False`. The `with` gives a Capture: its `job` is what was kept.
        """
        entry = self.keeper.registry.get(check_name(name))
        limit = self.keeper.settings.payload_limit
        if entry is None:
            text = _json.dumps(dict(payload), max_bytes=limit)
        else:
            text = entry.arguments.dump((), dict(payload), limit)
        options = Options(key=check_key(key), tags=tuple(check_name(tag) for tag in tags))
        return Capture(self.keeper, name, text, options, reraise=reraise)

    def run_due(self, *, ignore_backoff: bool = False, limit: int = 0) -> Pass:
        """Run what is due, each job once, in this thread; for scripts and cron.

        `ignore_backoff` takes every pending job, whatever its wait, pauses too.
        """
        log.info("pass begins: %d queued", self._queued())
        tally = self.keeper.turn().run(ignore_waits=ignore_backoff, limit=limit)
        purged = self.cleanup()
        log.info(
            "pass ended: %d taken, %d succeeded, %d failed, %d died, %d purged",
            tally.taken,
            tally.succeeded,
            tally.failed,
            tally.died,
            purged,
        )
        if tally.taken and self._queued() == 0:
            log.info("the queue is empty")
        return Pass(tally.taken, tally.succeeded, tally.failed, tally.died, purged)

    def cleanup(self) -> int:
        """Remove finished jobs that are older than their policy keeps them; gives how many."""
        rules = retention.rules(self.keeper.registry, self._keep)
        return retention.purge(self.keeper.store, rules, self.keeper.bus)

    def get(self, which: str) -> Job:
        """Give one job with its whole history, by id or the unique beginning of one."""
        job = self.keeper.store.get(job_id(self.keeper.store, which))
        if job is None:
            msg = f"no job {which!r}"
            raise JobNotFound(msg)
        return job

    def find(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        by_change: bool = False,
        **filters: Unpack[Filters],
    ) -> Page:
        """Give a page of jobs, newest first; every filter given must hold."""
        query = query_of(**filters)
        query = replace(query, limit=limit, cursor=cursor, by_change=by_change)
        return self.keeper.store.find(query)

    def each(self, **filters: Unpack[Filters]) -> Iterator[Job]:
        """Give all jobs that match, newest first, page by page as they are asked for."""
        return every(self.keeper.store, query_of(**filters))

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self.keeper.store.counts()

    def groups(self, *, limit: int = 100, **filters: Unpack[Filters]) -> list[Group]:
        """Give the causes of dead jobs (or of those the filters name), the commonest first."""
        return self.keeper.store.groups(replace(query_of(**filters), limit=limit))

    def acts(self, *, limit: int = 100, before: int | None = None) -> list[Act]:
        """Give what people did, newest first."""
        return self.keeper.store.acts(limit=limit, before=before)

    def retry(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Drive jobs again. Dead and resolved ones start a fresh life; pending ones become due.

        Groups and filters mean pending and dead jobs unless `state` says otherwise.
        """
        return self._deed("retry", targets, filters, reason, actor)

    def resolve(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Close jobs: the matter is settled another way. `reopen` undoes it.

        Groups and filters mean dead jobs unless `state` says otherwise.
        """
        return self._deed("resolve", targets, filters, reason, actor)

    def discard(
        self,
        *targets: Target,
        reason: str,
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Close jobs that shall never be done; the reason is required. `reopen` undoes it.

        Groups and filters mean dead jobs unless `state` says otherwise.
        """
        return self._deed("discard", targets, filters, reason, actor)

    def reopen(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Make resolved or discarded jobs dead letters again."""
        return self._deed("reopen", targets, filters, reason, actor)

    def select(self, verb: Verb, *targets: Target, **filters: Unpack[Filters]) -> list[Job | str]:
        """Give the jobs a deed is meant for, as they are now; an unknown id comes as written."""
        return list(meant(self.keeper.store, verb, targets, filters))

    def move(
        self,
        verb: Verb,
        ids: Sequence[str],
        *,
        asked: str = "",
        reason: str = "",
        actor: str | None = None,
    ) -> Moved:
        """Do a deed to exactly the jobs of a frozen set; `asked` is how they were asked for."""
        if verb == "discard" and not reason.strip():
            msg = "discard needs a reason: those who come after want to know why"
            raise UsageError(msg)
        moved = self.keeper.store.move(ids, verb, self._act(verb, asked, reason, actor))
        for job in moved.done:
            self.keeper.bus.emit(Event(TOLD[verb], job, detail=reason))
        return moved

    def _deed(
        self,
        verb: Verb,
        targets: tuple[Target, ...],
        filters: Filters,
        reason: str,
        actor: str | None,
    ) -> Moved:
        jobs = self.select(verb, *targets, **filters)
        missing = [one for one in jobs if isinstance(one, str)]
        if missing:
            msg = f"no job {missing[0]!r}; nothing was changed"
            raise JobNotFound(msg)
        ids = [job.id for job in jobs if isinstance(job, Job)]
        asked = spelled(targets, filters)
        return self.move(verb, ids, asked=asked, reason=reason, actor=actor)

    def edit(self, which: str, payload: str, *, reason: str = "", actor: str | None = None) -> Job:
        """Give a job another payload (JSON text); the first one is kept.

        The text must fit the handler where it is registered here.
        """
        job = self.get(which)
        text = _json.compact(payload, max_bytes=self.keeper.settings.payload_limit)
        entry = self.keeper.registry.get(job.handler)
        if entry is not None:
            entry.arguments.load(text)
        act = self._act("edit", job.id, reason, actor)
        edited = self.keeper.store.amend(job.id, text, act, expected=job.edits)
        self.keeper.bus.emit(Event("edited", edited))
        return edited

    def pause(
        self,
        lane: str,
        *,
        reason: str = "",
        duration: Duration | None = None,
        actor: str | None = None,
    ) -> None:
        """Let a lane's jobs wait, for all workers, until `resume` or for a while; none is spent."""
        seconds = None if duration is None else _duration.seconds(duration)
        act = self._act("pause", check_lane(lane), reason, actor)
        value = json.dumps({"by": act.actor, "reason": reason, "since": self.keeper.store.now()})
        self.keeper.store.note(PAUSE + lane, value, expires_in=seconds, durable=True)
        self.keeper.store.record(act)
        self.keeper.bus.emit(Event("paused", detail=lane))

    def resume(self, lane: str, *, reason: str = "", actor: str | None = None) -> None:
        """Let a paused lane go on."""
        self.keeper.store.note(PAUSE + check_lane(lane), None, durable=True)
        self.keeper.store.record(self._act("resume", lane, reason, actor))
        self.keeper.bus.emit(Event("resumed", detail=lane))

    def pauses(self) -> list[Note]:
        """Give the pauses in force; the name is `pause:` and the lane, the value who and why."""
        return self.keeper.store.notes(PAUSE)

    @property
    def store(self) -> Store:
        """The open store."""
        return self.keeper.store

    def verify(self) -> Report:
        """Look at everything that is stored and say what is wrong. Changes nothing."""
        return self.keeper.store.verify()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Be told of every change after it is true; call what comes back to stop."""
        return self.keeper.bus.listen(listener)

    async def aio(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call any verb from async code: `await app.aio(app.retry, "G7")`."""
        return await hop(self._threads, function, *args, **kwargs)

    def close(self) -> None:
        """Let go of files and connections; the next use opens them again."""
        self._threads.close()
        self.keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = self._where.url if isinstance(self._where, Store) else shown(self._where)
        return f"Redrive({where!r}, {len(self.keeper.registry)} handlers)"

    def _queued(self) -> int:
        return sum(c.jobs for c in self.counts() if c.state in {"pending", "running"})

    def _act(self, verb: str, target: str, reason: str, actor: str | None) -> Act:
        who = actor or self.keeper.settings.actor
        return Act(actor=who, verb=verb, target=target, reason=reason)


def _positive(lease: Duration) -> float:
    seconds = _duration.seconds(lease, name="lease")
    if seconds == 0:
        msg = "lease must be more than 0 seconds: it is how long a worker may be silent"
        raise UsageError(msg)
    return seconds
