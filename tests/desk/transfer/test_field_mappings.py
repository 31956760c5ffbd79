"""Issue 21: tables and files of any shape come in by a mapping; nothing is lost, twice is once."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pytest

from exchangekit import jobs
from redrive import Job, Redrive
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.importing import LineResult
from redrive.desk.transfer.mapping import FieldMapping
from redrive.errors import UsageError
from redrive.testing import ManualClock

AT = 1_700_000_000
MAP = {
    "key": "番号",
    "payload.to": "宛先",
    "payload.mail.subject": "件名",
    "payload.amount": "金額",
    "state": "状態:失敗=dead,期限切れ=dead.expired,待ち=pending,完了=completed,下書き=skip",
    "attempts": "Retry Count",
    "error": '"last:error"',
    "created": "作成",
    "due": "next.at",
    "tags": "labels",
}
ROW: dict[str, Any] = {
    "番号": 7,
    "宛先": "ada@example.org",
    "件名": "雪",
    "金額": 10.5,
    "状態": "失敗",
    "Retry Count": 3,
    "last:error": "550 rejected, password=hunter22",
    "作成": "2023-11-14T22:13:20Z",
    "next.at": AT * 1000 + 60_000,
    "labels": ["vip", "eu west"],
}


def mapping(**changes: Any) -> FieldMapping:
    rules = {**MAP, **changes}
    kept = {name: text for name, text in rules.items() if text is not None}
    return FieldMapping.of("mails", kept, set={"handler": "mail.send"})


def take(
    rows: list[dict[str, Any]], app: Redrive | None = None, by: FieldMapping | None = None
) -> tuple[Redrive, list[LineResult]]:
    app = app or Redrive("memory:", clock=ManualClock(AT + 86400))
    return app, list(app.desk.transfer.import_rows(rows, mapping=by or mapping()))


def only(row: dict[str, Any], by: FieldMapping | None = None) -> Job:
    app, results = take([row], by=by)
    assert [(one.fate, one.reason) for one in results] == [("added", "")]
    [job] = jobs(app).values()
    return job


def test_a_row_with_odd_names_becomes_a_job_with_all_it_tells() -> None:
    job = only(ROW)
    assert (job.key, job.handler, job.state, job.reason) == (
        "mails:7", "mail.send", "dead", "exhausted",
    )  # fmt: skip
    expected = {"to": "ada@example.org", "mail": {"subject": "雪"}, "amount": 10.5}
    assert json.loads(job.payload) == expected
    assert (job.attempts, job.created, job.due) == (3, AT, AT + 60)
    assert job.tags == ("vip", "eu_west")
    assert job.failure is not None
    assert job.failure.message == "550 rejected, password=•••"
    assert job.first_failed == AT


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("期限切れ", "dead expired"),
        ("待ち", "pending"),
        ("完了", "completed done"),
    ],
)
def test_states_in_any_language_are_mapped(word: str, expected: str) -> None:
    job = only({**ROW, "状態": word})
    assert " ".join(filter(None, [job.state, job.reason])) == expected


def test_what_waits_counts_its_age_from_the_import_and_keeps_its_own() -> None:
    job = only({**ROW, "状態": "待ち"})
    assert (job.created, job.since) == (AT, AT + 86400)


def test_pending_while_attempts_are_left_and_dead_after() -> None:
    by = mapping(state="状態:失敗=by_attempts", max_attempts="most")
    assert [only({**ROW, "most": most}, by).state for most in (3, 4)] == ["dead", "pending"]


def test_failures_count_what_failed_and_a_completed_job_had_one_attempt_more() -> None:
    job = only({**ROW, "状態": "完了"}, mapping(attempts=None, failures="Retry Count"))
    assert (job.attempts, sum(job.spent.values())) == (4, 3)
    assert only(ROW, mapping(attempts="Retry Count:+1")).attempts == 4


def test_a_whole_payload_keeps_its_spelling_and_takes_members_from_columns() -> None:
    text = '{"id":7,"body":{"price":10.10,"n":9223372036854775809},"st":"dead"}\n'
    by = FieldMapping.of(
        "t",
        {"key": "id", "payload": "body", "state": "st"},
        set={"handler": "a", "tags": "old,lot-7"},
    )
    app = Redrive("memory:")
    assert [one.fate for one in app.desk.transfer.import_lines([text.encode()], mapping=by)] == [
        "added"
    ]
    [job] = jobs(app).values()
    assert job.payload == '{"price":10.10,"n":9223372036854775809}'
    assert job.tags == ("old", "lot-7")
    more = FieldMapping.of(
        "t",
        ["key=id", "payload=body", "payload.state=st"],
        set=["handler=a", "state=dead", "payload.lot=7"],
    )
    in_text = {"id": 7, "body": '{"price":10.10}', "st": "x"}
    assert only(in_text, more).payload == '{"price":10.10,"lot":"7","state":"x"}'
    whole = FieldMapping.of("t", ["key=id", "payload=*"], set=["handler=a", "state=dead"])
    assert json.loads(only(in_text, whole).payload) == in_text


def test_twice_is_once_whatever_became_of_the_job() -> None:
    rows = [{**ROW, "番号": number} for number in range(1_200)]
    app, results = take(rows)
    assert {one.fate for one in results} == {"added"}
    app.desk.retry("state:dead", reason="fixed")
    before = jobs(app)
    _, again = take(rows, app)
    assert {one.fate for one in again} == {"known"}
    assert jobs(app) == before
    dry = app.desk.transfer.import_rows(rows, mapping=mapping(), dry_run=True)
    assert {one.fate for one in dry} == {"known"}


@pytest.mark.parametrize("between", [0, 700])
def test_two_rows_with_one_key_are_told_of_and_never_folded(between: int) -> None:
    """A key that does not tell the rows apart would lose work."""
    others = [{**ROW, "番号": 100 + number} for number in range(between)]
    app, results = take([ROW, *others, {**ROW, "宛先": "eve@example.org", "作成": None}])
    last = results[-1]
    assert last.fate == "differs"
    assert "map a key that tells them apart" in last.reason
    assert len(jobs(app)) == 1 + between


def test_a_key_may_be_made_of_columns_and_must_be_there() -> None:
    by = mapping(key=["番号", "宛先"])
    app, results = take([ROW, {**ROW, "宛先": "eve"}, {**ROW, "番号": None}], by=by)
    assert [one.fate for one in results] == ["added", "added", "bad"]
    assert "番号 must be a text or a number" in results[-1].reason
    assert len(jobs(app)) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"状態": "謎"}, "'謎' in 状態 is not mapped"),
        ({"Retry Count": "many"}, "attempts must be a whole number"),
        ({"Retry Count": -1}, "attempts must be a whole number"),
        ({"作成": "yesterday"}, "created is not a time"),
        ({"next.at": 10**30}, "due is not a time"),
        ({"金額": float("nan")}, "NaN"),
        ({"宛先": "x" * 2_000_000}, "limit"),
    ],
)
def test_a_bad_row_costs_itself_alone_and_says_why(changes: dict[str, Any], said: str) -> None:
    app, results = take([{**ROW, **changes}, {**ROW, "番号": 8}])
    assert [one.fate for one in results] == ["bad", "added"]
    assert said in results[0].reason
    assert len(jobs(app)) == 1


def test_reasons_do_not_show_secrets_nor_drive_a_terminal() -> None:
    row = {**ROW, "状態": "token=Zq7-opaque-93x", "token": "Zq7-opaque-93x"}
    _, [bad] = take([row])
    assert "Zq7" not in bad.reason
    by = FieldMapping.of(
        "t", ["key=id", "payload.password=pw", "error=e"], set=["handler=a", "state=dead"]
    )
    job = only({"id": 1, "pw": "hunter22", "e": "login with hunter22 failed"}, by)
    assert job.failure is not None
    assert job.failure.message == "login with ••• failed"


def test_the_last_line_of_a_traceback_is_the_error_where_no_column_has_it() -> None:
    by = FieldMapping.of(
        "t", ["key=id", "payload.n=id", "error.trace=tb"], set=["handler=a", "state=dead"]
    )
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nshop.errors.NoVat: id 7\n'
    failure = only({"id": 1, "tb": trace}, by).failure
    assert failure is not None
    assert (failure.type, failure.message) == ("NoVat", "id 7")


@pytest.mark.parametrize("text", ["3", " 3 ", "3.0", 3, 3.0])
def test_counts_are_read_as_spreadsheets_write_them(text: object) -> None:
    assert only({**ROW, "Retry Count": text}).attempts == 3


def test_exact_numbers_stay_exact() -> None:
    by = FieldMapping.of("t", ["key=id", "payload.sum=n"], set=["handler=a", "state=dead"])
    number = Decimal("12345678901234567890.10")
    assert only({"id": 1, "n": number}, by).payload == '{"sum":12345678901234567890.10}'


def test_bytes_that_are_no_text_spoil_no_row() -> None:
    by = FieldMapping.of("t", ["key=id", "payload.b=b"], set=["handler=a", "state=dead"])
    assert json.loads(only({"id": 1, "b": b"\x80\x04"}, by).payload) == {"b": {"base64": "gAQ="}}
    assert json.loads(only({"id": 1, "b": b"text"}, by).payload) == {"b": "text"}


def test_left_out_rows_are_counted_and_are_no_jobs() -> None:
    by = FieldMapping.of("mails", MAP, set={"handler": "mail.send"}, where=["宛先!=eve,mallory"])
    app, results = take([ROW, {**ROW, "番号": 8, "宛先": "eve"}, {**ROW, "状態": "下書き"}], by=by)
    assert [one.fate for one in results] == ["added", "filtered", "filtered"]
    assert len(jobs(app)) == 1


def test_a_mapped_column_that_is_missing_is_named_before_anything_is_stored() -> None:
    with pytest.raises(UsageError, match="no such column in mails: st; it has: 番号"):
        take([ROW], by=mapping(state="st:failed=dead"))


def test_a_time_without_a_zone_stops_the_import_unless_it_is_named() -> None:
    row = {**ROW, "作成": "2023-11-15 07:13:20"}
    with pytest.raises(UsageError, match="--assume-tz"):
        take([row])
    assert only(row, mapping(created="作成:@Asia/Tokyo")).created == AT


CSV = """\
id;宛先;件名;状態;試行;作成
1;"a;b";"two
lines";失敗;3;1700000000000
2;b;x;完了;1;2023-11-14T22:13:20Z
3;c;x;待ち;;
4;c;x;待ち
5;c;x;待ち;1;;more
"""
CSV_MAP = FieldMapping.of(
    "mails",
    ["key=id", "payload.to=宛先", "payload.subject=件名", "attempts=試行", "created=作成",
     "state=状態:失敗=dead,待ち=pending,完了=completed"],
    set=["handler=mail.send"],
)  # fmt: skip


@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
def test_csv_comes_in_and_rows_that_do_not_fit_can_be_mended(head: bytes) -> None:
    app = Redrive("memory:", clock=ManualClock(AT + 86400))
    data = head + CSV.encode()
    results = list(app.desk.transfer.import_lines(io.BytesIO(data), mapping=CSV_MAP))
    assert [(one.number, one.fate) for one in results] == [
        (2, "added"), (4, "added"), (5, "added"), (6, "bad"), (7, "bad"),
    ]  # fmt: skip
    assert data[results[1].offset :].startswith(b"2;b")
    assert "4 cells, and the header has 6" in results[3].reason
    first = next(job for job in jobs(app).values() if job.key == "mails:1")
    assert json.loads(first.payload) == {"to": "a;b", "subject": "two\nlines"}
    assert {job.created for job in jobs(app).values()} == {AT, AT + 86400}
    lines = [
        {"line": 1, "offset": 0, "reason": "", "text": one.raw.decode()} for one in results[3:]
    ]
    lines[1]["text"] = str(lines[1]["text"]).replace(', "": ["more"]', "")
    lines[0]["text"] = str(lines[0]["text"]).replace('"": []', '"作成": ""')
    mended = "".join(json.dumps(line) + "\n" for line in lines).encode()
    again = list(app.desk.transfer.import_lines(io.BytesIO(mended), mapping=CSV_MAP))
    assert [one.fate for one in again] == ["added", "added"], [one.reason for one in again]


def test_csv_with_a_broken_quote_is_put_aside_and_loses_nothing() -> None:
    app = Redrive("memory:")
    data = 'id,to,st\n1,"a"x,failed\n2,b,failed\n3,"never closed,failed\n4,d,failed\n'
    by = FieldMapping.of("t", ["key=id", "payload.to=to"], set=["handler=a", "state=dead"])
    results = list(app.desk.transfer.import_lines(io.BytesIO(data.encode()), mapping=by))
    text = "".join(one.raw.decode() for one in results if one.fate == "bad")
    assert len(jobs(app)) == 1
    assert all(word in text for word in ("a", "never closed", "4,d,failed"))


@pytest.mark.parametrize("encoding", ["cp932", "euc-jp"])
def test_csv_in_another_encoding_is_read_by_its_name(encoding: str) -> None:
    from redrive.desk.transfer.sources import utf8  # noqa: PLC0415

    app = Redrive("memory:")
    data = CSV.replace("5;c;x;待ち;1;;more\n", "").replace("4;c;x;待ち\n", "").encode(encoding)
    with utf8(io.BytesIO(data), encoding) as file:
        results = list(app.desk.transfer.import_lines(file, mapping=CSV_MAP))
    assert {one.fate for one in results} == {"added"}
    with pytest.raises(UsageError, match="encoding"), utf8(io.BytesIO(b"a,b\n"), "rot13"):
        pass


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"id":1,"items":[1]}\n{"id":2,"items":[{"id":3}]}\n', ""),
        ('[{"id":1},\n {"id":2}]', ""),
        ('{"meta":{"rows":[9]},"data":{"rows":[{"id":1},{"id":2}],"n":2}}', "data.rows"),
        ('{"rows":{"a":{"id":1},"b":{"id":2}}}', "rows"),
    ],
)
def test_json_of_any_frame_is_cut_into_records(text: str, path: str) -> None:
    from redrive.desk.transfer.sources import records  # noqa: PLC0415

    app = Redrive("memory:")
    by = FieldMapping.of("t", ["key=id", "payload=*"], set=["handler=a", "state=dead"])
    pieces = records(io.BytesIO(text.encode()), path)
    assert [one.fate for one in app.desk.transfer.import_lines(pieces, mapping=by)] == ["added"] * 2
    if path:
        with pytest.raises(UsageError, match="--records NAME"):
            list(app.desk.transfer.import_lines(io.BytesIO(text.encode()), mapping=by))


def test_an_import_takes_its_options_from_the_call() -> None:
    app = Redrive("memory:")
    by = FieldMapping.of("t", ["key=id", "payload=*", "created=t"], set=["state=dead"])
    options: dict[str, Any] = {"mapping": by, "source": "orders", "reason": "move"}
    asked = TransferOptions(handler="order.place")
    [one] = app.desk.transfer.import_rows([{"id": 1, "t": AT}], asked=asked, **options)
    assert one.fate == "added"
    action = app.desk.log.actions()[0]
    assert (action.verb, action.target, action.reason, action.done) == (
        "import", "orders", "move", 1,
    )  # fmt: skip
