"""Durable listeners: from an event in the outbox to the call of the user's function, and back.

A listener is registered like a handler, as `redrive.on.NAME`, and NAME is its subscription in the store.
A delivery that is given up becomes a dead letter of that handler, with the event as its payload; a retry
by a person calls the function with the same event.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar, get_args

from redrive import context
from redrive.errors import BadPayload, UsageError
from redrive.events import Event
from redrive.jobs import checks, durations, ids, transitions
from redrive.jobs.durations import Duration
from redrive.jobs.job import Category, Job
from redrive.jobs.records import BLANK, evolve
from redrive.jobs.reports import EventKind
from redrive.payloads import strict_json
from redrive.payloads.arguments import Arguments
from redrive.payloads.masked_jobs import seen
from redrive.policies.policy import Policy, check_policy
from redrive.registry import (
    Entry,
    Isolation,
    Registry,
    check_functions,
    check_isolation,
    check_name,
)
from redrive.stores._codec import job_from_dict
from redrive.stores.contract import Store
from redrive.stores.outbox_verbs import OutboxEvent
from redrive.stores.record_codec import event_fields
from redrive.strategies import exponential

R = TypeVar("R")

PREFIX = "redrive.on."
POLICY = Policy(attempts=300, max_age="1d", wait=exponential(1, cap=300), alike=True)
"""A delivery is retried for a day, whatever is wrong."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A function of the user, and how it is called."""

    function: Callable[[Event], object]
    reveal: bool

    def deliver(self, event: Any, payload: Any) -> object:
        """Call the function with the event that the arguments describe."""
        text = payload if isinstance(payload, str) else strict_json.dumps(payload)
        job = _with_history(job_from_dict(event["job"], text))
        shown = job if self.reveal else seen(job)
        failures = [attempt.failure for attempt in shown.history if attempt.failure is not None]
        failure = failures[-1] if failures else shown.failure
        details = failure, shown.detail, event["number"], event["at"]
        return self.function(Event(event["kind"], shown, *details))


def _with_history(job: Job) -> Job:
    """Return a job with its attempts up to then, unless it was purged since."""
    running = context.running()
    stored = running.store().get(job.id) if running and running.store else None
    history = stored.history if stored else ()
    return evolve(job, history=tuple(one for one in history if one.ordinal <= job.lease))


class ListenerSettings(TypedDict, total=False):
    """How a listener is called; see `Redrive.on`."""

    name: str
    policy: Policy
    timeout: Duration
    isolation: Isolation
    reveal: bool


def registrar(
    add: Callable[[Entry], None], kinds: Collection[EventKind], settings: ListenerSettings
) -> Callable[[Callable[[Event], R]], Callable[[Event], R]]:
    """Return the decorator of a listener, which passes its entry to `add`."""
    _check_kinds(kinds)
    policy, isolation = settings.get("policy", POLICY), settings.get("isolation")
    check_policy(policy)
    check_isolation(isolation)
    limit = settings.get("timeout")
    timeout = None if limit is None else durations.positive(limit, name="timeout")

    def register(function: Callable[[Event], R]) -> Callable[[Event], R]:
        checks.function(function, "a listener")
        called = settings.get("name", function.__name__)
        if called == "<lambda>":
            raise UsageError('name the listener: app.on("died", name="mirror"); found <lambda>')
        name = check_name(PREFIX + check_name(called))
        listener = Listener(function, settings.get("reveal", False))
        entry = Entry(
            name=name,
            function=listener.deliver,
            arguments=Arguments(listener.deliver, name),
            policy=policy,
            lane=name,
            timeout=timeout,
            isolation=isolation,
            is_async=check_functions(name, function, None),
            kinds=frozenset(kinds),
        )
        add(entry)
        return function

    return register


def _check_kinds(kinds: Collection[object]) -> None:
    """Raise UsageError for a kind of event that there is not, or for none at all."""
    known = get_args(EventKind)
    if not kinds or not all(kind in known for kind in kinds):
        found = ", ".join(map(repr, kinds)) or "none"
        msg = f'a listener is for events of these kinds: {", ".join(known)}; found {found}: write @app.on("died")'
        raise UsageError(msg)


def listeners(registry: Registry) -> dict[str, Entry]:
    """Return the listeners of a program by the names of their subscriptions."""
    return {entry.name.removeprefix(PREFIX): entry for entry in registry if entry.kinds}


def record(store: Store, registry: Registry) -> None:
    """Store the subscriptions of a program's listeners, as far as the store has others."""
    if wanted := listeners(registry):
        known = store.subscriptions()
        for name, entry in wanted.items():
            if known.get(name) != entry.kinds:
                store.subscribe(name, entry.kinds)


def delivery(event: OutboxEvent, entry: Entry, *, holder: str, now: float) -> Job:
    """Return the job of one delivery, claimed: it is stored only if it dies."""
    before = event.attempts + event.lost
    job = evolve(
        BLANK,
        id=ids.new_id(),
        handler=entry.name,
        lane=entry.lane,
        payload=_payload(event),
        key=f"{entry.name}:{event.number}",
        created=event.at,
        updated=now,
        due=event.at,
        since=event.at,
        attempts=before,
        lease=before,
        crashes=event.lost,
        spent=_spent(entry.policy, before),
        max_attempts=entry.policy.max_attempts,
    )
    return transitions.claimed(job, holder=holder, now=now, lease_end=now)


def _payload(event: OutboxEvent) -> str:
    head, payload = event_fields(event.body)
    fields = {"number": event.number, "kind": event.kind, "at": event.at, "job": head}
    # Error text may have lone surrogates, which a payload must not.
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    whole = f'{{"event":{text.decode()},"payload":{payload}}}'
    try:
        strict_json.loads(whole)
    except BadPayload:  # one level more is too deep
        return f'{{"event":{text.decode()},"payload":{json.dumps(payload)}}}'
    return whole


def _spent(policy: Policy, failures: int) -> Mapping[Category, int]:
    """Count all failures under each category: the outbox does not keep them apart."""
    own = [one for one in Category if not policy.alike or policy.named(one) is not None]
    shared = [one for one in Category if one not in own][:1]
    return dict.fromkeys([*own, *shared], failures) if failures else {}
