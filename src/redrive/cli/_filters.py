"""Which jobs a command is about: ids, groups, and the filters that `list` and the acts share."""

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
    """What was asked for, before anything is looked up."""

    ids: tuple[str, ...] = ()
    """Ids, or beginnings of ids."""
    groups: tuple[int, ...] = ()
    filters: Filters | None = None
    asked: str = ""
    """The selection as it was typed, for the record."""

    @property
    def words(self) -> list[str]:
        """Ids and groups, as the library is asked for them."""
        return [*self.ids, *(f"G{number}" for number in self.groups)]

    @property
    def is_empty(self) -> bool:
        """True if nothing was asked for at all."""
        return not (self.ids or self.groups or self.filters)


def with_filters(function: Function) -> Function:
    """Add the filter options and the selectors to a command, as keyword arguments."""
    options = [
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
    for option in reversed(options):
        function = option(function)
    return function


def selection_of(said: dict[str, Any], usual: Iterable[State] = tuple(State)) -> Selection:
    """Turn the selectors and filter options of a command into a selection.

    Ids and filters together would leave one of them without effect, so they are refused. `usual` are
    the states that are meant where none is named.
    """
    words = list(_words(said["selectors"]))
    try:
        wanted = read(words, _filters(said), usual)
    except UsageError as error:
        raise UsageError(_expanded(words) or str(error)) from error
    filters = wanted.filters
    if wanted.terms:
        filters["match"] = " ".join(term.raw for term in wanted.terms)
    return Selection(tuple(wanted.ids), tuple(wanted.groups), filters, _asked(said))


def is_group(word: str) -> bool:
    """Return True if a word names a group, such as G7."""
    return _GROUP.fullmatch(word) is not None


@contextmanager
def explained(selection: Selection) -> Generator[None]:
    """Explain an unknown name that came from a pattern which the shell has expanded."""
    try:
        yield
    except (JobNotFound, UsageError) as error:
        said = _expanded(selection.ids)
        if said:
            raise UsageError(said) from error
        raise


def unquoted(selection: Selection) -> str:
    """Return a hint where nothing was found because the shell expanded a pattern to a file name."""
    handler = (selection.filters or {}).get("handler", "")
    return _expanded((*selection.ids, handler))


def _expanded(words: Iterable[str]) -> str:
    """Explain the first word that is the name of a file here, if one is."""
    for word in words:
        if word and os.path.lexists(word):
            return (
                f"{word!r} is a file here: the shell puts file names in the place of a pattern "
                "without quotes; write it as 'mail.*'"
            )
    return ""


def _words(selectors: Iterable[str]) -> Iterable[str]:
    for word in selectors:
        if word == "-":
            yield from _ids_told()
        else:
            yield word


def _ids_told() -> list[str]:
    """Read ids from standard input. None at all is no word that may be left out: it means no job."""
    if ids := sys.stdin.read().split():
        return ids
    raise Stop("nothing_matched", "no ids on standard input", exits=NOTHING)


def _filters(said: dict[str, Any]) -> Filters:
    filters = Filters()
    for name in ("handler", "lane", "category", "group", "tag", "key", "text"):
        if said[name] is None:
            continue
        if not said[name].strip():
            msg = f"--{name} is empty, which would mean every job: give a value or leave it out"
            raise UsageError(msg)
        filters[name] = said[name]
    if said["states"]:
        filters["state"] = list(said["states"])
    for age in said["ages"]:
        _add_age(filters, age)
    return filters


def _add_age(filters: Filters, text: str) -> None:
    found = _AGE.fullmatch(text)
    try:
        age = seconds(found[2], name="--age") if found else None
    except UsageError:
        age = None
    if found is None or age is None:
        msg = (
            "--age must be like '>2h' (older) or '<1h30m' (newer), with the units s, m, h, d, w; "
            f"found {text!r}"
        )
        raise UsageError(msg)
    if found[1].startswith(">"):
        filters["older_than"] = max(age, seconds(filters.get("older_than", age)))
    else:
        filters["newer_than"] = min(age, seconds(filters.get("newer_than", age)))


def _asked(said: dict[str, Any]) -> str:
    parts = list(said["selectors"])
    parts += [f"state:{state}" for state in said["states"]]
    for name in ("handler", "lane", "category", "group", "tag", "key", "text"):
        if said[name] is not None:
            parts.append(f"{name}:{said[name]}")
    parts += [f"age:{age}" for age in said["ages"]]
    return " ".join(parts)
