"""A view of one handler's jobs that looks like the table of a queue, for those who speak SQL.

It is read like a table, and a dead letter is driven again by an UPDATE; what it is made of stands in
`sql/postgres/views/queue.sql`. A comment on the view says whose jobs it shows and that it is ours.
"""

from __future__ import annotations

import re
from functools import partial
from importlib.resources import files

from psycopg.sql import SQL, Identifier, Literal

from redrive.errors import UsageError
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_MARK = "Redrive: the jobs of "
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


def make(database: Database, name: str, handler: str) -> str:
    """Make the view, or make ours anew; gives its name with the schema.

    UsageError if the name stands for anything else, here or where it is found without a schema.
    """
    if not _NAME.fullmatch(name):
        msg = f"{name!r} cannot be a view's name; use small letters, digits and _, at most 63"
        raise UsageError(msg)
    return database.alone(partial(_make, database, name, handler))


def _make(database: Database, name: str, handler: str, tx: PostgresTx) -> str:
    (version,) = tx.one("schema_version") or (None,)
    database.check_version(version)
    schema = database.address.schema
    for where, kind, comment in tx.all("named_so", (name, schema)):
        ours = comment if where == schema else None
        _check_ours(f"{where}.{name}", kind, ours or "", handler)
    make_anew(database, name, handler, version, tx)
    return f"{schema}.{name}"


def ours(tx: PostgresTx, database: Database) -> list[tuple[str, str]]:
    """Return the views that were made so, with their handlers."""
    rows = tx.all("our_views", (database.address.schema, _MARK + "%"))
    return [(name, comment.removeprefix(_MARK)) for name, comment in rows]


def make_anew(
    database: Database, name: str, handler: str, version: int | None, tx: PostgresTx
) -> None:
    """Make a view, or replace it; its grants stay."""
    schema = database.address.schema
    script = files("redrive.stores").joinpath("sql", "postgres", "views", "queue.sql")
    made = SQL(script.read_text("utf-8")).format(  # pyright: ignore[reportArgumentType]
        schema=Identifier(schema),
        view=Identifier(name),
        handler=Literal(handler),
        comment=Literal(_MARK + handler),
        channel=Literal(database.address.channel),
        version=Literal(version),
    )
    tx.script(made.as_string(None))


def _check_ours(place: str, kind: str, comment: str, handler: str) -> None:
    """Refuse what we did not make, and what we made for another handler."""
    if kind != "v" or not comment.startswith(_MARK):
        what = _KINDS.get(kind, "a type")
        msg = f"{place} is {what} already; rename it, or name another view"
        raise UsageError(msg)
    if comment != _MARK + handler:
        msg = (
            f"{place} shows the jobs of {comment.removeprefix(_MARK)}; name another view, or remove "
            f"that one (DROP VIEW {place})"
        )
        raise UsageError(msg)
