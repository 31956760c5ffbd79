"""Cursors: where a page of jobs ended, as text."""

from __future__ import annotations

from redrive.errors import UsageError
from redrive.stores.contract import Query

Place = tuple[float, str]
"""The last change (0.0 where pages go by submit) and the id of a job."""


def cursor_of(updated: float, job_id: str, *, by_change: bool) -> str:
    """Write where a page ended."""
    return f"c{updated!r}:{job_id}" if by_change else f"i{job_id}"


def read_cursor(cursor: str, *, by_change: bool) -> Place:
    """Return the last job of the page before; UsageError if the cursor is of another order."""
    kind, rest = cursor[:1], cursor[1:]
    updated, _, job_id = rest.partition(":")
    try:
        if kind == ("c" if by_change else "i"):
            return (float(updated), job_id) if by_change else (0.0, rest)
    except ValueError:
        pass
    msg = f"{cursor!r} is not a cursor of this order; pass the cursor of the page before"
    raise UsageError(msg)


def place_after(query: Query) -> Place | None:
    """Return where the page before the one of this query ended; None for the first page."""
    return None if query.cursor is None else read_cursor(query.cursor, by_change=query.by_change)
