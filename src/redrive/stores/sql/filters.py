"""Queries of people as conditions: each part that is asked for adds one named condition.

The text of every condition is a constant of the dialect; what people wrote is bound, never put in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from redrive.errors import UsageError
from redrive.jobs.job import State
from redrive.stores.contract import Query
from redrive.stores.sql.tx import Tx

LAST = "\U0010ffff"
"""Sorts after everything a name can continue with."""

_DEAD = frozenset({State.DEAD})
_FEW = 20_000
"""Up to so many jobs are sorted rather than looked for in the order of ids."""


@dataclass(slots=True)
class Where:
    """Names of conditions that must all hold, and what is bound to them, in order."""

    names: list[str] = field(default_factory=list[str])
    args: list[object] = field(default_factory=list[object])

    def add(self, name: str, *args: object) -> None:
        """Ask for one more."""
        self.names.append(name)
        self.args.extend(args)


def conditions(tx: Tx, query: Query) -> Where:
    """Give the conditions of a query, all but its states and its cursor."""
    where = Where()
    _about_failure(query, where)
    _about_identity(tx, query, where)
    _about_work(tx, query, where)
    if query.older_than is not None:
        where.add("older_than", tx.now() - query.older_than)
    if query.newer_than is not None:
        where.add("newer_than", tx.now() - query.newer_than)
    if query.text:
        where.add("text", *[query.text.casefold()] * 4)
    return where


def _about_failure(query: Query, where: Where) -> None:
    if query.category is not None:
        where.add("category", query.category.value)
    if query.group is not None:
        where.add("group", query.group)
    if query.failed:
        where.add("failed")


def _about_identity(tx: Tx, query: Query, where: Where) -> None:
    if query.ids:
        where.add("ids", tx.array(query.ids))
    if query.prefix:
        where.add("prefix", query.prefix, query.prefix + LAST)
    if query.key:
        where.add("key", query.key)
    if query.run is not None:
        where.add("run", query.run, -query.run)


def _about_work(tx: Tx, query: Query, where: Where) -> None:
    if query.handler:
        if "*" in query.handler:
            where.add("handler_like", tx.pattern(query.handler))
        else:
            where.add("handler", query.handler)
    if query.lane:
        where.add("lane", query.lane)
    if query.tag:
        where.add("tag", query.tag)


def begin_list(tx: Tx, query: Query, where: Where) -> str:
    """Choose the beginning of a list, which says the index it goes along, and ask for the states."""
    states = tx.array([state.value for state in query.states])
    named = bool(query.ids or query.key or query.prefix or query.run is not None)
    if query.states == _DEAD and not named and (query.by_change or query.group is not None):
        where.add("dead")
        return "list_dead_by_change" if query.group is None else "list_dead_by_cause"
    if query.states and not named and _are_few(tx, states):
        where.add("states", states)
        return "list_by_kind"
    if query.states:
        where.add("among_states", states)
    return "list" if named or query.by_change else "list_by_id"


def _are_few(tx: Tx, states: object) -> bool:
    found = tx.one("few", (states, _FEW))
    return found is not None and found[0] < _FEW


def begin_tally(tx: Tx, query: Query, where: Where) -> str:
    """Choose the beginning of a count by cause, and ask for the states: dead unless said."""
    where.add("grouped")
    if (query.states or _DEAD) == _DEAD and not query.text and query.run is None:
        where.add("dead")
        return "tally_dead"
    where.add("among_states", tx.array([state.value for state in query.states or _DEAD]))
    return "tally"


def continue_after(cursor: str, query: Query, where: Where) -> None:
    """Ask only for what comes after the page whose cursor this is."""
    kind, rest = cursor[:1], cursor[1:]
    if query.by_change and kind == "c":
        where.add("after_change", *_time_and_id(cursor, rest))
    elif not query.by_change and kind == "i":
        where.add("after_submit", rest)
    else:
        raise _bad_cursor(cursor)


def _time_and_id(cursor: str, rest: str) -> tuple[float, str]:
    updated, _, job_id = rest.partition(":")
    try:
        return float(updated), job_id
    except ValueError:
        raise _bad_cursor(cursor) from None


def _bad_cursor(cursor: str) -> UsageError:
    return UsageError(f"{cursor!r} is no cursor of this order; pass on what the last page gave")
