"""What a handler may ask about itself while it runs: `redrive.current()`."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field

from redrive.errors import UsageError


@dataclass(frozen=True, slots=True)
class Current:
    """The job this code is running for."""

    job_id: str
    handler: str
    key: str
    """Send this downstream as the idempotency key: stable over all attempts, new after an edit."""
    attempt: int
    """Which attempt of this life it is, from 1."""
    limit: int
    life: int = 0
    """0 before the first retry by a person: only 0 and attempt 1 is the very first try."""
    deadline: float | None = None
    """When its time is up (seconds since 1970), if the handler has a time limit."""
    _lost: list[bool] = field(default_factory=list)

    @property
    def lease_lost(self) -> bool:
        """Whether the right to run this job was lost: stop, the result will not count."""
        return bool(self._lost)

    def lose(self) -> None:
        """Tell the handler that its lease is gone."""
        self._lost.append(True)


_current: contextvars.ContextVar[Current | None] = contextvars.ContextVar("redrive", default=None)


def current() -> Current:
    """Give the job this code is running for; UsageError outside a handler."""
    found = _current.get()
    if found is None:
        msg = "redrive.current() works only inside a handler that Redrive is running"
        raise UsageError(msg)
    return found


def enter(context: Current) -> contextvars.Token[Current | None]:
    """Make a job the current one; give the token to `leave`."""
    return _current.set(context)


def leave(token: contextvars.Token[Current | None]) -> None:
    """Go back to what was current before."""
    _current.reset(token)
