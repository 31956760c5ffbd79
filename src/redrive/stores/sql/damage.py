"""What `verify` tells of values that cannot be read: somebody else wrote them, or a bit flipped."""

from __future__ import annotations

from collections.abc import Iterator

from redrive.errors import StoreDamaged
from redrive.stores.sql.rows import act_from_row, attempt_from_json
from redrive.stores.sql.tx import Tx

_AT_ONCE = 1000


def records(tx: Tx) -> Iterator[tuple[str, str]]:
    """Return the attempts that cannot be read."""
    last = (0, 0)
    while rows := tx.all("records", (*last, _AT_ONCE)):
        for job, number, ordinal, record in rows:
            last = (number, ordinal)
            try:
                attempt_from_json(record)
            except StoreDamaged:
                yield f"job {job}", f"has an attempt {ordinal} that cannot be read"


def acts(tx: Tx) -> Iterator[tuple[str, str]]:
    """Return the acts that cannot be read."""
    before = 2**62
    while found := tx.all("acts", (before, _AT_ONCE)):
        for row in found:
            before = row[0]
            try:
                act_from_row(row)
            except StoreDamaged:
                yield f"act {before}", "has a detail that cannot be read"
