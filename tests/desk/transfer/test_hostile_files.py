"""F112: files made to do harm. Whatever comes in is checked like a submit, told of, and never raises."""

from __future__ import annotations

import io
import json
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchangekit import MAKERS, TOKYO, Record, file_of, hook, jobs, lines, out, take
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.importing import LineResult, stored
from redrive.stores.contract import Query
from redrive.stores.memory import MemoryStore

numbers = st.one_of(
    st.integers(-5, 12),
    st.sampled_from([2**31, 2**63, -(10**30), 1.5, 1e300, 1_700_000_000_123, 253402300800]),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "2023-11-14T22:13:20Z",
            "2023-11-14T22:13:20",
            "0001-01-01T00:00:00+09:00",
            "9999-12-31T23:59:59Z",
            "dead_letter",
            "pending",
            "\x1b[2J",
            "x" * 3000,
            "password=hunter22",
        ]
    ),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def records(draw: st.DrawFn, *, contradicted: bool = True) -> Record:
    """A record of some format with some of its fields, at any depth, replaced or gone."""
    record: Any = json.loads(json.dumps(draw(st.sampled_from(list(MAKERS.values())))()))
    for _ in range(draw(st.integers(0, 4))):
        where = record
        name = draw(st.sampled_from(sorted(where)))
        while isinstance(where[name], dict) and where[name] and draw(st.booleans()):
            where = where[name]
            name = draw(st.sampled_from(sorted(where)))
        if draw(st.booleans()):
            where[name] = draw(values)
        elif len(where) > 1:
            del where[name]
    if contradicted and draw(st.booleans()):
        record["redrive"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "id": st.sampled_from(["ABCD", "a b", "../x", 7]),
                    "state": st.sampled_from(["dead", "running", "completed", "?", 1]),
                    "reason": st.sampled_from(["exhausted", "?", 3]),
                    "finished": numbers,
                    "updated": numbers,
                    "redrives": numbers,
                    "category": st.sampled_from(["auth", "?"]),
                    "tried": st.one_of(numbers, texts),
                },
            )
        )
    return record  # type: ignore[no-any-return]


def taken(data: bytes, store: MemoryStore) -> list[LineResult]:
    asked = TransferOptions(zone=lambda: TOKYO)
    return list(chain.from_iterable(stored(store, io.BytesIO(data), asked)))


@settings(max_examples=400)
@given(st.lists(records(), min_size=1, max_size=4))
def test_odd_records_are_taken_in_or_put_aside_and_a_repeat_changes_nothing(
    given_records: list[Record],
) -> None:
    """X2, X5: and what was taken in goes out and in again as the same jobs."""
    data = lines(*given_records)
    store = MemoryStore()
    told = taken(data, store)
    assert len(told) == len(given_records)
    assert all(one.reason for one in told if one.fate == "bad")
    before = {job.id: store.get(job.id) for job in store.find(Query(limit=100)).jobs}
    again = taken(data, store)
    assert not [one for one in again if one.fate in {"added", "folded"}]
    assert {job.id: store.get(job.id) for job in store.find(Query(limit=100)).jobs} == before


@settings(max_examples=400)
@given(records(contradicted=False))
def test_what_was_taken_in_goes_out_and_in_as_the_same_job(record: Record) -> None:
    app, told = take(lines(record))
    if told[0].fate in {"bad", "ignored"}:
        return
    [job] = jobs(app).values()
    assert job.origin is not None
    again, fates = take(out(app, str(job.origin["format"])))
    assert [one.reason for one in fates if one.fate == "bad"] == []
    assert jobs(again) == jobs(app)


@settings(max_examples=200)
@given(st.data())
def test_flipped_bytes_never_raise_and_cost_at_most_their_records(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(MAKERS)))
    whole = bytearray(file_of(name, *map(MAKERS[name], range(4))))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    store = MemoryStore()
    told = taken(bytes(whole), store)
    found = sum(one.fate == "added" for one in told)
    assert found == len(store.find(Query(limit=100)).jobs)
    if name != "articles":
        assert found + 3 * 2 >= 4 or any(one.fate == "bad" for one in told)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1f\x8b\x08" + bytes(1000),
        b"PK\x03\x04" + bytes(1000),
        "{}".encode("utf-16"),
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"queue":{"items":[' + b'{"article_data":' * 50_000,
        b'{"items":[],"items":[' + b"{}," * 1000,
        b'{"jobId":"a","jobId":"b","data":{},"attemptsMade":1}',
        b'{"event_id":"\\ud800","event_type":"a"}',
        b"\0" * 5000,
        b'"',
        b"-",
    ],
)
def test_bombs_and_other_files_are_put_aside(data: bytes) -> None:
    told = taken(data, MemoryStore())
    assert told
    assert {one.fate for one in told} == {"bad"}
    assert sum(len(one.raw) for one in told) >= min(len(data) // 2, 3)


def test_a_payload_has_the_limit_of_a_submit() -> None:
    big = hook(data={"hook": "x" * 1_048_577, "endpoint": "https://api.example"})
    _, [told] = take(lines(big))
    assert (told.fate, "limit" in told.reason) == ("bad", True)


def test_huge_counts_and_ids_are_refused() -> None:
    for odd in (
        hook(attemptsMade=2**31),
        hook(attemptsMade=-1),
        hook(maxAttempts=0),
        hook(timestamp=10**30),
        hook(jobId=""),
        hook(jobId=None),
        hook(error="down"),
    ):
        _, [told] = take(lines(odd))
        assert told.fate == "bad", odd
        assert told.reason


def test_one_hook_told_of_ten_thousand_times_is_one_job() -> None:
    same = hook()["data"]
    app, told = take(lines(*(hook(number, data=same) for number in range(10_000))))
    assert sum(one.fate == "folded" for one in told) == 9_999
    [job] = jobs(app).values()
    assert job.origin is not None
    assert len(job.origin["ids"]) == 10_000  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attemptsMade": ["Authorization: Bearer Zq7-opaque-93x"]},
        {"error": "x" * 70 + "Zq7-opaque-93x", "token": "Zq7-opaque-93x"},
        {"timestamp": "sk-ant-Zq7-opaque-93x"},
    ],
)
def test_what_is_wrong_with_a_record_is_said_without_its_secrets(wrong: dict[str, Any]) -> None:
    """The value that is shown may be one, and half of it where the text is cut."""
    [[bad]] = stored(MemoryStore(), io.BytesIO(lines({**hook(), **wrong})), format="hooks")
    assert bad.fate == "bad"
    assert bad.reason
    assert "Zq7" not in bad.reason
