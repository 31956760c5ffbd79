"""From version 1 of the schema to version 2, in the transaction of the caller.

Every job is read as version 1 kept it and written as a new one is; payloads and attempts stay where they
are. What cannot be read is carried over as it is: `verify` names it, as before.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import TERMINAL, Job, Reason, State
from redrive.jobs.records import BLANK, evolve
from redrive.stores._codec import encode, failure_from_dict, resolution_from_dict
from redrive.stores.contract import UPGRADED
from redrive.stores.counting import KEPT, SPANS, GroupCount, after_deaths, start_of
from redrive.stores.group_codec import deaths_json, mark_from, people_json
from redrive.stores.sql.rows import UNREADABLE
from redrive.stores.sqlite.rows import COLUMNS, insert, row_of

_KEPT_TABLES = {"payloads", "attempts", "acts", "notes", "note_versions", "migrations"}
_MADE = re.compile(r"CREATE (?:UNIQUE )?(TABLE|INDEX) (\w+)")
_AT_ONCE = 1000
_MARK = "group:"  # what people said of a group was a note whose name began so
_RENAMED = {"max_attempts": "own_max_attempts", "ceiling": "max_attempts", "cause": "group"}
"""Columns of version 1 whose names differ from the job's fields."""
_DERIVED = ("suspect", "category", "at")
_TEXTS = ("spent", "failure", "tags", "resolution", "origin")  # columns of version 1 that hold JSON


class _Death(NamedTuple):
    at: float
    group: int
    release: str | None


def upgrade(connection: sqlite3.Connection, schema: Iterable[str], now: float) -> None:
    """Bring version 1 to version 2; `schema` has the statements that make a new store."""
    _drop_indexes(connection)
    for table in ("jobs", "causes"):
        connection.execute(f"ALTER TABLE {table} RENAME TO v1_{table}")
    made = {found[2]: (found[1], text) for text in schema if (found := _MADE.search(text))}
    for name, (kind, text) in made.items():
        if kind == "TABLE" and name not in _KEPT_TABLES:
            connection.execute(text)
    deaths = _copy_jobs(connection)
    _copy_groups(connection, deaths, now)
    for table in ("jobs", "causes"):
        connection.execute(f"DROP TABLE v1_{table}")
    for kind, text in made.values():
        if kind == "INDEX":
            connection.execute(text)


def _drop_indexes(connection: sqlite3.Connection) -> None:
    found = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    )
    for (name,) in found.fetchall():
        connection.execute(f'DROP INDEX "{name}"')


def _copy_jobs(connection: sqlite3.Connection) -> list[_Death]:
    """Write all jobs anew; returns when those died that are dead now."""
    cursor = connection.execute("SELECT * FROM v1_jobs")
    names = [column[0] for column in cursor.description]
    deaths: list[_Death] = []
    while rows := cursor.fetchmany(_AT_ONCE):
        new: list[tuple[object, ...]] = []
        for row in rows:
            old = dict(zip(names, row, strict=True))
            try:
                job = _job(connection, old)
                new.append(row_of(job, old["n"]))
            except UNREADABLE:
                new.append(_as_it_is(old))
                continue
            if job.state is State.DEAD and job.group is not None and job.died_at is not None:
                deaths.append(_Death(job.died_at, job.group, job.release))
        connection.executemany(insert(COLUMNS), new)
    return sorted(deaths, key=lambda death: death.at)


def _job(connection: sqlite3.Connection, old: dict[str, Any]) -> Job:
    """Read a job of version 1; a worker that runs it is fenced off."""
    fields = {
        _RENAMED.get(name, name): value
        for name, value in old.items()
        if name != "n" and name not in _DERIVED
    }
    fields["state"] = State(old["state"])
    fields["reason"] = None if old["reason"] is None else Reason(old["reason"])
    fields["spent"] = {} if old["spent"] is None else _object(old["spent"])
    fields["tags"] = () if old["tags"] is None else tuple(_typed(list, old["tags"]))
    fields["origin"] = None if old["origin"] is None else _object(old["origin"])
    if old["failure"] is not None:
        fields["failure"] = failure_from_dict(_object(old["failure"]))
    if old["resolution"] is not None:
        fields["resolution"] = resolution_from_dict(_object(old["resolution"]))
    if old["holder"] is not None:
        fields["holder"] = UPGRADED + old["holder"]
    job = evolve(BLANK, **fields)
    return evolve(job, died_at=_died_at(connection, job, old["n"]))


