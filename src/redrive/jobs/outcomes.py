"""What happened when a claimed job was run. One of these, never an exception."""

from __future__ import annotations

from dataclasses import dataclass

from redrive.jobs.job import Failure


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned."""

    provider: str | None = None
    """Which of several providers answered, where there was a choice; the same below."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The handler said there is nothing to do any more."""

    reason: str
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """The handler's `already_done` says that the work was done before."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler failed, or was never seen to end (then the category is crash)."""

    failure: Failure
    captured: bool = False
    """It failed in ordinary code, and nobody is registered who could run it again."""
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """It never started, or was stopped by a shutdown or a pause: nothing is spent."""


@dataclass(frozen=True, slots=True)
class Returned:
    """It could not be tried here, through no fault of its own: nothing is spent."""

    why: str
    wait: float | None = None
    """Seconds until it may be tried again; None leaves it due when it was."""
    missing: str = ""
    """The import error, where this program lacks a library: then it cannot run the handler."""


Outcome = Done | Skipped | AlreadyDone | Failed | Interrupted | Returned
