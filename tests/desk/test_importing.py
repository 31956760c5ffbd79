"""Import by a function: what becomes of rows, of bad ones, and of those that come again."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

import pgkit
from redrive import Category, Job, Reason, Redrive, State
from redrive.desk.importing import BadRow, Function, Result, rows_of_file, rows_of_query
from redrive.errors import StoreError, UsageError
from redrive.stores.contract import Query
from redrive.testing import ManualClock

AT = 1_700_000_000.0
"""2023-11-14T22:13:20Z."""
ISO = "2023-11-15T07:13:20+09:00"
ROW: dict[str, Any] = {"key": "7", "handler": "mail.send", "payload": {"to": "ada"}}


@pytest.fixture
def app() -> Iterator[Redrive]:
    with Redrive("memory:", clock=ManualClock(AT + 86400)) as app:
        yield app


def same(row: Any) -> Any:
    return row


def take(app: Redrive, *rows: Any, by: Function = same, **options: Any) -> list[Result]:
    return list(app.desk.transfer.import_rows(rows, by, **options))


def stored(app: Redrive, key: str) -> Job:
    [job] = app.store.find(Query(key=key, history=True)).jobs
    return job


def fates(results: list[Result]) -> list[str]:
    return [result.fate for result in results]


def test_a_row_becomes_a_job_in_its_state_with_what_is_known_of_its_past(app: Redrive) -> None:
    past = {"attempts": 3, "max_attempts": 5, "error": "HTTP 503", "error_type": "HTTPError"}
    past |= {"traceback": "Traceback…", "tags": ["vip"], "created": ISO, "failed_at": AT + 60}
    rows = [
        {**ROW, **past, "key": f"k-{state}", "state": state, "due": AT + 99}
        for state in ("pending", "dead", "completed", "resolved")
    ]
    assert fates(take(app, *rows)) == ["added"] * 4
    pending, dead, completed, resolved = (stored(app, f"k-{row['state']}") for row in rows)
    for job in (pending, dead, completed, resolved):
        assert job.failure is not None
        assert (job.failure.category, job.failure.type) == (Category.TRANSIENT, "HTTPError")
        failures = 2 if job is completed else 3  # the attempt that completed it was none
        assert (job.attempts, job.own_max_attempts) == (3, 5)
        assert job.spent == {"transient": failures}
        assert (job.created, job.updated, job.tags) == (AT, AT + 60, ("vip",))
        [attempt] = job.history
        assert (attempt.number, attempt.started, attempt.worker) == (3, AT + 60, "import")
        assert attempt.failure
        assert attempt.failure.traceback == "Traceback…"
        assert job.folded == 2
    assert (pending.due, pending.since, pending.finished) == (AT + 99, AT + 86400, None)
    assert (dead.reason, dead.died_at, dead.finished) == (Reason.EXHAUSTED, AT + 60, AT + 60)
    assert (completed.reason, completed.died_at) == (Reason.DONE, None)
    assert resolved.resolution is not None
    assert resolved.resolution.actor == "import"
    [group] = app.desk.groups.find()
    assert (group.title, app.store.verify().ok) == ("HTTPError: HTTP 503", True)
    [action] = app.desk.log.actions()
    assert (action.verb, action.done, action.skipped) == ("import", 4, 0)
    assert app.desk.reopen("key:k-resolved").done
    assert app.desk.retry("key:k-dead").done


def test_without_more_a_row_is_a_dead_letter_of_now(app: Redrive) -> None:
    odd = "'\"\\`$(rm)\n\t" + "".join(map(chr, range(1, 32))) + "\x7f\u2028 雪"
    text = '{"price": 10.10, "n": 9223372036854775809}'
    take(app, {**ROW, "payload": {"to": odd}}, {**ROW, "key": 8, "payload": text, "error": odd})
    first, second = stored(app, "7"), stored(app, "8")
    assert (first.state, first.died_at, first.attempts) == (State.DEAD, AT + 86400, 0)
    assert (json.loads(first.payload), first.failure) == ({"to": odd}, None)
    assert second.payload == '{"price":10.10,"n":9223372036854775809}'
    assert second.failure
    assert (second.failure.message, second.attempts) == (odd, 1)


def test_an_error_is_judged_by_its_words_and_masked(app: Redrive) -> None:
    table = {
        "connect ECONNREFUSED 10.0.0.1": "transient",
        "status 401 from the API": "auth",
        "HTTP 599": "transient",
        "HTTP 404": "permanent",
        "insufficient_quota for hunter22": "quota",
        "SMTP 550": "unknown",
    }
    payload = {"password": "hunter22"}
    rows = [{**ROW, "key": n, "payload": payload, "error": it} for n, it in enumerate(table)]
    take(app, *rows, {**ROW, "key": "t", "error_type": "TimeoutError"})
    take(app, {**ROW, "key": "c", "error": "odd", "category": "invalid"})
    jobs = [stored(app, f"{name}") for name in (*range(len(table)), "t", "c")]
    found = [job.failure.category for job in jobs if job.failure]
    assert found == [*table.values(), "transient", "invalid"]
    assert jobs[-1].reason is Reason.PERMANENT
    assert "hunter22" not in repr([job.failure and vars(job.failure) for job in jobs])


def test_times_have_a_zone_or_the_row_is_bad(app: Redrive) -> None:
    good = [AT, int(AT), ISO, "2023-11-14T22:13:20Z", datetime.fromtimestamp(AT, UTC)]
    take(app, *({**ROW, "key": n, "created": at} for n, at in enumerate(good)))
    assert {stored(app, f"{n}").created for n in range(len(good))} == {AT}
    [bad] = take(app, {**ROW, "created": "2026-01-02T00:00:00"})
    assert bad.reason == (
        "created has no time zone: '2026-01-02T00:00:00'; write"
        ' .replace(tzinfo=ZoneInfo("Asia/Tokyo")) in your function'
    )


def test_a_bad_row_has_its_reason_and_costs_itself_alone(app: Redrive) -> None:
    table: list[tuple[Any, str]] = [
        ("text", "the function returned 'text'; return a dict of fields, or None"),
        ({}, "the function returned no handler, key, payload"),
        ({**ROW, "key": ""}, "the function returned no key"),
        ({**ROW, "prio": 1}, "unknown field prio; use attempts, category, created"),
        ({**ROW, "state": "faild"}, "unknown state 'faild'; use pending, dead, completed"),
        ({**ROW, "state": "running"}, "unknown state 'running'"),
        ({**ROW, "handler": "redrive.alert"}, "is reserved"),
        ({**ROW, "handler": "a b"}, "a b"),
        ({**ROW, "handler": 7}, "handler must be text"),
        ({**ROW, "key": "a\nb"}, "cannot be printed"),
        ({**ROW, "key": "k" * 256}, "key"),
        ({**ROW, "payload": [1]}, "sequence"),
        ({**ROW, "payload": "[1]"}, "object"),
        ({**ROW, "payload": {"at": UUID(int=0)}}, "at"),
        ({**ROW, "payload": {"x": "\0"}}, "NUL"),
        ({**ROW, "payload": {"x": "\udcff"}}, "x"),
        ({**ROW, "payload": {"x": "x" * 2_000_000}}, "bytes"),
        ({**ROW, "attempts": "3"}, "attempts must be a whole number, 0"),
        ({**ROW, "attempts": 2**31}, "attempts"),
        ({**ROW, "tags": "vip"}, "tags must be a list"),
        ({**ROW, "error": "e", "category": "odd"}, "odd"),
        ({**ROW, "due": AT * 1000}, "divide milliseconds by 1000"),
        ({**ROW, "due": "soon"}, "soon"),
        ({**ROW, "due": [1]}, "due must be a datetime, ISO 8601 or seconds"),
        ({**ROW, "finished": True}, "finished must be"),
    ]
    results = take(app, *(row for row, _ in table), ROW, None, ROW)
    assert fates(results) == [*["bad"] * len(table), "added", "skipped", "bad"]
    assert [result.number for result in results] == list(range(1, len(table) + 4))
    for result, (row, words) in zip(results, table, strict=False):
        assert words in result.reason, (row, result.reason)
        assert result.row is row
    assert results[-1].reason == "an earlier row has the key '7'"


def test_what_the_function_raises_is_the_reason_masked_with_its_place(app: Redrive) -> None:
    def look(row: Any) -> Any:
        raise LookupError(f"no customer {row['customer']} with {row['password']}")

    [result] = take(app, {"customer": "ada", "password": "hunter22"}, by=look)
    assert result.reason.startswith("LookupError: no customer ada with ••• (test_importing.py, ")


def test_again_adds_nothing_whatever_happened_since(app: Redrive) -> None:
    rows = [{**ROW, "key": f"k{n}", "error": "down"} for n in range(4)]
    assert fates(take(app, *rows[:3])) == ["added"] * 3
    app.desk.retry("key:k0")
    app.desk.resolve("key:k1", reason="done")
    app.desk.edit(stored(app, "k2").id, '{"to": "bob"}')
    before = [stored(app, f"k{n}") for n in range(3)]
    assert fates(take(app, *rows)) == ["known"] * 3 + ["added"]
    changed = [{**row, "payload": {"new": True}, "created": ISO} for row in rows]
    assert fates(take(app, *changed)) == ["known"] * 4
    assert [stored(app, f"k{n}") for n in range(3)] == before


def test_a_key_of_another_job_is_known_or_bad_and_name_is_a_prefix(app: Redrive) -> None:
    send = app.handler("mail.send")(lambda to: None)
    send.options(key="7").submit(to="eve")
    send.options(key="8").submit(to="ada")
    rows = [ROW, {**ROW, "key": "8"}, {**ROW, "key": "注文 9/%"}, {**ROW, "key": "10"}]
    orders = [{**row, "handler": "order.place"} for row in rows]
    for dry_run in (True, False):
        assert fates(take(app, *rows, dry_run=dry_run)) == ["known", "known", "added", "added"]
    for dry_run in (True, False):
        results = take(app, *orders, dry_run=dry_run)
        assert fates(results) == ["bad"] * 4
        assert "belongs to job" in results[0].reason
        assert "--name" in results[3].reason
    assert fates(take(app, *orders, name="orders")) == ["added"] * 4
    assert stored(app, "orders:7").handler == "order.place"
    assert stored(app, "%E6%B3%A8%E6%96%87%209/%25").origin == {
        "format": "import",
        "id": "注文 9/%",
    }


def test_a_dry_run_says_the_same_and_stores_nothing(app: Redrive) -> None:
    rows = [*({**ROW, "key": n} for n in range(1200)), {}, None, {**ROW, "key": 5}]
    dry = take(app, *rows, dry_run=True)
    assert (list(app.desk.jobs.each()), app.desk.log.actions()) == ([], [])
    assert fates(dry) == fates(take(app, *rows))


def test_a_generator_function_gets_all_rows_and_may_fold_them(app: Redrive) -> None:
    def fold(rows: Iterator[Any]) -> Iterator[Any]:
        last: dict[str, int] = {}
        for row in rows:
            if "key" in row:
                last[row["key"]] = row["n"]
            else:
                yield BadRow(row, "has no key")
        yield None
        for key, number in last.items():
            yield {**ROW, "key": key, "attempts": number}

    lines = b'{"key":"a","n":1}\n{"odd":1}\nnonsense\n{"key":"a","n":2}\n{"key":"b","n":0}\n'
    results = take(app, *rows_of_file(io.BytesIO(lines), ""), by=fold)
    assert fates(results) == ["bad", "bad", "skipped", "added", "added"]
    assert [(one.number, one.row) for one in results[:2]] == [(2, {"odd": 1}), (3, "nonsense")]
    assert stored(app, "a").attempts == 2

    def broken(rows: Iterator[Any]) -> Iterator[Any]:
        for row in rows:
            yield {**ROW, "key": row["key"]}

    with pytest.raises(UsageError, match=r"failed at row 2: KeyError: 'key' .*yield BadRow"):
        take(app, {"key": 1}, {}, by=broken)
    assert fates(take(app, {"key": 1}, by=broken)) == ["added"]


def rows(text: str | bytes, suffix: str) -> list[Any]:
    data = text if isinstance(text, bytes) else text.encode()
    return list(rows_of_file(io.BytesIO(data), suffix))


def test_files_of_cells() -> None:
    expected = [{"id": "1", "名": 'a "q",\n雪'}, {"id": "2", "名": ""}]
    for sign in ",;\t|":
        text = f'id{sign}名\r\n1{sign}"a ""q"",\n雪"\r\n\r\n2{sign}\r\n'
        for bom in ("", "\ufeff"):
            assert rows(bom + text, ".tsv" if sign == "\t" else ".csv") == expected
    assert rows("a,b\n1\n1,2,3\n4,5\n", ".csv") == [
        BadRow(["1"], "has 1 cells, and the first line 2"),
        BadRow(["1", "2", "3"], "has 3 cells, and the first line 2"),
        {"a": "4", "b": "5"},
    ]
    odd, good = rows('a,b\n"x"y,2\n3,4\n', ".csv")
    assert "line 2 is not CSV" in odd.reason
    assert good == {"a": "3", "b": "4"}
    assert len(rows(f"a,b\n{'x' * 200_000},1\n", ".csv")[0]["a"]) == 200_000
    assert rows("", ".csv") == []
    for data in ("注文,顧客\n1,2\n".encode("cp932"), "a,b\n1,2\n".encode("utf-16"), b"a,a\n1,2\n"):
        with pytest.raises(UsageError, match=r"each column once, in UTF-8; .*iconv"):
            rows(data, ".csv")


def test_files_of_json() -> None:
    assert rows('\ufeff[{"a": 1}, 2]'.encode(), ".json") == [{"a": 1}, 2]
    assert rows('{"items": [1]}', ".json") == [{"items": [1]}]
    with pytest.raises(UsageError, match=r"not a JSON document.*\.jsonl"):
        rows('{"a": 1}\n{"a": 2}\n', ".json")
    lines = b'\xef\xbb\xbf{"a":1}\n\n{"a":\n"\xff"\n' + b"[" * 100_000 + b'\n{"a":2}'
    first, *bad, last = rows(lines, ".jsonl")
    assert (first, last) == ({"a": 1}, {"a": 2})
    assert [one.row[:5] for one in bad] == ['{"a":', '"\udcff"', "[[[[["]
    assert all("is not JSON in UTF-8" in one.reason for one in bad)
    kept = [{"row": 3, "reason": "x", "record": one} for one in ({"a": 1}, '{"a":1}', "no")]
    *mended, still = rows("\n".join(map(json.dumps, kept)), ".bad-1")
    assert mended == [{"a": 1}] * 2
    assert isinstance(still, BadRow)


def test_a_query_in_sqlite_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "old.db"
    with sqlite3.connect(place) as db:
        db.execute("CREATE TABLE 注文 (id integer, 顧客 text)")
        db.execute("INSERT INTO 注文 VALUES (1, 'ada'), (2, NULL), (3, CAST(x'ff' AS text))")
    before = place.read_bytes()
    for url in (str(place), f"sqlite:{place}"):
        found = list(rows_of_query(url, "SELECT id, 顧客 FROM 注文 ORDER BY id"))
        assert found == [
            {"id": 1, "顧客": "ada"},
            {"id": 2, "顧客": None},
            {"id": 3, "顧客": "\udcff"},
        ]
    for query in ("DELETE FROM 注文", "SELECT nothing"):
        with pytest.raises(StoreError, match="the query cannot be read"):
            list(rows_of_query(str(place), query))
    with pytest.raises(UsageError, match="two columns of one name"):
        list(rows_of_query(str(place), "SELECT id, id FROM 注文"))
    with pytest.raises(StoreError, match="no SQLite file"):
        list(rows_of_query(str(tmp_path / "none.db"), "SELECT 1"))
    assert (place.read_bytes(), [one.name for one in tmp_path.iterdir()]) == (before, ["old.db"])


def test_a_query_in_postgresql_changes_nothing(app: Redrive) -> None:
    url = pgkit.url_of()
    found = list(
        rows_of_query(
            url,
            "SELECT n AS id, jsonb_build_object('to', '雪' || n) AS body, '100%' AS rate,"
            " timestamptz '2023-11-14 22:13:20+00' AS at, timestamp '2023-11-14 22:13:20' AS naive"
            " FROM generate_series(1, 1201) AS n",
        )
    )
    assert len(found) == 1201
    assert (found[0]["body"], found[0]["rate"]) == ({"to": "雪1"}, "100%")

    def to_job(row: Any) -> Any:
        created = row["naive"] if row["id"] == 7 else row["at"]
        return {**ROW, "key": row["id"], "payload": row["body"], "created": created}

    results = take(app, *found[:10], by=to_job)
    assert fates(results) == [*["added"] * 6, "bad", *["added"] * 3]
    assert stored(app, "1").created == AT
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TEMPORARY TABLE t (a int)")
    for query in ("SELECT nothing", "CREATE TABLE public.redrive_no (a int)", "DELETE FROM t"):
        with pytest.raises(StoreError, match="the query cannot be read"):
            list(rows_of_query(url, query))
    with pytest.raises(StoreError, match="cannot be read"):
        list(rows_of_query("postgresql://127.0.0.1:1/none", "SELECT 1"))
