"""Strict JSON: one rule for every store."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redrive.errors import BadPayload
from redrive.payloads.strict_json import MAX_BYTES, MAX_DEPTH, compact, dumps, loads, same
from tablekit import each_row

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
)
objects = st.dictionaries(texts, values, max_size=6)

Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - the plain kind is what users pass


class Colour(str, enum.Enum):  # noqa: UP042 - a str subclass on purpose
    RED = "red"


class Name(str):
    __slots__ = ()


class Rank(enum.IntEnum):
    FIRST = 1


def nested(levels: int, kind: type = list) -> dict[str, Any]:
    """Build an object of exactly so many levels, itself included."""
    inner: Any = kind()
    for _ in range(levels - 2):
        inner = [inner] if kind is list else {"k": inner}
    return {"deep": inner}


def circular() -> dict[str, Any]:
    loop: dict[str, Any] = {"a": []}
    loop["a"].append(loop)
    return loop


REFUSED_VALUES: list[tuple[object, str, str]] = [
    ({"a": float("nan")}, "$.a", "finite"),
    ({"a": [1, float("inf")]}, "$.a[1]", "finite"),
    ({"a": [{}, {"b": float("-inf")}]}, "$.a[1].b", "finite"),
    ({"a": {"b": "x\ud800"}}, "$.a.b", "surrogate"),
    ({"a\udfff": 1}, "$['a\\udfff']", "surrogate"),
    ({"a": "x\0y"}, "$.a", "NUL"),
    ({"a\0": 1}, "$['a\\x00']", "NUL"),
    ({"a": {1: "x", "1": "y"}}, "$.a[1]", "keys must be str"),
    ({None: 1}, "$[None]", "keys must be str"),
    ({Name("a"): 1}, "$['a']", "keys must be str"),
    (nested(MAX_DEPTH + 1), "$.deep" + "[0]" * (MAX_DEPTH - 1), "deeper than 64"),
    (nested(MAX_DEPTH + 1, dict), "$.deep" + ".k" * (MAX_DEPTH - 1), "deeper than 64"),
    ({"n": 10**4300}, "$.n", "4300 digits"),
    ({"n": -(10**5000)}, "$.n", "4300 digits"),
    ({"items": [0, 0, 0, {"price": b"x"}]}, "$.items[3].price", "of type bytes"),
    ({"when": dt.datetime.now(dt.UTC)}, "$.when", "of type datetime"),
    ({"p": decimal.Decimal("1.1")}, "$.p", "of type Decimal"),
    ({"s": {1, 2}}, "$.s", "annotate"),
    ({"o": object()}, "$.o", "of type object"),
    ({"c": Colour.RED}, "$.c", "of type Colour"),
    ({"r": Rank.FIRST}, "$.r", "of type Rank"),
    ({"d": OrderedDict(a=1)}, "$.d", "of type OrderedDict"),
    ({"t": Pair(1, 2)}, "$.t", "of type Pair"),
    ({"two words": {"é": b""}}, "$['two words']['\\xe9']", "bytes"),
    ({"\x1b[2J": b""}, "$['\\x1b[2J']", "bytes"),
]


@each_row("value, field, why", REFUSED_VALUES)
def test_what_json_cannot_keep_is_refused_and_the_field_is_named(
    value: object, field: str, why: str
) -> None:
    with pytest.raises(BadPayload) as caught:
        dumps(value)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)
    assert why in str(caught.value)
    str(caught.value).encode()


@each_row("value", [[], (), "x", 1, None, True, b"{}"])
def test_only_an_object_is_a_payload(value: object) -> None:
    with pytest.raises(BadPayload, match="JSON object"):
        dumps(value)


def test_a_circular_object_is_refused_without_recursing() -> None:
    with pytest.raises(BadPayload, match="contains itself"):
        dumps(circular())


def test_too_many_bytes_are_refused_with_both_numbers() -> None:
    text = dumps({"a": "é" * 100})
    assert len(text.encode()) == 208
    assert dumps({"a": "é" * 100}, max_bytes=208) == text
    with pytest.raises(BadPayload, match=r"208 bytes, the limit is 207"):
        dumps({"a": "é" * 100}, max_bytes=207)
    with pytest.raises(BadPayload, match=r"10,485,768 bytes, the limit is 1,048,576"):
        dumps({"a": "x" * 10 * MAX_BYTES})


def test_what_is_at_the_limit_passes() -> None:
    for kind in (list, dict):
        deepest = nested(MAX_DEPTH, kind)
        assert loads(dumps(deepest)) == deepest
    for longest in (10**4300 - 1, 1 - 10**4300):
        assert loads(compact(dumps({"n": longest}))) == {"n": longest}
    many = {str(n): n for n in range(50_000)}
    assert loads(dumps(many)) == many


def test_text_is_compact_utf8_in_the_order_given() -> None:
    assert dumps({"b": (1, 2.5), "a": {"ü": None, "\u2028": True}}) == (
        '{"b":[1,2.5],"a":{"ü":null,"\u2028":true}}'
    )


@given(objects)
@example({"n": 2**63 + 1, "f": -0.0, "lines": "\u2028\x85\x1c"})
def test_what_is_written_is_read_back_exactly(value: dict[str, Any]) -> None:
    text = dumps(value)
    assert loads(text) == value
    assert repr(loads(text)) == repr(value)
    assert compact(text) == text


@given(objects, st.sampled_from([None, 1, 4, "\t", " \r\n"]), st.booleans())
def test_white_space_outside_strings_is_all_that_goes(
    value: dict[str, Any], indent: int | str | None, ascii_only: bool
) -> None:
    spaced = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    tight = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)
    assert compact(f" \n{spaced}\t\r\n") == tight
    assert compact(spaced.encode()) == tight


@each_row(
    "text",
    [
        '{"price":10.10,"id":9223372036854775809,"e":1E+2,"z":-0.0,"n":-0}',
        '{"a":"\\u00e9\\/ \\t","b":"  \\" , : "}',
        '{"😀":"\\ud83d\\ude00"}',
        '{"tiny":1e-400,"literal":"\\\\u0000 \\\\ud800"}',
        "{}",
    ],
)
def test_numbers_and_escapes_stay_as_the_person_wrote_them(text: str) -> None:
    assert compact(text) == text
    assert compact(text.replace("{", "{ \n\t", 1) + "\r\n") == text


# F69 to F77
@each_row(
    "text, why",
    [
        ('{"a":NaN}', "$.a is not a finite"),
        ('{"a":[0,{"b":1e400}]}', r"$.a[1].b is not a finite"),
        ('{"a":-Infinity}', "$.a is not a finite"),
        ('{"a":1,"a":2}', "$ has the key 'a' twice"),
        ('{"x":[{"a":1,"b":2,"b":3}]}', "$.x[0] has the key 'b' twice"),
        ('{"a":1,"\\u0061":2}', "$ has the key 'a' twice"),
        ('{"a":"\\ud800"}', "$.a contains a lone surrogate"),
        ('{"a":"\\u0000"}', "$.a contains a NUL"),
        ('{"a":"\0"}', "control character"),
        ('{"a":"\ud800"}', "not UTF-8"),
        (b'{"a":"\xff"}', "not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', "BOM"),
        ('\ufeff{"a":1}', "BOM"),
        ('{"a":1} x', "Extra data"),
        ('{"a":1}{"b":2}', "Extra data"),
        ('{"a":1 2}', "not JSON"),
        ('{"a":tr ue}', "not JSON"),
        ('{"a":01}', "not JSON"),
        ('{"a":"x', "not JSON"),
        ('{"a":1,}', "not JSON"),
        ('{"a":\u00a01}', "not JSON"),
        ("", "not JSON"),
        ("[1]", "of type list"),
        ("null", "of type NoneType"),
        ('{"n":' + "9" * 5000 + "}", "4300 digits"),
        ('{"n":' + "9" * 4301 + "}", "4300 digits"),
        ('{"a":"' + "x" * MAX_BYTES + '"}', "bytes, the limit is"),
        ('{"a":' * 65 + "1" + "}" * 65, "deeper than 64"),
        ("[" * 100_000 + "]" * 100_000, "deeper than 64"),
        ('{"a":' + "[" * 100_000, "deeper than 64"),
    ],
)
def test_bad_text_is_refused_in_words(text: str | bytes, why: str) -> None:
    with pytest.raises(BadPayload) as caught:
        compact(text)
    assert why in str(caught.value)


def test_brackets_inside_strings_are_not_depth() -> None:
    text = '{"a":"' + "[{" * 5000 + '","b":[' + "{}," * 100 + "{}]}"
    assert compact(text) == text
    assert loads(text)["b"] == [{}] * 101


@each_row(
    "text", ['"' * 1_000_000, '"' + '\\"' * 500_000, "{" + " " * 10**6, '{"a":"' + "\\" * 10**6]
)
def test_a_megabyte_of_open_quotes_is_refused_in_one_pass(text: str) -> None:
    with pytest.raises(BadPayload):
        compact(text, max_bytes=10**7)


@given(st.text() | st.binary())
def test_no_text_can_do_worse_than_be_refused(text: str | bytes) -> None:
    try:
        short = compact(text)
    except BadPayload:
        return
    assert isinstance(loads(short), dict)


@each_row("text", ["", "[]", '{"a":NaN}', '{"a":', "[" * 100_000, '{"a":' + "9" * 5000 + "}"])
def test_damaged_stored_text_raises_our_error(text: str) -> None:
    with pytest.raises(BadPayload):
        loads(text)


@each_row(
    "a, b, alike",
    [
        ('{"a":1,"b":2}', '{"b":2,"a":1}', True),
        ('{"a":10.10}', '{"a":10.1}', True),
        ('{"a":1e2}', '{"a":100.0}', True),
        ('{"a":"\\u00e9"}', '{"a":"é"}', True),
        ('{"a":[1,[2]]}', '{"a":[1,[2]] }', True),
        ('{"a":1}', '{"a":1.0}', False),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":0}', '{"a":false}', False),
        ('{"a":null}', "{}", False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":[1,2]}', '{"a":[1]}', False),
        ('{"a":{"b":1}}', '{"a":{"b":2}}', False),
        ('{"a":0.1}', '{"a":0.10000000000000000001}', True),
        ('{"a":-0.0}', '{"a":0.0}', False),
    ],
)
def test_sameness_is_of_values_not_of_spelling(a: str, b: str, alike: bool) -> None:
    assert same(a, b) is alike
    assert same(b, a) is alike
    assert same(a, a)


@given(objects, objects)
def test_payloads_are_the_same_exactly_if_they_print_the_same(
    a: dict[str, Any], b: dict[str, Any]
) -> None:
    canon = [json.dumps(each, sort_keys=True) for each in (a, b)]
    assert same(dumps(a), dumps(b)) is (canon[0] == canon[1])
    assert same(json.dumps(a, indent=1), json.dumps(a, sort_keys=True))
