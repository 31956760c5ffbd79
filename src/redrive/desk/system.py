"""The store behind a desk: its kind and size, and how long finished jobs stay in it.

Its documents are part of the public face, as those in `shapes` are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, cast

from redrive.jobs.clock import iso
from redrive.jobs.job import State

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.status import Health
    from redrive.policies.policy import Keep

StoreKind = Literal["sqlite", "postgresql", "jsonl", "memory"]


class Kept(TypedDict):
    """Seconds for which finished jobs stay, null is for ever; `handlers` is null for all others."""

    handlers: list[str] | None
    completed: float | None
    resolved: float | None
    dead: float | None


class Removal(TypedDict):
    """The oldest finished job of a state, and the time before which none of that state is removed."""

    state: State
    oldest: str | None
    not_before: str | None


class System(TypedDict):
    """The store, and how long finished jobs stay; `kept` is empty if no program is served."""

    store: str
    kind: StoreKind
    bytes: int | None
    schema: int | None
    durability: str
    kept: list[Kept]
    removals: list[Removal]
    now: str | None


class Bound(NamedTuple):
    """What `Removal` says, with times as the store counts them."""

    state: State
    oldest: float | None
    not_before: float | None


def system_of(backend: Backend, health: Health) -> System:
    """Return what the store is, how long jobs stay in it, and what is removed next."""
    store = backend.store
    return {
        "store": store.url,
        "kind": cast("StoreKind", store.url.partition(":")[0]),
        "bytes": store.size(),
        "schema": store.schema,
        "durability": store.durability,
        "kept": [_kept(keep, handlers) for keep, handlers in _keeps(backend)],
        "removals": [
            {"state": state, "oldest": iso(oldest), "not_before": iso(not_before)}
            for state, oldest, not_before in bounds(backend, health)
        ],
        "now": iso(health.now),
    }


def _keeps(backend: Backend) -> list[tuple[Keep, list[str] | None]]:
    """Return how long jobs stay, by handlers; nothing without a program, whose workers remove them."""
    handlers: dict[Keep, list[str]] = {}
    for entry in backend.registry:
        handlers.setdefault(entry.policy.keep, []).append(entry.name)
    if not handlers:
        return []
    own = [(keep, sorted(names)) for keep, names in handlers.items()]
    return [*sorted(own, key=lambda each: each[1]), (backend.settings.keep, None)]


def _kept(keep: Keep, handlers: list[str] | None) -> Kept:
    ages = keep.ages
    return {
        "handlers": handlers,
        "completed": ages["completed"],
        "resolved": ages["resolved"],
        "dead": ages["dead"],
    }


def bounds(backend: Backend, health: Health) -> list[Bound]:
    """Return the bounds of each finished state, by the shortest time that some handler's jobs stay."""
    keeps = [keep.ages for keep, _ in _keeps(backend)]
    ages = {
        State.COMPLETED: [age for keep in keeps for age in (keep["completed"], keep["resolved"])],
        State.RESOLVED: [keep["resolved"] for keep in keeps],
        State.DEAD: [keep["dead"] for keep in keeps],
    }
    found: list[Bound] = []
    for state, spans in ages.items():
        oldest = health.oldest(state)
        shortest = min((span for span in spans if span is not None), default=None)
        bound = None
        if oldest is not None and shortest is not None:
            bound = max(health.now, oldest + shortest)
        found.append(Bound(state, oldest, bound))
    return found
