"""The job that a handler is running: `redrive.current()`."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from redrive.errors import UsageError
from redrive.jobs.job import Job
from redrive.policies.policy import When
from redrive.stores.contract import Store


@dataclass(slots=True, eq=False)  # not frozen: that would cost more than all the rest of a start
class Current:
    """The job this code is running for."""

    handler: str
    _job: Job = field(repr=False)
    deadline: float | None = None
    """When its time is up (seconds since 1970), if the handler has a time limit."""
    hurried: bool = False
    """True in a pass with `ignore_backoff`: waits, pauses and cooldowns do not count."""
    store: Callable[[], Store] | None = field(default=None, repr=False)
    """Opens the store that the job is in, for what is shared with other workers."""
    rules: Sequence[When] = field(default=(), repr=False)
    """What its policy says about errors."""
    lease_lost: bool = False
    """True if the lease of this job was lost: stop, the result will not count."""
    provider: str | None = None
    """The provider that answered last, if `fallback` asked any."""

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._job.id

    @property
    def key(self) -> str:
        """Send this downstream as the idempotency key: stable over all attempts, new after an edit."""
        return self._job.delivery_key

    @property
    def attempt(self) -> int:
        """Which attempt of this life it is, from 1."""
        return self._job.attempts

    @property
    def max_attempts(self) -> int:
        """How many attempts this life may have."""
        return self._job.max_attempts

    @property
    def life(self) -> int:
        """0 before the first retry by a person: only 0 with attempt 1 is the very first attempt."""
        return self._job.redrives

    @property
    def payload(self) -> str:
        """Its stored payload, for the secrets in it."""
        return self._job.payload

    def answered(self, provider: str) -> None:
        """Record on the attempt which provider answered."""
        self.provider = provider

    def lose(self) -> None:
        """Mark the lease as lost, for the handler to see."""
        self.lease_lost = True


_current: contextvars.ContextVar[Current | None] = contextvars.ContextVar("redrive", default=None)


def running() -> Current | None:
    """Return what is known of the job that this code runs for; None outside a handler."""
    return _current.get()


def current() -> Current:
    """Return what is known of the job that this code runs for; UsageError outside a handler."""
    running = _current.get()
    if running is None:
        raise UsageError("redrive.current() works only inside a handler that Redrive is running")
    return running


enter = _current.set
"""Make a job the current one; return the token for `leave`."""

leave = _current.reset
"""Go back to what was current before."""
