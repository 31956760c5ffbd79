"""The selection of a command: ids, groups, and the filters that lists and actions share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import click

from redrive.cli._command import option
from redrive.cli._errors import NOTHING, Stop
from redrive.desk.selection import Filters, Selection, read
from redrive.errors import JobNotFound, UsageError
from redrive.jobs.job import Category, State

_GROUP = re.compile(r"[Gg]\d{1,9}")
_TEXTS = ("handler", "lane", "category", "group", "tag", "key", "text")
"""The options that are one text each."""

Function = Callable[..., None]


def with_filters(function: Function) -> Function:
    """Add the filter options and the selectors to a command, as keyword arguments."""
    decorators = [
        click.argument("selectors", nargs=-1, metavar="[SELECTOR]..."),
        option(
            "--state", "Repeatable.", [state.value for state in State], name="states", multiple=True
        ),
        option("--handler NAME", "A name, or a pattern such as 'mail.*'."),
        option("--lane NAME"),
        option("--category", kind=[known.value for known in Category]),
        option("--group G7"),
        option("--tag TAG"),
        option("--key KEY", "The idempotency key."),
        option(
            "--age AGE",
            "Since the last change: '>2h', '<10m'. Repeatable.",
            name="ages",
            multiple=True,
        ),
        option("--text WORDS", "Words in the error or the payload."),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def selection_of(options: dict[str, Any], usual: Iterable[State] = tuple(State)) -> Selection:
    """Read the selectors and filter options of a command.

    Ids and filters exclude each other. `usual` are the states that are meant if none is named.
    """
    ages = [f"age:{''.join(age.split())}" for age in options.get("ages", ())]
    words = [*_words(options["selectors"]), *ages]
    filters = cast("Filters", {n: options[n] for n in _TEXTS if options.get(n) is not None})
    if empty := [name for name, value in filters.items() if not str(value).strip()]:
        raise UsageError(
            f"--{empty[0]} is empty, which would select every job: add a value or remove the option"
        )
    asked = [*options["selectors"], *(f"state:{state}" for state in options.get("states", ()))]
    asked += [*(f"{name}:{value}" for name, value in filters.items()), *ages]
    if options.get("states"):
        filters["state"] = list(options["states"])
    return _read(words, filters, usual, " ".join(asked))


def chosen(selectors: Iterable[str], usual: Iterable[State] = tuple(State)) -> Selection:
    """Read the selectors of a command that acts; `-` is ids on standard input."""
    return _read(list(_words(selectors)), Filters(), usual, " ".join(selectors))


def _read(words: list[str], filters: Filters, usual: Iterable[State], asked: str) -> Selection:
    try:
        return replace(read(words, filters, usual), asked=asked)
    except UsageError as error:
        raise UsageError(_expanded(words) or str(error)) from error


def is_group(word: str) -> bool:
    """Return True if a word names a group, such as G7."""
    return _GROUP.fullmatch(word) is not None


@contextmanager
def explained(selection: Selection) -> Generator[None]:
    """Explain an unknown name that is a file name: the shell has expanded a pattern."""
    try:
        yield
    except (JobNotFound, UsageError) as error:
        if hint := _expanded(selection.ids):
            raise UsageError(hint) from error
        raise


def unquoted(selection: Selection) -> str:
    """Return a hint if nothing matched because the shell expanded a pattern to a file name."""
    handler = selection.filters.get("handler", "")
    return _expanded((*selection.ids, handler))


def _expanded(words: Iterable[str]) -> str:
    """Return an explanation if one of the words is the name of a file."""
    for word in words:
        if word and os.path.lexists(word):
            return (
                f"{word!r} is a file here: the shell expanded a pattern; quote it, as in 'mail.*'"
            )
    return ""


def _words(selectors: Iterable[str]) -> Iterable[str]:
    for word in selectors:
        if word == "-":
            yield from _ids_on_stdin()
        else:
            yield word


def _ids_on_stdin() -> list[str]:
    """Read ids from standard input; none at all is an error, not a selection of every job."""
    if ids := sys.stdin.read().split():
        return ids
    raise Stop("nothing_matched", "no ids on standard input", exits=NOTHING)
