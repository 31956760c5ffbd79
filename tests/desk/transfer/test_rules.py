"""The grammar of mappings: what text means, and what is refused with what to do."""

from __future__ import annotations

import pytest

from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.mapping import FieldMapping, moment
from redrive.desk.transfer.rules import at, condition_of, rule_of, written
from redrive.errors import UsageError


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("payload=body", [("body",)]),
        ("created=a,b.c", [("a",), ("b", "c")]),
        ("error=err message (last)", [("err message (last)",)]),
        ('error="a:b"."c""d"', [("a:b", 'c"d')]),
        ("payload.件名=件名", [("件名",)]),
        ("error=tries.-1.message", [("tries", "-1", "message")]),
    ],
)
def test_a_rule_names_columns_and_paths(text: str, paths: list[tuple[str, ...]]) -> None:
    rule = rule_of(text)
    assert list(rule.paths) == paths
    assert rule_of(f"error={','.join(map(written, paths))}").paths == rule.paths


def test_a_value_map_has_quotes_defaults_and_no_value() -> None:
    rule = rule_of('state=st:失敗=dead,"a,b=c"=pending,=skip,*=completed')
    assert [rule.value({"st": word}) for word in ("失敗", "a,b=c", None, "", "x", 1, True)] == [
        "dead", "pending", "skip", "skip", "completed", "completed", "completed",
    ]  # fmt: skip
    assert rule_of("state=st:0=pending,1=dead").value({"st": 1}) == "dead"
    assert rule_of("handler=kind:a=mail.send,*=*").value({"kind": "other"}) == "other"
    with pytest.raises(ValueError, match="'lost' in st is not mapped; add lost=…"):
        rule_of("state=st:failed=dead").value({"st": "lost"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("payload", "FIELD=COLUMN"),
        ("payload=", "lacks the name of a column"),
        ("colour=x", "not a field of a job; use one of key, payload"),
        ("state=st:failed=gone", "state cannot be gone; use one of pending"),
        ("state=st:failed", "not a value map"),
        ("attempts=n:twice", r"such as \+1"),
        ("created=t:hours", "use s, ms, us, ns"),
        ("created=t:ms@Mars/Base", "not a known time zone"),
        ("payload=body:json", "payload.NAME has the options"),
        ('error=a"b', "double quotes"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        rule_of(text)


def test_a_filter_wants_values_or_refuses_them() -> None:
    wanted, refused = condition_of("st=failed,dead"), condition_of('"a=b"!=')
    assert [wanted.holds({"st": word}) for word in ("failed", "dead", "done", None)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert [refused.holds({"a=b": word}) for word in ("x", "", None)] == [True, False, False]
    for text in ("st", "=x", "st>3"):
        with pytest.raises(UsageError, match=r"filter|column"):
            condition_of(text)


def test_a_path_goes_into_objects_lists_and_json_in_text() -> None:
    record = {"a": {"b": [1, {"c": 2}]}, "t": '{"x":{"y":3}}', "d.e": 4, "n": None}
    found = [at(record, path) for path in (("a", "b", "-1", "c"), ("t", "x", "y"), ("d", "e"))]
    assert found == [2, 3, 4]
    assert at(record, ("n", "x")) is at(record, ("a", "b", "9")) is None
    for odd in ("down", '{"message":', ["down"], 7):
        with pytest.raises(ValueError, match="must stand in an object"):
            at({"error": odd}, ("error", "message"))


@pytest.mark.parametrize(
    ("value", "option"),
    [
        ("2023-11-14T22:13:20Z", ""),
        ("2023-11-15 07:13:20", "@Asia/Tokyo"),
        ("1700000000", ""),
        (1_700_000_000_000, ""),
        ("1700000000000000", ""),
        (1_700_000_000_000_000_000, ""),
        (1_700_000, "ms"),
        ("2023年11月15日 07時13分20秒", "%Y年%m月%d日 %H時%M分%S秒@+09:00"),
        ("20231114221320", "%Y%m%d%H%M%S@UTC"),
    ],
)
def test_times_of_all_spellings_are_one_moment(value: object, option: str) -> None:
    assert moment(value, option, TransferOptions()) == (
        1700.0 if option == "ms" else 1_700_000_000.0
    )


@pytest.mark.parametrize(
    ("without", "said"),
    [("key", "--map key=COLUMN"), ("payload.to", "--map payload="), ("state", "--set state=dead")],
)
def test_a_mapping_without_what_every_job_needs_is_refused(without: str, said: str) -> None:
    full = {"key": "id", "payload.to": "to", "state": "st"}
    mapping = FieldMapping.of("t", {name: it for name, it in full.items() if name != without})
    with pytest.raises(UsageError, match=said):
        mapping.check("mail.send")
    FieldMapping.of("t", full).check("mail.send")
    with pytest.raises(UsageError, match="--handler NAME"):
        FieldMapping.of("t", full).check()


@pytest.mark.parametrize("value", ["202402301200", "20240230120000"])
def test_a_date_that_does_not_exist_is_no_number(value: str) -> None:
    form = "%Y%m%d%H%M" + "%S" * (len(value) > 12) + "@UTC"
    with pytest.raises(ValueError, match="is not a time in the format"):
        moment(value, form, TransferOptions())
