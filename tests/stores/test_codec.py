"""Records as JSON: the quick way to write an attempt says what the slow one says."""

from __future__ import annotations

import json

import pytest

from kit import make_failure, make_job
from redrive.jobs.job import Attempt, Category, Failure
from redrive.stores._codec import (
    attempt_from_dict,
    attempt_to_json,
    encode,
    failure_from_dict,
    failure_to_json,
    head_to_dict,
    job_from_dict,
    record_to_dict,
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


@each_row("worker", ["host:7", 'a "quoted"\\name\n', "häuschen \u2028", ""])
@each_row("duration", [0.0, 1e-06, 12, 1e22])
@each_row("failure", [None, make_failure()])
@each_row("provider, release", [(None, None), ("claude", 'r "1"\n')])
def test_an_attempt_is_written_alike_whichever_way(
    worker: str, duration: float, failure: Failure | None, provider: str | None, release: str | None
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
        release=release,
    )
    text = attempt_to_json(attempt)
    assert text == encode(record_to_dict(attempt))
    assert attempt_from_dict(json.loads(text)) == attempt


@each_row("failure", [WHOLE, Failure(category=Category.UNKNOWN), make_failure()])
def test_a_failure_is_written_alike_whichever_way(failure: Failure) -> None:
    text = failure_to_json(failure)
    assert text == encode(record_to_dict(failure))
    assert failure_from_dict(json.loads(text)) == failure


@each_row("category", ["of tomorrow", None])
def test_a_category_of_a_newer_version_reads_as_unknown(category: str | None) -> None:
    assert failure_from_dict({"category": category}).category is Category.UNKNOWN
    assert failure_from_dict({}).category is Category.UNKNOWN


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


def test_a_journal_has_the_limits_of_attempts_under_the_keys_it_always_had() -> None:
    job = make_job(max_attempts=7, own_max_attempts=4)
    head = head_to_dict(job)
    assert (head["limit"], head["max_attempts"], "own_max_attempts" in head) == (7, 4, False)
    assert job_from_dict(head, job.payload) == job
