"""Records as JSON: the quick way to write an attempt says what the slow one says."""

from __future__ import annotations

import pytest

from redrive.jobs.job import Attempt, Category, Failure
from redrive.stores._codec import (
    attempt_to_json,
)
from tablekit import each_row

WHOLE = Failure(
    category=Category.RATE_LIMIT,
    why='code "häuschen"\n',
    type="openai.RateLimitError",
    message="slow \\ down \u2028",
    code="429",
    status=429,
    traceback='  File "x.py", line 1\n\tx\x1b\n',
    hint=1.5,
    hint_source="retry-after",
    request_id="r-1",
    final=True,
    fingerprint="v1:0",
    title="RateLimitError: slow down",
)


@each_row("started, duration", [(float("nan"), 0.0), (0.0, float("inf"))])
def test_a_time_that_json_cannot_say_is_never_written(started: float, duration: float) -> None:
    attempt = Attempt(
        ordinal=1,
        number=1,
        life=0,
        started=started,
        duration=duration,
        worker="w",
        outcome="done",
    )
    with pytest.raises(ValueError, match="cannot be kept"):
        attempt_to_json(attempt)
