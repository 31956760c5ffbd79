"""A job goes out as a line and comes in again as the same job, on every store."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kit import START, make_attempt, make_failure, make_job
from redrive.desk import importing, transfer
from redrive.desk.importing import Result
from redrive.desk.transfer import job_of, line_of
from redrive.jobs.job import Job, Reason, Resolution, State
from redrive.stores.contract import Query, Store
from redrive.stores.memory import MemoryStore

FAILURE = make_failure(
    "rate_limit",
    message="429 ünd \u202e\x1b[2J",
    traceback="Traceback…\n  line\n",
    hint=2.5,
    status=429,
)


def every_kind_of_job() -> list[Job]:
    """Jobs in every state, with every field in use somewhere."""
    tried = make_job(
        "TRIED00001",
        payload='{"price":10.10,"id":9223372036854775809,"e":"\\u00e9","name":"雪"}',
        key="order-7",
        tags=("vip", "eu"),
        attempts=2,
        lease=2,
        spent={"rate_limit": 2},
        crashes=1,
        redrives=3,
        own_max_attempts=7,
        first_failed=START + 1.25,
        release="1.8.2",
        edits=2,
        original='{"price":9}',
        folded=4,
        origin={"format": "hooks", "more": {"payload": [1, None]}},
        detail="waits",
        failure=replace(FAILURE, traceback=""),
    )
    attempts = tuple(
        make_attempt(replace(tried, lease=n, attempts=n), FAILURE, provider="openai")
        for n in (1, 2)
    )
    closed = Resolution(actor="ada", reason="paid", at=START + 9, was=Reason.EXHAUSTED)
    ended = {"finished": START + 9, "updated": START + 9}
    return [
        replace(tried, history=attempts),
        make_job(
            "DEAD000001", state=State.DEAD, reason=Reason.EXHAUSTED, died_at=START + 9, **ended
        ),
        make_job("DONE000001", state=State.COMPLETED, reason=Reason.DONE, **ended),
        make_job(
            "CLOSED0001", state=State.RESOLVED, reason=Reason.RESOLVED, resolution=closed, **ended
        ),
    ]


def lines_of(store: Store) -> list[str]:
    ids = sorted(job.id for job in store.find(Query(limit=1000)).jobs)
    return [line_of(job) for job in map(store.get, ids) if job is not None]


def take(store: Store, lines: list[bytes], *, dry_run: bool = False) -> list[Result]:
    batches = importing.stored(store, transfer.read(lines), dry_run=dry_run, own=True)
    return [result for batch in batches for result in batch]


def raw(lines: list[str]) -> list[bytes]:
    return [line.encode() + b"\n" for line in lines]


def test_out_and_in_and_out_again_is_the_same(store: Store) -> None:
    source = MemoryStore()
    source.add(every_kind_of_job())
    lines = lines_of(source)
    assert [one.fate for one in take(store, raw(lines))] == ["added"] * 4
    assert lines_of(store) == lines
    again = MemoryStore()
    list(take(again, raw(lines_of(store))))
    assert [again.get(job.id) for job in every_kind_of_job()] == [
        source.get(job.id) for job in every_kind_of_job()
    ]


def test_in_twice_changes_nothing_and_a_job_that_went_on_stays(store: Store) -> None:
    lines = raw([line_of(make_job("SAME000001")), line_of(make_job("SAME000001", lease=5))])
    assert [one.fate for one in take(store, lines)] == ["added", "known"]
    [claim] = store.claim(["mail"], limit=1, holder="w", lease_for=60)
    assert [one.fate for one in take(store, lines)] == ["known", "known"]
    assert store.get("SAME000001") == claim.job


def test_a_running_job_goes_out_as_given_back(store: Store) -> None:
    store.add([make_job("RUNS000001")])
    store.claim(["mail"], limit=1, holder="w", lease_for=60)
    [line] = lines_of(store)
    job = job_of(line)
    assert (job.state, job.attempts, job.lease) == (State.PENDING, 0, 1)
    assert (job.holder, job.lease_end, job.run) == (None, None, None)


def test_a_job_joins_the_group_of_its_cause_in_the_store_it_comes_to(store: Store) -> None:
    store.add([make_job("OTHER00001", failure=make_failure(cause="a"))])
    dead = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "finished": START}
    here = make_job("HERE000001", failure=make_failure(cause="b"), group=1, **dead)
    list(take(store, raw([line_of(here)])))
    assert [group.title for group in store.groups(Query())] == ["SomeError: b"]


def test_a_key_that_another_job_has_is_told_and_the_others_come_in(store: Store) -> None:
    store.add([make_job("FIRST00001", key="k", payload='{"a":1}')])
    jobs = [make_job(f"NEXT{n:06d}") for n in range(5)]
    jobs[2] = replace(jobs[2], key="k", payload='{"a":2}')
    jobs[4] = replace(jobs[4], key="k", payload='{"a":1}')
    told = list(take(store, raw([line_of(job) for job in jobs])))
    assert [one.fate for one in told] == ["added", "added", "bad", "added", "bad"]
    assert all("FIRST00001" in one.reason for one in told if one.fate == "bad")


def test_a_dry_run_stores_nothing(store: Store) -> None:
    lines = raw([line_of(job) for job in every_kind_of_job()])
    assert [one.fate for one in take(store, lines, dry_run=True)] == ["added"] * 4
    assert store.find(Query()).jobs == []


GOOD = json.loads(line_of(every_kind_of_job()[0]))
BAD_LINES = [
    ({"redrive": 2}, "version 2"),
    ({"redrive": True}, "is not a line"),
    ({"payload": [1]}, "object"),
    ({"payload": {"x": "\0"}}, "NUL"),
    ({"payload": "text"}, "object"),
    ({"history": 7}, "history cannot be 7"),
    ({"history": [GOOD["history"][1], GOOD["history"][0]]}, "ordinals"),
    ({"history": [{**GOOD["history"][0], "duration": "long"}]}, "duration cannot be 'long'"),
    ({"job": {"id": "x"}}, "without"),
]
BAD_FIELDS: list[tuple[str, object]] = [
    *(("id", one) for one in ("../x", "G0001", "r1234", "-abc", 7)),
    ("handler", "a b"),
    ("lane", "a|b"),
    *(("key", one) for one in ("ä", ["k"])),
    *(("state", one) for one in ("lost", "dead")),
    ("reason", "because"),
    *(("attempts", one) for one in (-1, 1.5, True)),
    ("lease", 2**40),
    *(("due", one) for one in ("soon", 1e300)),
    ("created", None),
    *(("tags", one) for one in ("vip", ["a\nb"])),
    ("spent", {"x": "y"}),
    *(("failure", one) for one in ({"category": "transient", "message": 7}, "odd")),
    ("original", "{"),
    ("detail", "a\0b"),
    ("resolution", {"actor": "ada"}),
    ("origin", [1]),
]


def test_whatever_no_store_would_have_written_is_bad_with_the_reason() -> None:
    """A line is a stranger's text until every field of it is checked."""
    assert job_of(json.dumps(GOOD)).id == "TRIED00001"
    for change, words in BAD_LINES:
        with pytest.raises(Exception, match=words):
            job_of(json.dumps({**GOOD, **change}))
    texts = [json.dumps({**GOOD, "job": {**GOOD["job"], name: it}}) for name, it in BAD_FIELDS]
    odd = [b"\xff\n", b"[\n", b"7\n", b"[" * 100_000, b'{"redrive":1}\n']
    lines = [line_of(make_job("GOOD000001")).encode(), b"\n", *map(str.encode, texts), *odd]
    results = take(MemoryStore(), lines)
    assert [one.fate for one in results] == ["added", *["bad"] * (len(lines) - 2)]
    assert [one.number for one in results] == [1, *range(3, len(lines) + 1)]
    assert all(one.reason for one in results[1:])


def test_a_line_of_a_quarantine_file_is_read_again() -> None:
    line = line_of(every_kind_of_job()[0])
    kept = json.dumps({"row": 3, "reason": "was bad", "record": line})
    [result] = take(MemoryStore(), [kept.encode()])
    assert (result.fate, result.job and result.job.id) == ("added", "TRIED00001")


def test_a_line_that_another_program_wrote_anew_is_read_too() -> None:
    """`jq -c` may change the order and the spelling of numbers, not the job."""
    shuffled = json.dumps(dict(reversed(GOOD.items())))
    assert job_of(shuffled).payload == (
        '{"price":10.1,"id":9223372036854775809,"e":"é","name":"雪"}'
    )


def test_half_a_character_goes_out_as_an_escape() -> None:
    line = line_of(make_job("HALF000001", detail="a\udcffb"))
    assert line.encode().isascii()
    assert json.loads(line)["job"]["detail"] == "a\udcffb"
