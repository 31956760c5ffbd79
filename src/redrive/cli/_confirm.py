"""Asking a person before something is changed; without a terminal, --yes is needed."""

from __future__ import annotations

import sys

import click

from redrive.cli._errors import FAILED, USAGE, Stop

TYPED = 100  # above so many jobs the number must be typed


def is_interactive() -> bool:
    """Return True if there is a terminal to ask on."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def need_terminal(action: str) -> None:
    """Stop unless a person can be asked about an action."""
    if not is_interactive():
        msg = f"{action} needs confirmation and there is no terminal to ask on"
        raise Stop("needs_yes", msg, hint="add --yes, or look first with --dry-run", exits=USAGE)


def confirm(question: str, *, default: bool = False) -> None:
    """Ask a yes-or-no question; stop unless the answer is yes."""
    if not click.confirm(question, default=default, err=True):
        raise declined()


def confirm_number(number: int, action: str) -> None:
    """Have the number of jobs typed; stop unless it is right."""
    text = click.prompt(f"Type {number} to {action}", err=True, default="", show_default=False)
    if text.strip().replace(",", "") != str(number):
        raise declined()


def declined() -> Stop:
    """Return the error that ends a command which a person declined."""
    return Stop("declined", "nothing was changed", exits=FAILED)
