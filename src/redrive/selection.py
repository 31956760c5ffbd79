"""Which jobs: from what people say (ids, groups, filters) to a query and to a frozen set of ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from typing import TypedDict, TypeVar, Unpack

from redrive import _duration
from redrive._duration import Duration
from redrive._transitions import Verb
from redrive.errors import JobNotFound, UsageError
from redrive.job import Category, Group, Job, State
from redrive.stores.base import Query, Store, every

Target = str | Job | Group
"""A job, its id or the unique beginning of one; a group or its name, such as "G7"."""

_GROUP = re.compile(r"[Gg](\d{1,9})")
_ID = re.compile(r"[0-9A-Za-z_-]{4,64}")
_CANDIDATES = 5
"""How many of the jobs that may be meant are named."""
E = TypeVar("E", State, Category)

USUAL: Mapping[Verb, Sequence[State]] = {
    "retry": (State.PENDING, State.DEAD),
    "resolve": (State.DEAD,),
    "discard": (State.DEAD,),
    "reopen": (State.RESOLVED,),
}
"""Which states a group or a filter means where no state is named.

A closed job is retried only by id or by `state="resolved"`: somebody closed it on purpose.
"""


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
    """Build a query from filters. What is misspelled or empty is refused, for it would mean all."""
    for name, value in filters.items():
        _check_filter(name, value)
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


def _check_filter(name: str, value: object) -> None:
    known = Filters.__annotations__
    if name not in known:
        msg = f"there is no filter {name!r}; use: {', '.join(known)}"
        raise UsageError(msg)
    if value is None or (isinstance(value, Sized) and not len(value)):
        msg = f"the filter {name} is empty, which would mean every job; leave it out or name one"
        raise UsageError(msg)


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


def meant(
    store: Store, verb: Verb, targets: Sequence[Target], filters: Filters
) -> Iterator[Job | str]:
    """Give each job a deed is meant for, once; an id that nobody has comes as it was written.

    Groups and filters mean the states of USUAL unless a state is named.
    """
    groups = [one for one in targets if _is_group(one)]
    if len(groups) < len(targets) and (groups or filters):
        msg = "give ids, or groups and filters, not both: an id already says which job is meant"
        raise UsageError(msg)
    if not targets and not filters:
        msg = "say which jobs: ids, a group such as G7, or filters (state=, handler=, …)"
        raise UsageError(msg)
    seen: set[str] = set()
    for found in _found(store, verb, targets, filters):
        name = found if isinstance(found, str) else found.id
        if name not in seen:
            seen.add(name)
            yield found


def _found(
    store: Store, verb: Verb, targets: Sequence[Target], filters: Filters
) -> Iterator[Job | str]:
    query = query_of(**filters)
    query = query if query.states else replace(query, states=frozenset(USUAL[verb]))
    if not targets:
        yield from every(store, query)
    for target in targets:
        if isinstance(target, Job):
            yield from _by_id(store, target.id)
        elif _is_group(target):
            yield from every(store, replace(query, group=group_number(target)))
        else:
            yield from _by_id(store, str(target))


def _by_id(store: Store, text: str) -> Iterator[Job | str]:
    try:
        yield from store.find(Query(ids=(job_id(store, text),), limit=1)).jobs
    except JobNotFound:
        yield text


def _is_group(target: Target) -> bool:
    return isinstance(target, Group) or (
        isinstance(target, str) and _GROUP.fullmatch(target) is not None
    )


def job_id(store: Store, text: str) -> str:
    """Give the id that starts with this text; it must be the only one."""
    if not _ID.fullmatch(text):
        raise UsageError(no_job(text))
    if store.get(text) is not None:
        return text
    found = store.find(Query(prefix=text.upper(), limit=_CANDIDATES + 1)).jobs
    if not found:
        raise JobNotFound(no_job(text))
    if len(found) > 1:
        names = ", ".join(job.id for job in found[:_CANDIDATES])
        more = " and more" if len(found) > _CANDIDATES else ""
        msg = f"{text!r} is the beginning of more than one id: {names}{more}; type more of it"
        raise UsageError(msg)
    return found[0].id


def no_job(text: str) -> str:
    """Say that there is no such job, in the same words wherever it is found out."""
    return (
        f"no job {text!r}; ids look like 01J9ZQ4B7V5X2C8D3E6F1G0H4K (the first characters will do, "
        "4 at least), groups like G7: `redrive list` shows them"
    )


def spelled(targets: Iterable[Target], filters: Filters) -> str:
    """Write a selection down for the record, cut to a readable length."""
    names = [t if isinstance(t, str) else t.id if isinstance(t, Job) else t.name for t in targets]
    names += [f"{name}:{value}" for name, value in filters.items()]
    return " ".join(names)[:500]
