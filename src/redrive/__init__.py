"""Redrive keeps work that failed: retried by the kind of error, never lost, driven again by people.

Names are loaded when they are first asked for, so that `import redrive` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.context import current
    from redrive.errors import GiveUp, RedriveError, RetryLater, Skip
    from redrive.events import Event
    from redrive.handler import Handler, Tried
    from redrive.in_place.fallback import fallback
    from redrive.in_place.retry import retry, retrying
    from redrive.jobs.job import Attempt, Category, Failure, Group, Job, Reason, State
    from redrive.policies import presets
    from redrive.policies.policy import DEAD, Keep, Pause, Policy, Rule, when
    from redrive.strategies import constant, exponential, fibonacci, linear

__all__ = [
    "DEAD",
    "Attempt",
    "Category",
    "Event",
    "Failure",
    "GiveUp",
    "Group",
    "Handler",
    "Job",
    "Keep",
    "Pause",
    "Policy",
    "Reason",
    "Redrive",
    "RedriveError",
    "RetryLater",
    "Rule",
    "Skip",
    "State",
    "Tried",
    "constant",
    "current",
    "exponential",
    "fallback",
    "fibonacci",
    "linear",
    "presets",
    "retry",
    "retrying",
    "when",
]

_HOMES = {
    "redrive.app": "Redrive",
    "redrive.context": "current",
    "redrive.errors": "GiveUp RedriveError RetryLater Skip",
    "redrive.events": "Event",
    "redrive.handler": "Handler Tried",
    "redrive.in_place.fallback": "fallback",
    "redrive.in_place.retry": "retry retrying",
    "redrive.jobs.job": "Attempt Category Failure Group Job Reason State",
    "redrive.policies.policy": "DEAD Keep Pause Policy Rule when",
    "redrive.strategies": "constant exponential fibonacci linear",
}
"""The module that each name is loaded from."""

_ELSEWHERE = {
    "redrive.context": "Current",
    "redrive.delivery.endpoint": "Endpoint",
    "redrive.errors": (
        "AllProvidersFailed AttemptTimeout BadPayload JobNotFound Kept KeyConflict NoAnswer ProviderPaused Refused "
        "ResultRejected StoreBusy StoreDamaged StoreError StoreForeign StoreFull StoreLost StoreMissing "
        "StoreReadOnly Undelivered UnknownHandler UsageError"
    ),
    "redrive.in_place.options": "RetryEvent",
    "redrive.in_place.fallback": "Answer",
    "redrive.strategies": (
        "ConstantBackoffStrategy ExponentialBackoffStrategy FibonacciBackoffStrategy "
        "LinearBackoffStrategy RetryStrategy"
    ),
    "redrive.testing": "FoundJobs Harness ManualClock Simulation in_memory no_waiting simulate",
    "redrive.worker.passes": "Pass",
}
"""Public names that are imported from their own modules, for the message of an AttributeError."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a name when it is first used; raise AttributeError with the right import if it is elsewhere."""
    if name == "presets":
        return import_module("redrive.policies.presets")
    if name not in _HOME_OF:
        home = next((home for home, names in _ELSEWHERE.items() if name in names.split()), None)
        hint = f"redrive.{name} is in {home}: from {home} import {name}" if home else ""
        msg = hint or f"module 'redrive' has no attribute {name!r}"
        raise AttributeError(msg, name=name, obj=globals())
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
