"""Arguments to JSON and back by annotation; what cannot be read back is refused at submit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, Literal, NewType, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import BadPayload, UsageError
from redrive.payloads.arguments import Arguments
from tablekit import each_row

LIMIT = 1_000_000


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    BIG = "big"


@dataclass
class Line:
    sku: str
    price: Decimal
    when: datetime | None = None


@dataclass
class Order:
    lines: list[Line]
    colour: Colour


class Model(pydantic.BaseModel):
    number: int
    when: datetime


class Struct(msgspec.Struct):
    number: int
    when: datetime


class Point(TypedDict):
    x: int
    at: date


Money = NewType("Money", Decimal)
NOON = datetime(2026, 11, 15, 12, 0, 0, 5, tzinfo=UTC)


def round_trip(function: Callable[..., Any], *args: object, **kwargs: object) -> dict[str, object]:
    arguments = Arguments(function, "test")
    return arguments.load(arguments.dump(args, kwargs, LIMIT))


def one(value: Any) -> Callable[..., Any]:
    """A function whose parameter has this annotation."""

    def function(value: Any) -> None: ...

    function.__annotations__["value"] = value
    return function


@each_row(
    "hint, value",
    [
        (datetime, NOON),
        (datetime, NOON.astimezone(tz=None)),
        (date, date(2026, 2, 28)),
        (timedelta, timedelta(days=3, microseconds=7)),
        (UUID, UUID(int=7)),
        (Decimal, Decimal("10.10")),
        (Money, Decimal("0.1")),
        (Colour, Colour.RED),
        (Size, Size.BIG),
        (Line, Line("a", Decimal("1.50"), NOON)),
        (Order, Order([Line("a", Decimal("1.50"))], Colour.RED)),
        (Model, Model(number=1, when=NOON)),
        (Struct, Struct(number=1, when=NOON)),
        (Point, Point(x=1, at=date(2026, 1, 1))),
        (list[datetime], [NOON, NOON]),
        (tuple[str, Decimal], ("a", Decimal(1))),
        (tuple[UUID, ...], (UUID(int=1), UUID(int=2))),
        (set[date], {date(2026, 1, 1)}),
        (dict[str, list[Decimal]], {"a": [Decimal("2.0")]}),
        (datetime | None, NOON),
        (datetime | None, None),
        (int | str | None, "x"),
        (Literal["a", "b"], "a"),
        (Any, {"deep": [1, 2.5, None, True, "text"]}),
        (dict, {"a": 1}),
    ],
)
def test_a_value_comes_back_as_its_annotation_says(hint: Any, value: object) -> None:
    back = round_trip(one(hint), value)["value"]
    assert back == value
    assert type(back) is type(value)


@each_row(
    "hint, value, field",
    [
        (Any, NOON, "$.value"),
        (Any, {"a": {"b": UUID(int=1)}}, "$.value.a.b"),
        (Any, b"bytes", "$.value"),
        (Any, {1, 2}, "$.value"),
        (Any, Colour.RED, "$.value"),
        (object, object(), "$.value"),
        (datetime, datetime(2026, 1, 1), "$.value"),  # noqa: DTZ001 - naive on purpose
        (list[datetime], [NOON, datetime(2026, 1, 1)], "$.value[1]"),  # noqa: DTZ001
        (Decimal, Decimal("NaN"), "$.value"),
        (float, float("nan"), "$.value"),
        (Any, {"a": [float("inf")]}, "$.value.a[0]"),
        (str, "\ud800", "$.value"),
        (str, "a\0b", "$.value"),
        (Any, {1: "a"}, "$.value[1]"),
        (datetime | UUID, NOON, "$.value"),
        (complex, 1j, "$.value"),
        (
            Order,
            Order([Line("a", Decimal(1), datetime(2026, 1, 1))], Colour.RED),  # noqa: DTZ001
            "$.value.lines[0].when",
        ),
    ],
)
def test_what_cannot_be_read_back_is_refused_naming_the_field(
    hint: Any, value: object, field: str
) -> None:
    with pytest.raises(BadPayload) as caught:
        round_trip(one(hint), value)
    assert caught.value.field == field
    assert field in str(caught.value)


def test_a_circular_value_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(BadPayload):
        round_trip(one(Any), loop)


def test_arguments_are_kept_by_name_and_defaults_are_not_frozen() -> None:
    def function(a: int, b: int = 2, *, c: int = 3, **rest: int) -> None: ...

    assert Arguments(function, "f").dump((1,), {"c": 5, "z": 9}, LIMIT) == '{"a":1,"c":5,"z":9}'
    assert round_trip(function, 1, z=4) == {"a": 1, "z": 4}


def test_arguments_that_do_not_fit_are_a_usage_error_at_submit() -> None:
    def function(a: int) -> None: ...

    with pytest.raises(UsageError, match="do not fit"):
        Arguments(function, "f").dump((1, 2), {}, LIMIT)


@each_row("payload", ['{"b":1}', '{"a":1,"c":2}', "{}", '{"a":"yesterday"}'])
def test_a_stored_payload_that_no_longer_fits_says_so(payload: str) -> None:
    def function(a: datetime) -> None: ...

    with pytest.raises(BadPayload):
        Arguments(function, "f").load(payload)


def test_positional_only_and_star_args_are_refused_at_decoration() -> None:
    def positional(a: int, /) -> None: ...
    def star(*args: int) -> None: ...

    for function in (positional, star):
        with pytest.raises(UsageError, match="kept by name"):
            Arguments(function, "f")


def test_forward_references_are_resolved_on_first_use() -> None:
    def function(value: Later) -> None: ...

    assert round_trip(function, Later("x")) == {"value": Later("x")}


@dataclass
class Later:
    name: str


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_every_json_value_survives_as_it_is(value: object) -> None:
    assert round_trip(one(Any), value) == {"value": value}


class Login(pydantic.BaseModel):
    password: int


def test_the_error_of_a_model_shows_no_end_of_a_long_value() -> None:
    """Pydantic shows both ends of a long value: half a secret, which masking would not recognise."""

    def login(who: Login) -> None: ...

    arguments = Arguments(login, "login")
    secret = "Zq7-opaque-93x-" * 10
    with pytest.raises(BadPayload) as refused:
        arguments.load(f'{{"who": {{"password": "{secret}"}}}}')
    text = str(refused.value)
    assert "opaque" in text
    assert "opaque" not in text.replace(secret, "")
    assert "valid integer" in text
