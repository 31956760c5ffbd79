"""Redrive: the object that a program creates once.

It registers handlers, captures failures and runs what is due; what operators see and do is in
`app.desk`. It opens its store on first use.
"""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack

from redrive import config
from redrive.attempts import presence, worker_notes
from redrive.attempts.counters import totals
from redrive.attempts.listeners import ListenerSettings, registrar
from redrive.attempts.runtime import Settings
from redrive.desk import retention
from redrive.desk.desk import Desk
from redrive.errors import JobNotFound, UsageError
from redrive.events import Event, Listener, ThreadedBus
from redrive.handler import Choices, Handler, choose
from redrive.in_place.capture import Capture
from redrive.jobs import checks, durations, ids
from redrive.jobs.clock import Clock, SystemClock
from redrive.jobs.durations import Duration
from redrive.jobs.job import Job
from redrive.jobs.logger import log
from redrive.jobs.reports import EventKind
from redrive.jobs.threads import Threads, hop
from redrive.payloads import strict_json
from redrive.payloads.arguments import Arguments
from redrive.payloads.secret_names import add_secret_names
from redrive.policies import presets
from redrive.policies.policy import Keep, Policy, check_policy
from redrive.registry import (
    Entry,
    Isolation,
    check_apart,
    check_functions,
    check_isolation,
    check_name,
)
from redrive.stores import open_store, shown
from redrive.stores.contract import Store
from redrive.strategies import Rand
from redrive.submission import Submitter, who

if TYPE_CHECKING:
    from redrive.delivery.courier import EndpointSettings
    from redrive.delivery.endpoint import Endpoint
    from redrive.worker.passes import Pass
    from redrive.worker.schedule import Alerting, Watcher
    from redrive.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")


