"""The selection of a command: ids, groups, and the filters that lists and actions share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from redrive.cli._errors import NOTHING, Stop
from redrive.desk.selection import Filters, read
from redrive.errors import JobNotFound, UsageError
from redrive.jobs.durations import seconds
from redrive.jobs.job import Category, State

_GROUP = re.compile(r"[Gg]\d{1,9}")
_AGE = re.compile(r"\s*(>=?|<=?)\s*(\S+)\s*")

Function = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs that a command line selects, before the store is read."""

    ids: tuple[str, ...] = ()
    """Ids, or beginnings of ids."""
    groups: tuple[int, ...] = ()
    filters: Filters | None = None
    asked: str = ""
    """The selection as it was typed, for the audit log."""

    @property
    def words(self) -> list[str]:
        """Ids and groups, as selectors."""
        return [*self.ids, *(f"G{number}" for number in self.groups)]

    @property
    def is_empty(self) -> bool:
        """True if nothing is selected."""
        return not (self.ids or self.groups or self.filters)


def with_filters(function: Function) -> Function:
    """Add the filter options and the selectors to a command, as keyword arguments."""
    decorators = [
        click.argument("selectors", nargs=-1, metavar="[SELECTOR]..."),
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice([state.value for state in State]),
            help="Repeatable.",
        ),
        click.option("--handler", metavar="NAME", help="A name, or a pattern such as 'mail.*'."),
        click.option("--lane", metavar="NAME"),
        click.option("--category", type=click.Choice([known.value for known in Category])),
        click.option("--group", metavar="G7"),
        click.option("--tag", metavar="TAG"),
        click.option("--key", metavar="KEY", help="The idempotency key."),
        click.option(
            "--age",
            "ages",
            multiple=True,
            metavar="AGE",
            help="Since the last change: '>2h', '<10m'. Repeatable.",
        ),
        click.option("--text", metavar="WORDS", help="Words in the error or the payload."),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def selection_of(options: dict[str, Any], usual: Iterable[State] = tuple(State)) -> Selection:
    """Read the selectors and filter options of a command.

    Ids and filters exclude each other. `usual` are the states that are meant if none is named.
    """
    words = list(_words(options["selectors"]))
    try:
        wanted = read(words, _filters(options), usual)
    except UsageError as error:
        raise UsageError(_expanded(words) or str(error)) from error
    filters = wanted.filters
    if wanted.terms:
        filters["match"] = " ".join(term.raw for term in wanted.terms)
    return Selection(tuple(wanted.ids), tuple(wanted.groups), filters, _asked(options))


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
    handler = (selection.filters or {}).get("handler", "")
    return _expanded((*selection.ids, handler))


def _expanded(words: Iterable[str]) -> str:
    """Return an explanation if one of the words is the name of a file."""
    for word in words:
        if word and os.path.lexists(word):
            return (
                f"{word!r} is a file here: the shell replaces patterns without quotes by file names; "
                "write 'mail.*' with quotes"
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


def _filters(options: dict[str, Any]) -> Filters:
    filters = Filters()
    for name in ("handler", "lane", "category", "group", "tag", "key", "text"):
        if options[name] is None:
            continue
        if not options[name].strip():
            msg = (
                f"--{name} is empty, which would select every job: add a value or remove the option"
            )
            raise UsageError(msg)
        filters[name] = options[name]
    if options["states"]:
        filters["state"] = list(options["states"])
    for age in options["ages"]:
        _add_age(filters, age)
    return filters


def _add_age(filters: Filters, text: str) -> None:
    match = _AGE.fullmatch(text)
    try:
        age = seconds(match[2], name="--age") if match else None
    except UsageError:
        age = None
    if match is None or age is None:
        msg = (
            "--age must be like '>2h' (older) or '<1h30m' (newer), with the units s, m, h, d, w; "
            f"found {text!r}"
        )
        raise UsageError(msg)
    if match[1].startswith(">"):
        filters["older_than"] = max(age, seconds(filters.get("older_than", age)))
    else:
        filters["newer_than"] = min(age, seconds(filters.get("newer_than", age)))


def _asked(options: dict[str, Any]) -> str:
    parts = list(options["selectors"])
    parts += [f"state:{state}" for state in options["states"]]
    for name in ("handler", "lane", "category", "group", "tag", "key", "text"):
        if options[name] is not None:
            parts.append(f"{name}:{options[name]}")
    parts += [f"age:{age}" for age in options["ages"]]
    return " ".join(parts)
