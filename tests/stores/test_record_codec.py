"""A job as columns, `given` and `more`, and back: nothing is lost, and little is written."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import START, make_failure, make_job
from redrive.jobs.job import Category, Completed, Dead, Failure, Job, Reason, Resolution, State
from redrive.jobs.transitions import claimed, settled
from redrive.stores._codec import job_from_dict
from redrive.stores.record_codec import (
    COLUMNS,
    GIVEN,
    MORE,
    at_of,
    blank_fields,
    event_body,
    event_fields,
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


def test_every_field_of_a_job_is_kept_in_exactly_one_place() -> None:
    kept = [*COLUMNS, *GIVEN, *MORE]
    assert sorted(kept) == sorted({one.name for one in fields(Job)} - {"history", "is_new"})


def test_a_job_that_simply_worked_has_neither_text() -> None:
    """So that ends which are alike are one statement."""
    job = claimed(make_job(), holder="w", now=START + 1, lease_end=9.0)
    done = settled(job, Completed(Reason.DONE), None, now=START + 2, group=None)
    for one in (make_job(), job, done):
        assert (given_of(one), more_of(one)) == (None, None)
        assert again(one) == one


def test_a_dead_job_keeps_its_death_when_it_is_edited() -> None:
    job = claimed(make_job(), holder="w", now=START + 1, lease_end=9.0)
    dead = settled(job, Dead(Reason.EXHAUSTED), make_failure(), now=START + 2, group=1)
    edited = replace(dead, updated=START + 9, edits=1)
    assert again(edited) == edited
    assert (again(edited).died_at, at_of(edited)) == (START + 2, START + 9)


def test_what_a_submit_says_is_apart_from_what_changes() -> None:
    job = make_job(tags=("vip",), release="r1", own_max_attempts=3, detail="later")
    assert json.loads(given_of(job) or "") == {
        "tags": ["vip"],
        "release": "r1",
        "max_attempts": 3,
    }
    assert json.loads(more_of(job) or "") == {"detail": "later"}


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


@given(jobs)
def test_an_event_carries_the_whole_job(job: Job) -> None:
    assert job_from_dict(*event_fields(event_body(job))) == job
