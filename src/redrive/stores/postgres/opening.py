"""Opening a store in PostgreSQL: is the schema ours, which version does it have, how safe is it.

Nothing is changed in a schema before it is known to be a Redrive store of a version we know, or
empty. Settings that our promises rest on are read, not assumed.
"""

from __future__ import annotations

from functools import partial

from redrive.errors import StoreForeign, StoreMissing
from redrive.stores.contract import Durability
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.tx import Migration


def open_schema(database: Database, *, create: bool, read_only: bool) -> None:
    """Make sure that the schema is a store of this version; bring it there if that is allowed.

    A server that cannot be reached is an error at once: most likely its name is wrong.
    """
    version = database.opening(lambda tx: _version(tx, database))
    if version == 0 and (read_only or not create):
        msg = (
            f"no store at {database.address.url}; `redrive init` makes one, or name another "
            "with --store"
        )
        raise StoreMissing(msg)
    if version < database.queries.version and not read_only:
        migrate(database)
    else:
        database.check_version(version)


def _version(tx: PostgresTx, database: Database) -> int:
    """Give the schema version, 0 where there is nothing yet; StoreForeign if it is not for us."""
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


def migrate(database: Database) -> list[str]:
    """Take the steps that are missing, each in a transaction with its record.

    Two programs may start at once: they take turns, and the second finds the work done.
    """
    steps = database.queries.migrations
    return [step.name for step in steps if database.alone(partial(_take, database, step))]


def _take(database: Database, step: Migration, tx: PostgresTx) -> bool:
    if _version(tx, database) >= step.version:
        return False
    exists, *_ = tx.one("found") or (False,)
    if not exists:
        tx.run("make_schema")
    tx.script(step.script)
    tx.run("record_migration", (step.version, step.name, tx.now()))
    return True


def durability_of(database: Database) -> Durability:
    """Promise no more than what the server is set up to keep."""
    fsync, pages, commit = database.direct(lambda tx: tx.one("durability")) or ("", "", "")
    return "full" if (fsync, pages) == ("on", "on") and commit != "off" else "relaxed"