class Redrive:
    """Stores failed work and retries it. Create one per program and register handlers on it.

    `store` is a path (SQLite), `jsonl:PATH`, `memory:` or `postgresql://…`, or a function that
    returns one of these when it is opened. Without one it is found as the command line finds it:
    REDRIVE_STORE, redrive.toml, pyproject.toml, else redrive.db.
    `secret_names` are more fields to mask here; `[mask]` in redrive.toml tells the commands too.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store | Callable[[], str] | None = None,
        *,
        policy: Policy = presets.DEFAULT,
        lease: Duration = 30.0,
        keep: Keep | None = None,
        payload_limit: int = strict_json.MAX_BYTES,
        release: str | None = None,
        actor: str | None = None,
        create: bool = True,
        read_only: bool = False,
        clock: Clock | None = None,
        rand: Rand = random.random,
        alerts: Alerting | None = None,
        secret_names: Iterable[str] = (),
    ) -> None:
        add_secret_names([*config.secret_names(), *secret_names])
        self.alerts = alerts
        """Who is alerted about dead letters; see `redrive.alerts`."""
        clock = clock or SystemClock()
        self._where = store if isinstance(store, Store) else config.place_of(store)
        check_policy(policy)
        if not isinstance(keep, Keep | None):
            raise UsageError(f"keep must be a Keep, such as Keep(dead='90d'); found {keep!r}")
        self._policy, self._read_only = policy, read_only
        self._threads = Threads()
        self._workers: weakref.WeakSet[Worker] = weakref.WeakSet()

        def opener() -> Store:
            may_make = create and not self.submitter.must_exist
            flags = {"create": may_make, "read_only": read_only}
            where = self._where if isinstance(self._where, Store) else self._where()
            return open_store(where, clock=clock, **flags)

        settings = Settings(
            clock=clock,
            lease=durations.positive(lease, name="lease"),
            payload_limit=checks.whole(payload_limit, "payload_limit", least=1),
            release=None if release is None else checks.text(release, "release"),
            actor=actor or who(),
            rand=rand,
            keep=keep or Keep(),
        )
        self.submitter = Submitter(opener, settings, read_only=read_only)
        self.desk = Desk(self.submitter)
        """What operators see and do: `app.desk.retry("G7")`, `app.desk.jobs.find(...)`."""

    def handler(
        self,
        name: str,
        *,
        policy: Policy | None = None,
        attempts: int | None = None,
        timeout: Duration | None = None,
        isolation: Isolation | None = None,
        lane: str | None = None,
        already_done: Callable[..., object] | None = None,
        formerly: str | Iterable[str] = (),
        renamed: Mapping[str, str] | None = None,
    ) -> Callable[[Callable[P, R]], Handler[P, R]]:
        """Register a function under a name, which is stored with its jobs.

        `formerly` are names it had before; `renamed` maps former names of its parameters to the
        present ones (`{"name": "who"}`). `already_done` is asked before a job is declared dead.
        `isolation="process"` has a worker run it in a process of its own, which may crash; so does
        a `timeout` of a plain function, unless `isolation` is "thread".
        """
        check_name(name)
        check_isolation(isolation)
        check_policy(self._policy if policy is None else policy)
        seconds = None if timeout is None else durations.positive(timeout, name="timeout")
        names = (formerly,) if isinstance(formerly, str) else checks.texts(formerly, "formerly")
        chosen = (policy or self._policy).limited(attempts)
        if policy is not None and attempts is not None and policy.attempts is not None:
            msg = f"handler {name!r}: give attempts on the policy or on the handler, not on both"
            raise UsageError(msg)

        def register(function: Callable[P, R]) -> Handler[P, R]:
            is_async = check_functions(name, function, already_done)
            entry = Entry(
                name=name,
                function=function,
                arguments=Arguments(function, name, renamed),
                policy=chosen,
                lane=name if lane is None else lane,
                timeout=seconds,
                isolation=isolation,
                already_done=already_done,
                formerly=names,
                is_async=is_async,
            )
            self.submitter.register(entry)
            return Handler(entry, self.submitter, self._threads)

        return register

    def endpoint(
        self,
        name: str,
        *,
        policy: Policy | None = None,
        attempts: int | None = None,
        lane: str | None = None,
        already_done: Callable[..., object] | None = None,
        formerly: str | Iterable[str] = (),
        **settings: Unpack[EndpointSettings],
    ) -> Endpoint:
        """Register a URL to send to, under a name, which is stored with its jobs.

        Settings that are not passed come from `[endpoints.NAME]` in `redrive.toml`. `url`: the URL.
        `token_env`, `secret_env`: the environment variables with the bearer token and the signing
        secrets. `headers`: more of them. `key_field`: the field of the body for the key. `timeout`:
        for all of it, 30 s. `idempotent`: it may be sent again without an answer. `allow`: what is
        allowed besides https to public addresses. `ca_file`: authorities to trust.
        """
        from redrive.delivery import endpoint as made  # noqa: PLC0415 - what it needs is slow to load

        courier = made.courier_of(check_name(name), settings)
        check_policy(self._policy if policy is None else policy)
        if policy is None:
            policy, attempts = self._policy.limited(attempts), None
        registered = self.handler(
            name,
            policy=made.at_once(policy),
            attempts=attempts,
            lane=lane,
            already_done=already_done,
            formerly=formerly,
        )(made.poster(courier))
        return made.Endpoint(registered, courier)

    def capture(
        self,
        name: str,
        payload: Mapping[str, object],
        *,
        reraise: bool = True,
        key: str | None = None,
        tags: Iterable[str] = (),
    ) -> Capture:
        """Store what fails inside `with` as a job, with its error: for ordinary code.

        With a registered handler of that name it is retried like any job; without one it is a dead
        letter at once, and needs a handler before it can be retried. The error is raised again unless
        `reraise=False`. The `with` returns a Capture: its `job` is what was stored.
        """
        _, text = self.submitter.named(name, payload, self._policy)
        return Capture(self.submitter, name, text, choose(key=key, tags=tags), reraise=reraise)

    def submit(self, name: str, payload: Mapping[str, object], **options: Unpack[Choices]) -> Job:
        """Store a call of a handler by its name, for programs that do not have the handler.

        `payload` has the arguments by their names; the options are those of `Handler.options`. Its
        lane and limits are those that the handler has where a worker takes it.
        """
        entry, text = self.submitter.named(name, payload, self._policy)
        return self.submitter.submit(entry, text, choose(**options))

    async def asubmit(
        self, name: str, payload: Mapping[str, object], **options: Unpack[Choices]
    ) -> Job:
        """Do the same from async code."""
        entry, text = self.submitter.named(name, payload, self._policy)
        return await self.submitter.asubmit(self._threads, entry, text, choose(**options))

    def run_due(
        self,
        *,
        ignore_backoff: bool = False,
        limit: int = 0,
        only: Collection[str] | None = None,
    ) -> Pass:
        """Run what is due, each job once, in this thread; for scripts and cron.

        `ignore_backoff` takes every pending job, whatever its wait, pauses too. `only` names those
        that may be run.
        """
        from redrive.worker.deliveries import Deliveries  # noqa: PLC0415 - who only submits needs none
        from redrive.worker.passes import Pass, PassRunner, log_begin, log_end  # noqa: PLC0415

        checks.whole(limit, "limit", least=0)
        only = None if only is None else checks.texts(only, "only")
        log_begin(self.store)
        runtime = self.submitter.runtime()
        check_apart(self.submitter.registry, self._program)
        presence.sign(runtime, self.submitter.settings.clock.now(), lasts=worker_notes.PASS_LASTS)
        self._watch()
        runner = PassRunner(runtime, self._program)
        runner.run_pass(ignore_waits=ignore_backoff, only=only, limit=limit)
        presence.sign(runtime, self.submitter.settings.clock.now(), lasts=worker_notes.PASS_LASTS)
        done = Pass(**totals(runner.ended), purged=self.cleanup())
        Deliveries(runtime, self._program).deliver()
        self._watch()
        log_end(self.store, done)
        return done

    def retry_here(self, which: str, *, reason: str = "", actor: str | None = None) -> Job | None:
        """Retry one job in this thread; return it as it is now, or None if it cannot be taken.

        It falls due only later, so that no worker takes it first, but one does if this process dies.
        """
        from redrive.worker.passes import retry_one  # noqa: PLC0415 - who only submits needs none

        action = self.desk.log.action("retry", which, reason, actor)
        runs = retry_one(self.submitter.runtime(), self._program, which, action)
        return self.get(which) if runs else None

    def worker(
        self,
        *,
        concurrency: int = 8,
        batch: int = 100,
        poll: Duration = 0.5,
        grace: Duration = 30.0,
        program: str | None = None,
        parent: int = 0,
        replaced: bool = False,
    ) -> Worker:
        """Return a worker; inside `with` it runs jobs in threads of this program.

        `concurrency`: plain handlers at one time, and as many async ones. `batch`: jobs claimed at
        once, at most. `poll`: how often to check the store at least. `grace`: how long running
        jobs may take to end at the end of the `with`. `program` is how a child process imports this
        object (`module:attribute`); by default it is detected. With `parent` it stops once
        that is no longer the process that started this one; `replaced` means that a supervisor
        starts another process when this one sets `wants_replacement`.
        """
        from redrive.worker.worker import Worker, WorkerSettings  # noqa: PLC0415 - who only submits needs none

        if self._read_only:
            raise UsageError("a worker changes jobs: open the app without read_only=True")
        name = program or self._program()
        check_apart(self.submitter.registry, lambda: name)
        settings = WorkerSettings.of(concurrency, batch, poll, grace, replaced=replaced)
        worker = Worker(
            self.submitter.runtime(ThreadedBus(self.submitter.bus), ids.new_holder()),
            settings,
            policy=self._policy,
            program=name,
            parent=parent,
            cleanup=self.cleanup,
            watcher=self._watcher(),
        )
        self._workers.add(worker)
        return worker

    def _watcher(self) -> Watcher | None:
        return None if self.alerts is None else self.alerts.watch(self)

    def _watch(self) -> None:
        """Let the watcher check once."""
        if watcher := self._watcher():
            watcher.tick()
            watcher.leave()

    def _program(self) -> str | None:
        from redrive.worker.programs import program_name  # noqa: PLC0415

        return program_name(self)

    def cleanup(self) -> int:
        """Remove finished jobs that are older than their policy keeps them; return how many."""
        rules = retention.rules(self.submitter.registry, self.submitter.settings.keep)
        return retention.purge(self.submitter.store, rules, self.submitter.bus)

    @property
    def store(self) -> Store:
        """The open store."""
        return self.submitter.store

    def get(self, job_id: str) -> Job:
        """Return one job with its whole history, by its id; JobNotFound if there is none."""
        job = self.submitter.store.get(checks.text(job_id, "a job's id"))
        if job is None:
            msg = f"no job {job_id!r}; the desk also finds one by the beginning of its id"
            raise JobNotFound(msg)
        return job

    def on(
        self, *kinds: EventKind, **settings: Unpack[ListenerSettings]
    ) -> Callable[[Callable[[Event], R]], Callable[[Event], R]]:
        """Call a function for every event of these kinds, at least once, from any process.

        An event is stored with the change, and delivered by workers and passes of programs that have
        this listener: in order for each job, retried by `policy`. Its `name`, by default that of the
        function, is stored and must stay the same. Secrets are masked unless `reveal=True`.
        """
        return registrar(self.submitter.register, kinds, settings)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function after every change; call what this returns to stop."""
        return self.submitter.bus.listen(checks.function(listener, "a listener"))

    async def aio(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call any verb from async code: `await app.aio(app.desk.retry, "G7")`."""
        return await hop(self._threads, function, *args, **kwargs)

    def close(self) -> None:
        """Close files and connections; the next use opens them again.

        While a worker runs they stay open: they are in use.
        """
        if any(worker.is_alive for worker in self._workers):
            log.warning("the store stays open while a worker of this app runs")
            return
        self._threads.close()
        self.submitter.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers refuse unknown names without help

        def __getattr__(self, name: str) -> object:
            """Raise AttributeError; for what operators do, name the member of the desk."""
            if hasattr(Desk, name) and not hasattr(type(self), name):
                raise AttributeError(f"use app.desk.{name}", name=name, obj=self)
            return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        where = self._where.url if isinstance(self._where, Store) else shown(self._where())
        return f"Redrive({where!r}, {len(self.submitter.registry)} handlers)"
