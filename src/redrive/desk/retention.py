"""How long finished jobs stay: from the `keep` of policies to what the store purges."""

from __future__ import annotations

from collections import Counter

from redrive.events import Bus, Event
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.policies.policy import Keep
from redrive.registry import Registry
from redrive.stores.contract import PurgeRule, Store

_BATCH = 10_000


def rules(registry: Registry, others: Keep) -> list[PurgeRule]:
    """Return one rule for each state and age, and one for all handlers not registered here."""
    purge_rules: list[PurgeRule] = []
    ages: dict[tuple[State, float], set[str]] = {}
    for entry in registry:
        for state, age in _ages(entry.policy.keep):
            ages.setdefault((state, age), set()).update((entry.name, *entry.formerly))
    for (state, age), names in ages.items():
        purge_rules.append(PurgeRule(state=state, older_than=age, handlers=frozenset(names)))
    for state, age in _ages(others):
        purge_rules.append(PurgeRule(state=state, older_than=age, but=registry.names()))
    return purge_rules


def _ages(keep: Keep) -> list[tuple[State, float]]:
    pairs = (
        (State.COMPLETED, keep.completed),
        (State.RESOLVED, keep.resolved),
        (State.DEAD, keep.dead),
    )
    return [(state, age) for state, age in pairs if age is not None]


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
