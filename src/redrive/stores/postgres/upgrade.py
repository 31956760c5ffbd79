"""From version 1 of the schema to version 2, in one transaction: whatever interrupts it, nothing happened.

Running jobs get a holder that begins with `upgraded:`, so their workers are fenced off and a sweep
returns them. Views that were made by `make_view` are made anew, with their grants. What a worker of
version 1 calls stays as a stub that says who must be upgraded.
"""

from __future__ import annotations

from functools import partial

from psycopg.errors import DependentObjectsStillExist

from redrive.errors import UsageError
from redrive.jobs.groups import GroupRecord
from redrive.stores.group_codec import mark_from, people_json
from redrive.stores.postgres import view
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx, script_named


def upgrade(database: Database, tx: PostgresTx) -> None:
    """Bring the tables of version 1 to version 2."""
    script = partial(script_named, schema=database.queries.schema)
    views = view.ours(tx, database)
    literal = f"'{database.address.schema}'"
    tx.script(script("aside").replace("{literal}", literal))
    for name in ("tables", "functions", "filled"):
        tx.script(script(name).replace("{now}", repr(tx.now())))
    for name, value in tx.all("marks"):
        _move_mark(tx, name, value)
    for place, shows in views:
        view.make_anew(database, place, shows, tx)
    try:
        tx.script(script("stubs"))
    except DependentObjectsStillExist as error:
        what = (error.diag.message_detail or str(error)).splitlines()[0]
        msg = (
            f"{what}; drop what is not Redrive's, migrate, and create it again over the new tables. "
            "Nothing was changed"
        )
        raise UsageError(msg) from error


def _move_mark(tx: PostgresTx, name: str, value: str) -> None:
    """Move what people noted about a group into its record; what nobody can read stays a note."""
    mark = mark_from(name, value)
    if mark:
        number, changes = mark
        record = GroupRecord(number=number, fingerprint=None, **changes)
        tx.run("change_group", (people_json(record), number, 0))
        tx.run("remove_note", (name,))
