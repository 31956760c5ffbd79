"""A view of one handler's jobs that looks like the table of a queue, for people who use SQL.

It is read like a table, and a dead letter is retried by an UPDATE; `sql/postgres/views/queue.sql`
creates it, in any schema of the database. Besides the columns that every view has, it has those of the
payload that were asked for. The comment on a view has its handler and its columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from importlib.resources import files

from psycopg.sql import SQL, Composed, Identifier, Literal

from redrive.errors import UsageError
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_COLUMN = re.compile(r"([a-z_][a-z0-9_]{0,62})=payload((?:\.[^\s,.=]{1,100})*)")
_OWN = {
    *("job_id", "status", "retry_count", "max_retries", "error_message"),
    *("created_at", "started_at", "completed_at"),
}
_MARK = "Redrive: the jobs of "
_COLUMNS = "; columns "
_KINDS = {
    "r": "a table",
    "p": "a table",
    "f": "a foreign table",
    "v": "a view",
    "m": "a materialized view",
    "i": "an index",
    "I": "an index",
    "S": "a sequence",
}
"""What PostgreSQL keeps under a name, by its letter for it."""


def make(database: Database, name: str, handler: str, columns: Sequence[str] | None = None) -> str:
    """Create the view, or update ours; return its name with the schema.

    `name` may begin with a schema; without one it is the store's. Columns are written
    `article_id=payload.article_id`, or `payload` for all of it; None keeps those of a view that
    exists. UsageError if the name stands for anything else, here or where it is found without a schema.
    """
    schema, dot, bare = name.rpartition(".")
    schema = schema if dot else database.address.schema
    if not _NAME.fullmatch(bare) or not _NAME.fullmatch(schema):
        msg = (
            f"{name!r} cannot be a view's name; use small letters, digits and _, at most 63, and the "
            "schema and a dot before it if you like"
        )
        raise UsageError(msg)
    wanted = None if columns is None else _checked(columns)
    return database.alone(partial(_make, database, (schema, bare), handler, wanted))


def _checked(columns: Sequence[str]) -> tuple[str, ...]:
    """Return columns in their full form; UsageError for one that cannot be made."""
    whole = tuple(f"{text}=payload" if text == "payload" else text for text in columns)
    for text in whole:
        if not _COLUMN.fullmatch(text):
            msg = f"a column is written NAME=payload.FIELD, or payload; found {text!r}"
            raise UsageError(msg)
    names = [text.partition("=")[0] for text in whole]
    for name in names:
        if name in _OWN or names.count(name) > 1:
            raise UsageError(f"the view has a column {name} already; name this one otherwise")
    return whole


def _make(
    database: Database,
    place: tuple[str, str],
    handler: str,
    columns: tuple[str, ...] | None,
    tx: PostgresTx,
) -> str:
    schema, name = place
    (version,) = tx.one("schema_version") or (None,)
    database.check_version(version)
    if not tx.one("has_schema", (schema,)):
        msg = f"the database has no schema {schema}; create it first, or name another"
        raise UsageError(msg)
    views = tx.all("our_views", (_MARK + "%", database.address.schema))
    known = {(where, view): comment for where, view, comment in views}
    comment = known.get(place, "")
    for where, kind in tx.all("named_so", (name, schema)):
        if where == schema or (where, name) not in known:
            _check_ours(f"{where}.{name}", kind, comment if where == schema else "", handler)
    had = _read(comment)[1] if comment else ()
    if comment and columns not in {None, had}:
        shown = ", ".join(had) or "of the payload: none"
        msg = (
            f"{schema}.{name} has other columns ({shown}); remove it first "
            f"(DROP VIEW {schema}.{name}), or name another view"
        )
        raise UsageError(msg)
    _replace(database, place, handler, had if columns is None else columns, tx)
    return f"{schema}.{name}"


def _read(comment: str) -> tuple[str, tuple[str, ...]]:
    """Return the handler and the columns that the comment on a view has."""
    handler, _, columns = comment.removeprefix(_MARK).rpartition(_COLUMNS)
    return handler, () if columns == "none" else tuple(columns.split(", "))


def _replace(
    database: Database,
    place: tuple[str, str],
    handler: str,
    columns: tuple[str, ...],
    tx: PostgresTx,
) -> None:
    """Create a view, or replace it; its grants stay."""
    script = files("redrive.stores").joinpath("sql", "postgres", "views", "queue.sql")
    comment = f"{_MARK}{handler}{_COLUMNS}{', '.join(columns) or 'none'}"
    made = SQL(script.read_text("utf-8")).format(  # pyright: ignore[reportArgumentType]
        schema=Identifier(database.address.schema),
        view=Identifier(*place),
        columns=Composed(list(map(_column, columns))),
        handler=Literal(handler),
        comment=Literal(comment),
        channel=Literal(database.address.channel),
    )
    tx.script(made.as_string(None))


def _column(text: str) -> Composed:
    match = _COLUMN.fullmatch(text)
    assert match is not None  # noqa: S101 - they were checked, or come from our own comment
    name, path = Identifier(match[1]), match[2].split(".")[1:]
    if not path:
        return SQL("j.payload::jsonb AS {name},\n    ").format(name=name)
    fields = SQL(", ").join(map(Literal, path))
    text_at = SQL("j.payload::json #>> ARRAY[{fields}] AS {name},\n    ")
    return text_at.format(fields=fields, name=name)


def _check_ours(place: str, kind: str, comment: str, handler: str) -> None:
    """Raise UsageError for what we did not create, and for a view of another handler."""
    if kind != "v" or not comment:
        what = _KINDS.get(kind, "a type")
        msg = f"{place} is {what} already; rename it, or name another view"
        raise UsageError(msg)
    shown = _read(comment)[0]
    if shown != handler:
        msg = (
            f"{place} shows the jobs of {shown}; name another view, or remove "
            f"that one (DROP VIEW {place})"
        )
        raise UsageError(msg)
