"""Which jobs: from what people say (ids, groups, filters) to a query and to a frozen set of ids."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TypedDict, TypeVar, Unpack

from redrive import _duration
from redrive._duration import Duration
from redrive.errors import JobNotFound, UsageError
from redrive.job import Category, Group, Job, State
from redrive.stores.base import Query, Store

Target = str | Job | Group
"""A job, its id or the unique beginning of one; a group or its name, such as "G7"."""

_GROUP = re.compile(r"[Gg](\d{1,9})")
_ID = re.compile(r"[0-9A-Za-z_-]{4,64}")
_PAGE = 1000
E = TypeVar("E", State, Category)


class Filters(TypedDict, total=False):
    """What `find`, `groups` and the verbs of people can be asked for by name."""

    state: State | str | Iterable[State | str]
    handler: str
    lane: str
    category: Category | str
    group: int | str | Group
    tag: str
    key: str
    run: int
    older_than: Duration
    newer_than: Duration
    failed: bool
    text: str


def query_of(**filters: Unpack[Filters]) -> Query:
    """Build a query from filters; says which words it knows when one is wrong."""
    query = Query(
        handler=filters.get("handler", ""),
        lane=filters.get("lane", ""),
        tag=filters.get("tag", ""),
        key=filters.get("key", ""),
        run=filters.get("run"),
        failed=filters.get("failed", False),
        text=filters.get("text", ""),
        states=_states(filters.get("state", ())),
    )
    if "category" in filters:
        query = replace(query, category=_word(Category, filters["category"], "category"))
    if "group" in filters:
        query = replace(query, group=group_number(filters["group"]))
    if "older_than" in filters:
        age = _duration.seconds(filters["older_than"], name="older_than")
        query = replace(query, older_than=age)
    if "newer_than" in filters:
        age = _duration.seconds(filters["newer_than"], name="newer_than")
        query = replace(query, newer_than=age)
    return query


def _states(value: State | str | Iterable[State | str]) -> frozenset[State]:
    words = [value] if isinstance(value, str) else list(value)
    return frozenset(_word(State, word, "state") for word in words)


def _word(kind: type[E], value: str, name: str) -> E:
    try:
        return kind(value)
    except ValueError:
        msg = f"{value!r} is no {name}; use one of: {', '.join(kind)}"
        raise UsageError(msg) from None


def group_number(value: int | str | Group) -> int:
    """Give the number of a group said as 7, "7" or "G7"."""
    if isinstance(value, Group):
        return value.number
    if isinstance(value, int):
        return value
    found = _GROUP.fullmatch(value)
    if found:
        return int(found[1])
    if value.isascii() and value.isdecimal():
        return int(value)
    msg = f"{value!r} is no group; groups are named G1, G2 …: see `redrive groups`"
    raise UsageError(msg)


def freeze(store: Store, targets: Iterable[Target], query: Query | None) -> list[str]:
    """Give the ids that are meant, each once, as they are now; nothing later joins the set."""
    ids: dict[str, None] = {}
    for target in targets:
        if isinstance(target, Job):
            ids[target.id] = None
        elif isinstance(target, Group) or _GROUP.fullmatch(target):
            wanted = replace(query or Query(), group=group_number(target))
            ids.update(dict.fromkeys(_all(store, wanted)))
        else:
            ids[job_id(store, target)] = None
    if query is not None and not ids and not any(True for _ in targets):
        ids.update(dict.fromkeys(_all(store, query)))
    return list(ids)


def job_id(store: Store, text: str) -> str:
    """Give the id that starts with this text; it must be the only one."""
    if not _ID.fullmatch(text):
        msg = f"{text!r} is no job id; ids look like 01J9ZQ4B7V5X2C8D3E6F1G0H4K (or its beginning)"
        raise UsageError(msg)
    if store.get(text) is not None:
        return text
    found = store.find(Query(prefix=text.upper(), limit=2)).jobs
    if not found:
        msg = f"no job {text!r}; `redrive list` shows the ids there are"
        raise JobNotFound(msg)
    if len(found) > 1:
        msg = f"{text!r} is the beginning of more than one id; type more of it"
        raise UsageError(msg)
    return found[0].id


def spelled(targets: Iterable[Target], filters: Filters) -> str:
    """Write a selection down for the record, cut to a readable length."""
    names = [t if isinstance(t, str) else t.id if isinstance(t, Job) else t.name for t in targets]
    names += [f"{name}:{value}" for name, value in filters.items()]
    return " ".join(names)[:500]


def _all(store: Store, query: Query) -> Iterable[str]:
    page = store.find(replace(query, limit=_PAGE, cursor=None))
    while True:
        yield from (job.id for job in page.jobs)
        if page.cursor is None:
            return
        page = store.find(replace(query, limit=_PAGE, cursor=page.cursor))
