"""Opening a store in PostgreSQL: is the schema ours, which version does it have, how safe is it.

Nothing is changed in a schema before it is known to be a Redrive store of a version we know, or
empty. Settings that our promises rest on are read, not assumed.
"""

from __future__ import annotations

from functools import partial

from redrive.errors import StoreForeign, StoreMissing
from redrive.stores.contract import Durability
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx, script_named
from redrive.stores.postgres.upgrade import upgrade


def open_schema(database: Database, *, create: bool, read_only: bool, migrating: bool) -> None:
    """Make sure that the schema is a store of this version; bring it there if that is allowed.

    A server that cannot be reached is an error at once: most likely its name is wrong. A store of an
    older version that has jobs is left as it is: `migrate` changes it, everybody else gets StoreOutdated.
    """
    version, has_jobs = database.opening(lambda tx: _found(tx, database))
    if version == 0 and (read_only or not create):
        msg = (
            f"no store at {database.address.url}; `redrive init` creates one, or name another "
            "with --store"
        )
        raise StoreMissing(msg)
    is_older = version < database.queries.version
    if version == 0 or (is_older and not (has_jobs or read_only or migrating)):
        migrate(database)
    elif not (is_older and migrating):
        database.check_version(version)


def _found(tx: PostgresTx, database: Database) -> tuple[int, bool]:
    """Return the version, and whether there are jobs."""
    version = _version(tx, database)
    return version, version > 0 and tx.one("any_job") is not None


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


def migrate(database: Database) -> list[str]:
    """Make the schema, or bring an older one to this version, in one transaction.

    Two programs may start at once: they take turns, and the second finds the work done.
    """
    step = database.alone(partial(_migrate, database))
    if step == "0002_states":
        database.direct(lambda tx: tx.run("analyze"))
    return [step] if step else []


def _migrate(database: Database, tx: PostgresTx) -> str | None:
    version, schema = _version(tx, database), database.queries.schema
    if version >= database.queries.version:
        database.check_version(version)
        return None
    exists, *_ = tx.one("found") or (False,)
    if not exists:
        tx.run("make_schema")
    if version:
        upgrade(database, tx)
        name = "0002_states"
    else:
        tx.script(script_named("tables", schema))
        tx.script(script_named("functions", schema))
        name = "0002_jobs"
    tx.run("record_migration", (database.queries.version, name, tx.now()))
    return name


def durability_of(database: Database) -> Durability:
    """Promise no more than what the server is set up to keep."""
    fsync, pages, commit = database.direct(lambda tx: tx.one("durability")) or ("", "", "")
    return "full" if (fsync, pages) == ("on", "on") and commit != "off" else "relaxed"
