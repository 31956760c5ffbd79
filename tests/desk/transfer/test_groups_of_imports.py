"""Imported failures are grouped by the rules of any other: by handler, unless the cause lies outside."""

from __future__ import annotations

import json

import pytest

from redrive import Redrive
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.jobs.job import Category


@pytest.mark.parametrize(
    ("message", "category", "groups"),
    [("rejected by 7", Category.UNKNOWN, 2), ("HTTP 503 from 7", Category.TRANSIENT, 1)],
)
def test_the_handler_counts_unless_the_cause_lies_outside(
    message: str, category: Category, groups: int
) -> None:
    with Redrive("memory://") as app:
        for number, handler in enumerate(("pay", "mail", "pay")):
            record = {
                "failureId": f"f{number}",
                "originalData": {"n": number},
                "error": {"message": message.replace("7", str(number)), "stack": ""},
                "retryCount": 3,
                "createdAt": "2025-06-15T15:06:40Z",
                "status": "failed",
                "resolvedAt": None,
            }
            lines = [json.dumps(record).encode() + b"\n"]
            told = list(
                app.desk.transfer.import_lines(lines, asked=TransferOptions(handler=handler))
            )
            assert [one.fate for one in told] == ["added"]
        found = app.desk.groups.find()
        assert len(found) == groups
        assert {one.category for one in found} == {category}
        assert found[0].fingerprint.startswith("v1:")
        assert message.replace("7", "*") in found[0].title
