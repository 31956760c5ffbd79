"""From version 1 of the schema to version 2, in one transaction."""

from __future__ import annotations

from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx


def upgrade(database: Database, tx: PostgresTx) -> None:
    """Bring the tables of version 1 to version 2."""
    raise NotImplementedError
