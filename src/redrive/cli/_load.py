"""Importing the program that is named as `module:attribute`."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from types import FunctionType
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import click

from redrive.app import Redrive
from redrive.cli._cli import Cli
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli._logging import leave_log_to_program, warn_on_stderr
from redrive.config import Config
from redrive.errors import ProgramMissing, UsageError
from redrive.jobs.checks import is_async
from redrive.worker.programs import load_program

T = TypeVar("T")


@contextmanager
def load_app(
    cli: Cli,
    name: str,
    *,
    level: int = logging.WARNING,
    times: bool = False,
    existing: bool = False,
) -> Generator[Redrive]:
    """Import a program's Redrive object with its own store, and close it at the end.

    With `existing` a missing store is not created. A log with `times` has a time in each line.
    """
    if cli.store is not None:
        raise click.UsageError("the program sets its own store: remove --store")
    warn_on_stderr(level, times=times)
    with find_program(name) as app:
        leave_log_to_program()
        app.submitter.must_exist = existing
        _say_other_store(cli, name, app.store.url)
        set_up_alerts(cli, app)
        yield app


def set_up_alerts(cli: Cli, app: Redrive) -> None:
    """Set up the alerts of the settings file for a program that has none."""
    try:
        settings = cli.config.alerts
    except UsageError:
        return  # the program does not need the file
    if app.alerts is None and settings:
        from redrive.alerts import Alerts  # noqa: PLC0415 - few files have any

        app.alerts = Alerts()


def program_name(cli: Cli, name: str | None) -> str | None:
    """Return the program that was named, or the one in the settings of this directory."""
    if name is None and (above := not_loaded(cli.config)):
        cli.say(f"note: {'; '.join(above)}")
    return name or cli.config.app


def not_loaded(config: Config) -> tuple[str, str] | None:
    """Return a note and a remedy if only a file in a directory above names a program."""
    if config.app_above is None or config.file is None:
        return None
    note = f"app {config.app_above} is not loaded: {config.file} is in a directory above this one"
    return note, f"name it on the command line, or run the command in {config.file.parent}"


def program_of(cli: Cli, name: str | None) -> Redrive | None:
    """Return the program that has the handlers: the one named, or that of the settings if it loads.

    Only its handlers are used; the store is that of the command.
    """
    if name is not None:
        return find_program(name)
    configured = program_name(cli, None)
    if configured is None:
        return None
    try:
        return find_program(configured)
    except click.ClickException as error:
        cli.say(f"note: not checked against the handler: {error.message}")
        return None


def _say_other_store(cli: Cli, name: str, used: str) -> None:
    """Print a note if other commands would use another store than the program does."""
    try:
        config = cli.config
    except UsageError:
        return  # the program does not need the file
    if config.source != "default" and _place(config.store) != _place(used):
        # Not what it names: there may be a password in it.
        cli.say(f"note: {name} uses {used}; {config.source} names another store for `redrive`")


def _place(url: str) -> tuple[str, str]:
    """Return the kind of a store and where it is, to compare two URLs."""
    scheme, colon, rest = url.partition(":")
    if scheme in {"postgresql", "postgres"}:
        parts = urlsplit(url)
        server = parts.netloc.rpartition("@")[2].removesuffix(":5432")
        schema = parse_qs(parts.query).get("schema", ["redrive"])[0]
        return "postgresql", f"{server}{parts.path}?{schema}"
    if not colon or scheme not in {"sqlite", "jsonl", "memory"}:
        scheme, rest = "sqlite", url
    path = rest.removeprefix("//")
    return scheme, path and os.path.realpath(os.path.expanduser(path))  # noqa: PTH111


def find_program(name: str) -> Redrive:
    """Import a program's Redrive object; stop with the reason if that fails."""
    return _find(name, Redrive)


def find_function(name: str) -> FunctionType:
    """Import a function that is named as `module:function`; stop with the reason if that fails."""
    function = _find(name, FunctionType)
    if is_async(function):
        raise click.UsageError(f"{name} is async; name a plain function or a generator function")
    return function


def _find(name: str, kind: type[T]) -> T:
    try:
        return load_program(name, kind)
    except ProgramMissing as error:
        exits = FAILED if error.broken else USAGE
        raise Stop("no_app", str(error), hint=error.hint, exits=exits) from error
    except UsageError as error:
        raise click.UsageError(str(error)) from error
