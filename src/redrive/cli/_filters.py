"""The selectors of a command: words, and `-` for ids on standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace

import click

from redrive.cli._errors import NOTHING, Stop
from redrive.desk.search import Selection, read
from redrive.desk.selectors import Filters
from redrive.errors import JobNotFound, UsageError
from redrive.jobs.job import State

_GROUP = re.compile(r"[Gg]\d{1,9}")

with_selectors = click.argument("selectors", nargs=-1, metavar="[SELECTOR]...")


def chosen(selectors: Iterable[str], usual: Iterable[State] = tuple(State)) -> Selection:
    """Read the selectors of a command. `usual` are the states that are meant if none is named."""
    words: list[str] = []
    for word in selectors:
        words += _ids_on_stdin() if word == "-" else [word]
    with explained(words):
        return replace(read(words, Filters(), usual), asked=" ".join(selectors))


def is_group(word: str) -> bool:
    """Return True if a word names a group, such as G7."""
    return _GROUP.fullmatch(word) is not None


@contextmanager
def explained(words: Iterable[str]) -> Generator[None]:
    """Explain a word that names no job and is a file name: the shell has expanded a pattern."""
    try:
        yield
    except (JobNotFound, UsageError) as error:
        for word in filter(os.path.lexists, words):
            msg = f"{word!r} is a file here: the shell expanded a pattern; quote it, as in 'mail.*'"
            raise UsageError(msg) from error
        raise


def _ids_on_stdin() -> list[str]:
    """Read ids from standard input; none at all is an error, not a selection of every job."""
    if ids := sys.stdin.read().split():
        return ids
    raise Stop("nothing_matched", "no ids on standard input", exits=NOTHING)
