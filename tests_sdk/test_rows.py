"""Every row of the rules on a real error: its category, and how long the server asks for."""

from __future__ import annotations

import time

import pytest
import rows_data
import rows_models
import rows_services
import rows_web
from loopback import Row, error_of

from redrive.classify import classify

ROWS = [*rows_models.ROWS, *rows_web.ROWS, *rows_services.ROWS, *rows_data.ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "-"))
def test_row(row: Row) -> None:
    error = error_of(row.ask)
    failure = classify(error, now=time.time())
    assert (failure.category, failure.hint) == (row.category, row.hint), (
        f"{failure.type}: {failure.why}"
    )


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
