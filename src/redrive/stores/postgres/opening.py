"""Opening a store in PostgreSQL: is the schema ours, which version does it have, how safe is it.

Nothing is changed in a schema before it is known to be a Redrive store of a version we know, or
empty. Settings that our promises rest on are read, not assumed.
"""

from __future__ import annotations

from redrive.errors import StoreForeign, StoreMissing
from redrive.stores.contract import Durability
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx, script_named


def open_schema(database: Database, *, create: bool) -> None:
    """Make sure that the schema is a store of this version; create it if that is allowed.

    A server that cannot be reached is an error at once: most likely its name is wrong.
    """
    version = database.opening(lambda tx: _version(tx, database))
    if version:
        database.check_version(version)
    elif create:
        database.alone(lambda tx: _create(tx, database))
    else:
        msg = (
            f"no store at {database.address.url}; `redrive init` creates one, or name another "
            "with --store"
        )
        raise StoreMissing(msg)


def _version(tx: PostgresTx, database: Database) -> int:
    """Return the schema version, 0 where there is nothing yet; StoreForeign if it is not for us."""
    _, ours, tables = tx.one("found") or (False, False, 0)
    if ours:
        (version,) = tx.one("schema_version") or (0,)
        return int(version or 0)
    if tables:
        msg = (
            f"the schema {database.address.schema} of {database.address.url} has tables of another "
            "program in it; name another schema with ?schema= in the URL"
        )
        raise StoreForeign(msg)
    return 0


def _create(tx: PostgresTx, database: Database) -> None:
    """Create the tables, unless a program that started at the same time has done so."""
    version, schema = _version(tx, database), database.queries.schema
    if version:
        database.check_version(version)
        return
    exists, *_ = tx.one("found") or (False,)
    if not exists:
        tx.run("make_schema")
    tx.script(script_named("tables", schema))
    tx.script(script_named("functions", schema))
    tx.run("record_version", (database.queries.version, tx.now()))


def durability_of(database: Database) -> Durability:
    """Promise no more than what the server is set up to keep."""
    fsync, pages, commit = database.direct(lambda tx: tx.one("durability")) or ("", "", "")
    return "full" if (fsync, pages) == ("on", "on") and commit != "off" else "relaxed"
