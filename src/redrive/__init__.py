"""Redrive keeps work that failed: retried by the kind of error, never lost, driven again by people.

Names are loaded when they are first asked for, so that `import redrive` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.context import Current, current
    from redrive.delivery.endpoint import Endpoint
    from redrive.errors import (
        AllProvidersFailed,
        BadPayload,
        GiveUp,
        JobNotFound,
        Kept,
        KeyConflict,
        NoAnswer,
        ProviderPaused,
        RedriveError,
        Refused,
        RetryLater,
        Skip,
        StoreBusy,
        StoreDamaged,
        StoreError,
        StoreForeign,
        StoreFull,
        StoreLost,
        StoreMissing,
        StoreReadOnly,
        Undelivered,
        UnknownHandler,
        UsageError,
    )
    from redrive.events import Event
    from redrive.handler import Handler, Tried
    from redrive.in_place.fallback import Answer, fallback
    from redrive.in_place.retry import Simulation, retry, simulate
    from redrive.jobs.job import Attempt, Category, Failure, Group, Job, Reason, State
    from redrive.policies import presets
    from redrive.policies.policy import DEAD, Keep, Pause, Policy, Rule, when
    from redrive.strategies import (
        ConstantBackoffStrategy,
        ExponentialBackoffStrategy,
        FibonacciBackoffStrategy,
        LinearBackoffStrategy,
        RetryStrategy,
        constant,
        exponential,
        fibonacci,
        linear,
    )
    from redrive.worker.passes import Pass

__all__ = [
    "DEAD",
    "AllProvidersFailed",
    "Answer",
    "Attempt",
    "BadPayload",
    "Category",
    "ConstantBackoffStrategy",
    "Current",
    "Endpoint",
    "Event",
    "ExponentialBackoffStrategy",
    "Failure",
    "FibonacciBackoffStrategy",
    "GiveUp",
    "Group",
    "Handler",
    "Job",
    "JobNotFound",
    "Keep",
    "Kept",
    "KeyConflict",
    "LinearBackoffStrategy",
    "NoAnswer",
    "Pass",
    "Pause",
    "Policy",
    "ProviderPaused",
    "Reason",
    "Redrive",
    "RedriveError",
    "Refused",
    "RetryLater",
    "RetryStrategy",
    "Rule",
    "Simulation",
    "Skip",
    "State",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreForeign",
    "StoreFull",
    "StoreLost",
    "StoreMissing",
    "StoreReadOnly",
    "Tried",
    "Undelivered",
    "UnknownHandler",
    "UsageError",
    "constant",
    "current",
    "exponential",
    "fallback",
    "fibonacci",
    "linear",
    "presets",
    "retry",
    "simulate",
    "when",
]

_HOMES = {
    "redrive.in_place.fallback": "Answer fallback",
    "redrive.in_place.retry": "Simulation retry simulate",
    "redrive.app": "Redrive",
    "redrive.errors": "AllProvidersFailed BadPayload GiveUp JobNotFound Kept KeyConflict NoAnswer ProviderPaused RedriveError Refused RetryLater Skip StoreBusy StoreDamaged StoreError StoreForeign StoreFull StoreLost StoreMissing StoreReadOnly Undelivered UnknownHandler UsageError",
    "redrive.delivery.endpoint": "Endpoint",
    "redrive.events": "Event",
    "redrive.handler": "Handler Tried",
    "redrive.jobs.job": "Attempt Category Failure Group Job Reason State",
    "redrive.policies.policy": "DEAD Keep Pause Policy Rule when",
    "redrive.strategies": "ConstantBackoffStrategy ExponentialBackoffStrategy FibonacciBackoffStrategy LinearBackoffStrategy RetryStrategy constant exponential fibonacci linear",
    "redrive.context": "Current current",
    "redrive.worker.passes": "Pass",
}
"""Which module each name comes from."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load what is asked for the first time."""
    if name == "presets":
        return import_module("redrive.policies.presets")
    if name not in _HOME_OF:
        msg = f"module 'redrive' has no attribute {name!r}"
        raise AttributeError(msg, name=name, obj=globals())
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
