"""Which format a record is of, told by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redrive.desk.transfer.formats import articles, events, hooks, summaries, sync
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.record import Format
from redrive.errors import UsageError

OWN: Final = "redrive"  # the name of Redrive's own lines
FORMATS: Final[Mapping[str, Format]] = {
    format_.name: format_
    for format_ in (hooks.FORMAT, articles.FORMAT, summaries.FORMAT, sync.FORMAT, events.FORMAT)
}


def format_of(value: Fields) -> Format | None:
    """Find the format that a record has the shape of; None for one that has none."""
    return next((format_ for format_ in FORMATS.values() if format_.fits(value)), None)


def named(name: str) -> Format:
    """Find a format by its name."""
    if name not in tuple(FORMATS):
        raise UsageError(f"{name!r} is not a format; use one of: {OWN}, {', '.join(FORMATS)}")
    return FORMATS[name]
