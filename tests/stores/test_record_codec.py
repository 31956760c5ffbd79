"""A job as columns, `given` and `more`, and back: nothing is lost, and little is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import make_job
from redrive.jobs.job import Category, Failure, Job, Reason, Resolution, State
from redrive.stores.record_codec import (
    COLUMNS,
    blank_fields,
    given_of,
    job_from_fields,
    more_of,
)

text = st.text(st.characters(codec="utf-8"), max_size=12)
times = st.floats(min_value=-1e12, max_value=1e12)
number = st.integers(min_value=0, max_value=2**40)


def columns_of(job: Job) -> dict[str, Any]:
    """Return the fields of a job that are columns."""
    return {name: getattr(job, name) for name in COLUMNS} | {"state": job.state._value_}


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


failures = st.builds(
    Failure,
    category=st.sampled_from(Category),
    why=text,
    type=text,
    message=text,
    code=maybe(text),
    status=maybe(number),
    hint=maybe(times),
    hint_source=maybe(text),
    request_id=maybe(text),
    final=st.booleans(),
    fingerprint=text,
    title=text,
)
jobs = st.builds(
    Job,
    id=text,
    handler=text,
    lane=text,
    payload=text,
    created=times,
    due=times,
    since=times,
    updated=times,
    key=maybe(text),
    state=st.sampled_from(State),
    reason=maybe(st.sampled_from(Reason)),
    detail=text,
    attempts=number,
    spent=st.dictionaries(st.sampled_from([one.value for one in Category]), number, max_size=3),
    crashes=number,
    redrives=number,
    own_max_attempts=maybe(number),
    max_attempts=number,
    finished=maybe(times),
    died_at=maybe(times),
    first_failed=maybe(times),
    failure=maybe(failures),
    lease=number,
    holder=maybe(text),
    lease_end=maybe(times),
    tags=st.lists(text, max_size=3).map(tuple),
    actions=st.lists(st.integers(1, 2**62), max_size=3).map(tuple),
    release=maybe(text),
    group=maybe(number),
    event=maybe(text),
    run=maybe(st.integers(-9, 9)),
    resolution=maybe(
        st.builds(Resolution, actor=text, reason=text, at=times, was=maybe(st.sampled_from(Reason)))
    ),
    edits=number,
    original=maybe(text),
    folded=number,
    origin=maybe(st.dictionaries(text, maybe(text | number | times), max_size=3)),
)


def again(job: Job) -> Job:
    return job_from_fields(blank_fields() | columns_of(job), given_of(job), more_of(job))


@given(jobs)
def test_any_job_comes_back_equal(job: Job) -> None:
    assert again(job) == job


@pytest.mark.parametrize(
    ("given_text", "more_text"),
    [
        (None, "{"),
        (None, "[]"),
        (None, '{"crashes":"two"}'),
        (None, '{"reason":"whim"}'),
        (None, '{"failure":{"status":"x"}}'),
        ('{"tags":[1]}', None),
        (None, '{"actions":["1"]}'),
        ('{"tags":"vip"}', None),
    ],
)
def test_text_that_redrive_never_wrote_is_refused(
    given_text: str | None, more_text: str | None
) -> None:
    with pytest.raises((ValueError, TypeError)):
        job_from_fields(blank_fields() | columns_of(make_job()), given_text, more_text)
