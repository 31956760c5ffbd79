"""Redrive keeps work that failed: retried by the kind of error, never lost, driven again by people."""

import logging

from redrive import presets
from redrive.app import Redrive
from redrive.errors import (
    BadPayload,
    GiveUp,
    JobNotFound,
    Kept,
    KeyConflict,
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
    UnknownHandler,
    UsageError,
)
from redrive.events import Event
from redrive.handler import Handler, Tried
from redrive.job import Attempt, Category, Failure, Group, Job, Reason, State
from redrive.policy import DEAD, Keep, Pause, Policy, Rule, when
from redrive.strategy import (
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
from redrive.worker.context import Current, current
from redrive.worker.turn import Pass

__version__ = "0.1.0"

# A library stays silent until the program sets up logging.
logging.getLogger("redrive").addHandler(logging.NullHandler())

__all__ = [
    "DEAD",
    "Attempt",
    "BadPayload",
    "Category",
    "ConstantBackoffStrategy",
    "Current",
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
    "Pass",
    "Pause",
    "Policy",
    "Reason",
    "Redrive",
    "RedriveError",
    "Refused",
    "RetryLater",
    "RetryStrategy",
    "Rule",
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
    "UnknownHandler",
    "UsageError",
    "constant",
    "current",
    "exponential",
    "fibonacci",
    "linear",
    "presets",
    "when",
]
