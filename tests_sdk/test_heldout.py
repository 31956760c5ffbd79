"""Real errors that nobody had in mind when the tables were written, at least 95 % right."""

from __future__ import annotations

import time

import heldout_data
import heldout_later
import heldout_web
from loopback import Row, error_of

from redrive.classify import classify

ROWS = [*heldout_web.ROWS, *heldout_data.ROWS, *heldout_later.ROWS]
ENOUGH = 0.95


def wrong(row: Row) -> str | None:
    """Say what is wrong with how a row is judged."""
    failure = classify(error_of(row.ask), now=time.time())
    if failure.category == row.category and failure.hint == row.hint:
        return None
    found = f"{failure.category}, hint {failure.hint}, because: {failure.why}"
    return f"{row.name}: {row.category}, hint {row.hint}, but was {found} ({failure.type})"


def test_nearly_all_are_judged_right() -> None:
    assert len(ROWS) >= 80
    mistakes = [*filter(None, map(wrong, ROWS))]
    right = 1 - len(mistakes) / len(ROWS)
    assert right >= ENOUGH, "\n".join([f"only {right:.1%} of {len(ROWS)} right", *mistakes])
