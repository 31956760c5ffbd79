"""Errors: the message with its hint for people, and the exit code for scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from redrive.errors import (
    JobNotFound,
    KeyConflict,
    RedriveError,
    Refused,
    StoreError,
    UsageError,
)

DONE, FAILED, USAGE, NOTHING, CONFLICT, STORE, PARTLY, STOPPED = range(8)
"""The exit codes. Scripts rely on them: none changes its meaning."""

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, explained."""

    code: str
    message: str
    hint: str
    exit: int


class Stop(click.ClickException):
    """Ends a command with a message, a hint and an exit code of its own."""

    def __init__(self, code: str, message: str, *, hint: str = "", exits: int) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.exits = exits


def explain(error: Exception) -> Problem | None:
    """Explain an error; return None for one that is a bug of ours."""
    match error:
        case Stop():
            return Problem(error.code, error.message, error.hint, error.exits)
        case click.UsageError():
            hint = f"{error.ctx.command_path} --help" if error.ctx else ""
            return Problem("usage", error.format_message(), hint, USAGE)
        case click.ClickException():
            return Problem("failed", error.format_message(), "", error.exit_code)
        case RedriveError():
            return Problem(_code(error), str(error), "", _exit_of(error))
        case OSError():
            return Problem("io", _os_message(error), "", FAILED)
        case _:
            return None


def _exit_of(error: RedriveError) -> int:
    match error:
        case KeyConflict() | Refused():
            return CONFLICT
        case UsageError():
            return USAGE
        case JobNotFound():
            return NOTHING
        case StoreError():
            return STORE
        case _:
            return FAILED


def _code(error: Exception) -> str:
    """Return the code of an error by its class: store_missing for StoreMissing."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def _os_message(error: OSError) -> str:
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text
