"""Finding the program that a person names as `module:attribute`."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from urllib.parse import urlsplit

import click

from redrive.app import Redrive
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli._face import Face, leave_log_to_program, warn_on_stderr
from redrive.errors import UsageError
from redrive.redact import error_text, type_name

_ABSENT = object()


@contextmanager
def load_app(face: Face, name: str, *, level: int = logging.WARNING) -> Generator[Redrive]:
    """Import a program's Redrive object and close it at the end; its store is its own."""
    if face.store is not None:
        msg = "the program names its own store: leave --store out"
        raise click.UsageError(msg)
    warn_on_stderr(level)
    with _found(name) as app:
        leave_log_to_program()
        _say_other_store(face, name, app.store.url)
        yield app


def _say_other_store(face: Face, name: str, used: str) -> None:
    """Say it when all other commands would look into another store than the program's."""
    try:
        config = face.config
    except UsageError:
        return  # a broken file is no matter of the program's
    if config.source != "default" and _place(config.store) != _place(used):
        # Not what it names: there may be a password in it.
        face.say(f"note: {name} uses {used}; {config.source} names another store for `redrive`")


def _place(url: str) -> tuple[str, str]:
    """Give the kind of a store and where it is, to tell whether two URLs mean one store."""
    scheme, colon, rest = url.partition(":")
    if scheme in {"postgresql", "postgres"}:
        parts = urlsplit(url)
        return "postgresql", parts.netloc.rpartition("@")[2].removesuffix(":5432") + parts.path
    if not colon or scheme not in {"sqlite", "jsonl", "memory"}:
        scheme, rest = "sqlite", url
    path = rest.removeprefix("//")
    return scheme, path and os.path.realpath(os.path.expanduser(path))  # noqa: PTH111


def _found(name: str) -> Redrive:
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        msg = f"{name!r} names no program; write module:attribute, as in shop.jobs:app"
        raise click.UsageError(msg)
    module = _imported(module_name)
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, _ABSENT)
    if isinstance(found, Redrive):
        return found
    msg = f"{name} is of the type {type_name(found)}, not a Redrive object"
    if found is _ABSENT:
        msg = f"module {module_name} has no {path!r}"
    raise Stop("no_app", msg, hint=_others(module, module_name), exits=USAGE)


def _imported(name: str) -> ModuleType:
    here = os.getcwd()  # noqa: PTH109 - the text that `python -m` would put there too
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            msg = f"no module {name!r} here or on the path of {sys.executable}"
            hint = "run it in the program's directory and environment"
            raise Stop("no_app", msg, hint=hint, exits=USAGE) from error
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error
    except SystemExit as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> Stop:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    said = error_text(error)
    msg = f"importing {name} failed: {type_name(error)}{f': {said}' if said else ''}{place}"
    hint = f"python -c 'import {name}' shows the whole traceback"
    return Stop("no_app", msg, hint=hint, exits=FAILED)


def _others(module: ModuleType, name: str) -> str:
    known = [key for key, value in vars(module).items() if isinstance(value, Redrive)]
    return f"did you mean {name}:{known[0]}?" if known else ""
