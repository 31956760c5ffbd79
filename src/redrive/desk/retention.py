"""How long finished jobs stay: from the `keep` of policies to what the store purges."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from redrive.events import Bus, Event
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.policies.policy import Keep
from redrive.registry import Registry
from redrive.stores.contract import PurgeRule, Store

_BATCH = 10_000


def rules(registry: Registry, others: Keep) -> list[PurgeRule]:
    """Return one rule for each state and age, and one for all handlers not registered here."""
    handlers: dict[PurgeRule, set[str]] = {}
    for entry in registry:
        for rule in rules_of(entry.policy.keep):
            handlers.setdefault(rule, set()).update((entry.name, *entry.formerly))
    own = [replace(rule, handlers=frozenset(names)) for rule, names in handlers.items()]
    return own + [replace(rule, but=registry.names()) for rule in rules_of(others)]


def rules_of(keep: Keep) -> list[PurgeRule]:
    """Return the rules for all handlers; a dead letter that was retried stays as long as a resolved one."""
    kinds = (
        (State.COMPLETED, False, "completed"),
        (State.COMPLETED, True, "resolved"),
        (State.RESOLVED, None, "resolved"),
        (State.DEAD, None, "dead"),
    )
    return [
        PurgeRule(state=state, older_than=age, was_dead=was_dead)
        for state, was_dead, name in kinds
        if (age := keep.ages[name]) is not None
    ]


def purge(store: Store, wanted: list[PurgeRule], bus: Bus) -> int:
    """Remove what the rules name, in batches; every removal is counted and logged."""
    gone: Counter[tuple[str, State]] = Counter()
    while batch := store.purge(wanted, limit=_BATCH):
        gone.update(batch)
        if len(batch) < _BATCH:
            break
    for (handler, state), number in sorted(gone.items()):
        log.info("purged %d %s jobs of %s", number, state, handler)
        bus.emit(Event("purged", detail=f"{number} {state} {handler}"))
    return gone.total()