def _object(text: str) -> dict[str, Any]:
    return cast("dict[str, Any]", _typed(dict, text))


def _typed(kind: type[Any], text: str) -> Any:
    value = json.loads(text)
    if not isinstance(value, kind):
        raise TypeError(text)
    return value


def _died_at(connection: sqlite3.Connection, job: Job, number: int) -> float | None:
    """Return when a job last died: version 1 kept it until the job was resolved or reopened."""
    was_dead = job.resolution is not None and job.resolution.was is not None
    if job.state is State.DEAD and job.detail != "reopened":
        return job.finished
    if job.state is State.DEAD or (job.state is State.RESOLVED and was_dead):
        return _last_failure(connection, number) or job.finished
    return None


def _last_failure(connection: sqlite3.Connection, number: int) -> float | None:
    """Return when the last failed attempt ended."""
    for (text,) in connection.execute(
        "SELECT record FROM attempts WHERE n = ? ORDER BY ordinal DESC", (number,)
    ):
        with contextlib.suppress(*UNREADABLE):  # verify names it; its job can be read
            record = _object(text)
            if record.get("failure"):
                return float(record["started"] + record["duration"])
    return None


def _as_it_is(old: dict[str, Any]) -> tuple[object, ...]:
    """Return the row of a job that cannot be read, its texts carried over letter for letter."""
    left_out = {"n", *_DERIVED, *_TEXTS, "reason"}
    plain = {_RENAMED.get(name, name): old[name] for name in old.keys() - left_out}
    state, changed = State(old["state"]), old["updated"]
    plain |= {"state": state, "since": old["due"], "finished": None}
    if state in TERMINAL:
        plain |= {"finished": changed, "died_at": changed if state is State.DEAD else None}
    row = dict(zip(COLUMNS, row_of(evolve(BLANK, **plain), old["n"]), strict=True))
    texts = {name: old[name] for name in _TEXTS} | {
        "reason": old["reason"] and encode(old["reason"])
    }
    parts = [row["more"][1:-1]] if row["more"] else []
    parts += [f'"{name}":{text}' for name, text in texts.items() if text is not None]
    row |= {"category": old["category"], "more": f"{{{','.join(parts)}}}"}
    return tuple(row.values())


def _copy_groups(connection: sqlite3.Connection, deaths: list[_Death], now: float) -> None:
    """Write a record for each group: what its dead jobs say, and what people said."""
    marks = dict(_marks(connection))
    records = {
        number: GroupRecord(
            number=number,
            fingerprint=None,
            fingerprint_v1=fingerprint,
            title=title,
            first_seen=first,
            **marks.get(number, {}),
        )
        for number, fingerprint, title, first in connection.execute(
            "SELECT number, fingerprint, title, first FROM v1_causes LEFT JOIN ("
            "SELECT cause, min(coalesce(first_failed, updated)) AS first FROM v1_jobs "
            "WHERE cause IS NOT NULL GROUP BY cause) ON cause = number"
        ).fetchall()
    }
    buckets: dict[tuple[int, int, int], int] = {}
    for died_at, number, release in deaths:
        at = min(died_at, now)  # of a clock that was ahead
        if number in records:
            records[number] = after_deaths(records[number], GroupCount(1, release, {}), at)
        for span in SPANS:
            if at >= now - KEPT[span]:
                place = span, number, start_of(at, span)
                buckets[place] = buckets.get(place, 0) + 1
    connection.executemany(
        "INSERT INTO groups (number, v1, title, first_seen, last_seen, deaths, seen, version, more) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
        [
            (
                one.number,
                one.fingerprint_v1,
                one.title,
                one.first_seen,
                one.last_seen,
                one.deaths,
                deaths_json(one),
                people_json(one),
            )
            for one in records.values()
        ],
    )
    connection.executemany(
        "INSERT INTO group_counts (span, cause, start, deaths) VALUES (?, ?, ?, ?)",
        [(*place, number) for place, number in buckets.items()],
    )


def _marks(connection: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return what people said of groups, by number, and remove the notes that said it."""
    found = connection.execute(
        "SELECT name, value FROM notes WHERE name >= ? AND name < ?", (_MARK, _MARK + "\U0010ffff")
    )
    for name, value in found.fetchall():
        mark = mark_from(name, value)
        if mark:
            connection.execute("DELETE FROM notes WHERE name = ?", (name,))
            yield mark
