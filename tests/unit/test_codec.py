"""Records as JSON: the quick way to write an attempt says what the slow one says."""

from __future__ import annotations

import json

import pytest

from kit import make_failure
from redrive.job import Attempt, Failure
from redrive.stores._codec import attempt_from_dict, attempt_to_dict, attempt_to_json, encode


@pytest.mark.parametrize("worker", ["host:7", 'a "quoted"\\name\n', "häuschen \u2028", ""])
@pytest.mark.parametrize("duration", [0.0, 1e-06, 12, 1e22])
@pytest.mark.parametrize("failure", [None, make_failure()])
@pytest.mark.parametrize("provider", [None, "claude"])
def test_an_attempt_is_written_alike_whichever_way(
    worker: str, duration: float, failure: Failure | None, provider: str | None
) -> None:
    attempt = Attempt(
        ordinal=3,
        number=2,
        life=1,
        started=1_700_000_000.123456,
        duration=duration,
        worker=worker,
        outcome="done",
        failure=failure,
        provider=provider,
    )
    text = attempt_to_json(attempt)
    assert text == encode(attempt_to_dict(attempt))
    assert attempt_from_dict(json.loads(text)) == attempt
