"""Typed arguments to JSON and back, guided by the handler's own annotations.

A payload is a JSON object keyed by parameter name. Plain JSON values go as they are. Richer ones
(datetime, UUID, Decimal, enums, dataclasses, pydantic and msgspec models …) are written in a plain
form and read back by the parameter's annotation, never by a type named in the data. A value whose
annotation does not say how to read it back is refused when it is submitted, not when it runs.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property, partial
from typing import Any, cast
from uuid import UUID

from redrive.errors import BadPayload, UsageError
from redrive.payloads import strict_json

_PLAIN = frozenset[type]({str, int, float, bool, type(None)})
_SEQUENCES: tuple[type, ...] = (list, tuple, set, frozenset)


class Arguments:
    """How one function's arguments become a payload and come back."""

    def __init__(
        self, function: Callable[..., object], name: str, renamed: Mapping[str, str] | None = None
    ) -> None:
        self.function = function
        self.signature = inspect.signature(function)
        parameters = self.signature.parameters.values()
        for param in parameters:
            _check_parameter(param, name)
        named = [param for param in parameters if param.kind is not param.VAR_KEYWORD]
        self._names = frozenset(param.name for param in named)
        self._needed = frozenset(param.name for param in named if param.default is param.empty)
        self._rest = next(
            (param.name for param in parameters if param.kind is param.VAR_KEYWORD), ""
        )
        self.renamed = _checked_renames(renamed or {}, self._names, name)
        """Former names of parameters, under which arguments may be stored, and their names now."""

    @cached_property
    def hints(self) -> dict[str, object]:
        """The annotations, resolved on first use so that forward references are defined by then."""
        try:
            return dict(typing.get_type_hints(_annotated(self.function), include_extras=False))
        except Exception as error:
            msg = f"the annotations of {self.function!r} cannot be resolved: {error}"
            raise UsageError(msg) from error

    @cached_property
    def _rich(self) -> dict[str, object]:
        """The annotations that values are read by; the others take them as they are."""
        hints = {name: hint for name, hint in self.hints.items() if name != "return"}
        return {name: hint for name, hint in hints.items() if not _takes_all(hint)}

    @cached_property
    def _takes_json(self) -> bool:
        """True if JSON of every kind goes as it is: no annotation has a union or a richer type."""
        return all(_is_json(self.hints.get(name, Any)) for name in self.signature.parameters)

    def dump(self, args: tuple[object, ...], kwargs: dict[str, object], limit: int) -> str:
        """Bind a call to the signature and give the payload's text; BadPayload names the field."""
        if args or not self._fit(kwargs.keys()):
            kwargs = self._bound(args, kwargs)
        is_plain = _PLAIN.issuperset(map(type, kwargs.values()))
        if is_plain or self._takes_json:
            try:
                return strict_json.dumps(kwargs, max_bytes=limit)
            except BadPayload:
                if is_plain:
                    raise  # else the longer way takes it, or names what is wrong
        names, rest = self._names, self._rest
        payload = {
            name: value
            if type(value) in _PLAIN
            else self._encoded(name if name in names else rest, value, name)
            for name, value in kwargs.items()
        }
        return strict_json.dumps(payload, max_bytes=limit)

    def _bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """Return the arguments of a call by their names; UsageError if they do not fit."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(f"these arguments do not fit the handler: {error}") from None
        named: dict[str, object] = dict(bound.arguments)
        more = cast("dict[str, object]", named.pop(self._rest, {}))
        return named | more

    def _encoded(self, parameter: str, value: object, name: str) -> object:
        try:
            return encode(value, self.hints.get(parameter, Any), f"$.{name}")
        except RecursionError:
            msg = f"$.{name}: is circular or nested too deeply to be kept"
            raise BadPayload(msg, field=f"$.{name}") from None

    def load(self, payload: str, *, stored: bool = True) -> dict[str, object]:
        """Return the keyword arguments of a payload; BadPayload if they do not fit, or no longer."""
        values = self.by_present_names(strict_json.loads(payload))
        if not self._fit(values.keys()):
            raise BadPayload(self._unfit(values.keys(), stored=stored))
        rich, names, rest = self._rich, self._names, self._rest
        for name in values if rich else ():
            hint = rich.get(name if name in names else rest)
            if hint is not None:
                values[name] = decode(values[name], hint, f"$.{name}")
        return values

    def by_present_names(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with the former names of parameters replaced."""
        if not self.renamed:
            return values
        return {_name_now(self.renamed, name, values): value for name, value in values.items()}

    def is_same(self, stored: str, payload: str) -> bool:
        """Return True if a payload has the stored arguments, some of them under new names."""
        values = self.by_present_names(strict_json.loads(stored))
        return strict_json.same(strict_json.dumps(values), payload)

    def _fit(self, names: AbstractSet[str]) -> bool:
        return names >= self._needed and (bool(self._rest) or names <= self._names)

    def _unfit(self, names: AbstractSet[str], *, stored: bool) -> str:
        """Return which arguments are missing and which are unknown, as text."""
        unknown = frozenset[str]() if self._rest else names - self._names
        wrong = {"missing": self._needed - names, "unknown": unknown}
        texts = [
            f"{what} {', '.join(map(repr, sorted(names)))}"
            for what, names in wrong.items()
            if names
        ]
        which = "the stored arguments no longer" if stored else "these arguments do not"
        advice = ". If you renamed a parameter: @app.handler(…, renamed={'old': 'new'})"
        is_rename = stored and all(wrong.values())
        return f"{which} fit the handler: {'; '.join(texts)}{advice if is_rename else ''}"


def _name_now(renamed: Mapping[str, str], name: str, names: Container[str]) -> str:
    """Return the present name of an argument; one that is stored under both names keeps both."""
    new = renamed.get(name, name)
    return name if new in names else new


def _checked_renames(
    renamed: Mapping[str, str], names: AbstractSet[str], handler: str
) -> Mapping[str, str]:
    """Return the former names of parameters; UsageError unless each maps to a parameter."""
    if not isinstance(renamed, Mapping):
        raise UsageError(
            f"handler {handler!r}: renamed must map a former name to a parameter, such as "
            f"renamed={{'old': 'new'}}; found {renamed!r}"
        )
    for old, new in renamed.items():
        if new not in names or old in names:
            raise UsageError(
                f"handler {handler!r}: renamed={{{old!r}: {new!r}}} must map a former name to a "
                f"parameter; the parameters are {', '.join(sorted(names)) or 'none'}"
            )
    return dict(renamed)


def _annotated(function: Callable[..., object]) -> Callable[..., object]:
    """Find where the annotations stand: in a partial's function, or an object's `__call__`."""
    while isinstance(function, partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def _check_parameter(parameter: inspect.Parameter, name: str) -> None:
    if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
        kind = "positional-only" if parameter.kind is parameter.POSITIONAL_ONLY else "*args"
        raise UsageError(
            f"handler {name!r}: parameter {parameter.name!r} is {kind}, but arguments are kept by "
            "name; make it an ordinary parameter"
        )


def encode(value: Any, hint: Any, path: str) -> object:
    """Return the plain JSON form of a value, as its annotation will read it back."""
    hint = _bare(hint)
    if isinstance(value, Enum):
        return encode(value.value, Any, path) if _reads(hint, value) else _refuse(value, path)
    if type(value) in _PLAIN or (hint is Any and type(value) in {dict, list, tuple}):
        return value  # `strict_json.dumps` looks at what is inside
    members = _members(hint)
    if members:
        return encode(value, _member_for(value, members, path), path)
    if _is(value, Mapping):
        return _encode_mapping(value, hint, path)
    if _is(value, list, tuple, set, frozenset):
        return _encode_sequence(value, hint, path)
    if not _reads(hint, value):
        return _refuse(value, path)
    return _encode_rich(value, path)


def _encode_mapping(value: Mapping[Any, object], hint: object, path: str) -> dict[str, object]:
    for key in value:
        if type(key) is not str:
            msg = f"{path}: the keys of an object must be text; found {key!r}"
            raise BadPayload(msg, field=path)
    fields = _fields(hint)
    inner = (typing.get_args(hint) or (str, Any))[-1]
    return {k: encode(v, fields.get(k, inner), f"{path}.{k}") for k, v in value.items()}


def _encode_sequence(value: typing.Collection[object], hint: object, path: str) -> list[object]:
    if isinstance(value, set | frozenset) and typing.get_origin(hint) not in {set, frozenset}:
        _refuse(value, path)
    items = enumerate(value)
    return [encode(item, _item_hint(hint, at), f"{path}[{at}]") for at, item in items]


def _encode_rich(value: Any, path: str) -> object:
    """Write a value of one of the known richer types."""
    match value:
        case datetime() if value.tzinfo is None or value.utcoffset() is None:
            msg = f"{path}: a datetime needs a time zone; use datetime.now(timezone.utc)"
            raise BadPayload(msg, field=path)
        case datetime() | date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID() | Decimal():
            return _finite(value, path)
        case _ if dataclasses.is_dataclass(value):
            hints = _fields(type(value))
            names = [field.name for field in dataclasses.fields(value) if field.init]
            return {n: encode(getattr(value, n), hints.get(n, Any), f"{path}.{n}") for n in names}
        case _ if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        case _ if hasattr(value, "__struct_fields__"):
            import msgspec  # noqa: PLC0415 - only where the user's program has it

            return msgspec.to_builtins(value)
        case _:
            return _refuse(value, path)


def _finite(value: UUID | Decimal, path: str) -> str:
    if isinstance(value, Decimal) and not value.is_finite():
        raise BadPayload(f"{path}: {value} has no JSON form; send None or text instead", field=path)
    return str(value)


def decode(value: Any, hint: Any, path: str) -> object:
    """Read a value back as its annotation says; BadPayload when it does not fit any more."""
    hint = _bare(hint)
    members = _members(hint)
    if members:
        hint = _bare(next((m for m in members if not _is_plain(m)), Any))
        if value is None:
            return None
    if hint is Any or _is_plain(hint):
        return value
    try:
        return _decode_rich(value, hint, path)
    except BadPayload:
        raise
    except Exception as error:
        # Not cut: it is masked first, and half a secret would not be recognised.
        msg = f"{path}: {value!r} cannot be read as {_name(hint)}: {_why(error)}"
        raise BadPayload(msg, field=path) from error


def _why(error: Exception) -> str:
    """Return the text of an error; pydantic's without the values, of which it shows the ends."""
    if not hasattr(error, "error_count"):
        return str(error)
    details = cast("Any", error).errors(
        include_url=False, include_context=False, include_input=False
    )
    return "; ".join(f"{one['msg']} at {'.'.join(map(str, one['loc']))}" for one in details)


def _decode_rich(value: Any, hint: Any, path: str) -> object:
    origin = typing.get_origin(hint) or hint
    if origin in _SEQUENCES:
        items = [decode(v, _item_hint(hint, i), f"{path}[{i}]") for i, v in enumerate(value)]
        return origin(items)
    if _is(value, dict) and (origin is dict or typing.is_typeddict(hint)):
        fields, inner = _fields(hint), (typing.get_args(hint) or (str, Any))[-1]
        return {k: decode(v, fields.get(k, inner), f"{path}.{k}") for k, v in value.items()}
    if hint is datetime or hint is date:
        return hint.fromisoformat(value)
    if hint is timedelta:
        return timedelta(seconds=value)
    if hint is Decimal:
        return Decimal(str(value))
    if dataclasses.is_dataclass(hint):
        hints = _fields(hint)
        known = {n: decode(v, hints.get(n, Any), f"{path}.{n}") for n, v in value.items()}
        return cast("type", hint)(**known)
    if hasattr(hint, "model_validate"):
        return hint.model_validate(value)
    if hasattr(hint, "__struct_fields__"):
        import msgspec  # noqa: PLC0415

        return msgspec.convert(value, hint)
    if isinstance(hint, type) and issubclass(hint, UUID | Enum):
        return hint(value)
    return value


def _is(value: object, *kinds: type) -> bool:
    """Return True if a value is of these types, without teaching the type checker a half-known one."""
    return isinstance(value, kinds)


def _bare(hint: Any) -> Any:
    """Take off NewType and the like."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return type(None) if hint is None else hint


def _members(hint: object) -> tuple[object, ...]:
    """Return the members of a union; empty for everything else."""
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return typing.get_args(hint)
    return ()


def _member_for(value: object, members: tuple[object, ...], path: str) -> object:
    """Choose how a union reads this value; two rich members could not be told apart later."""
    rich = [member for member in members if not _is_plain(member)]
    if len(rich) != 1 or (len(members) - (type(None) in members)) > 1:
        msg = f"{path}: {type(value).__name__} in a union cannot be recognised in JSON; use one type or None"
        raise BadPayload(msg, field=path)
    return rich[0]


def _is_plain(hint: object) -> bool:
    return (
        hint is Any
        or any(hint is kind for kind in _PLAIN)
        or typing.get_origin(hint) is typing.Literal
    )


def _takes_all(hint: object) -> bool:
    """Return True if values of this annotation are handed on just as JSON has them."""
    bare = _bare(hint)
    return bare is object or all(_is_plain(member) for member in _members(bare) or (bare,))


def _is_json(hint: object) -> bool:
    """Return True if `encode` returns plain JSON as it is by this annotation, and all inside it."""
    bare = _bare(hint)
    if typing.get_origin(bare) in {list, dict}:
        return all(map(_is_json, typing.get_args(bare)))
    return any(bare is kind for kind in (Any, object, list, dict, *_PLAIN))


def _item_hint(hint: object, index: int) -> object:
    """Return the annotation of one item of list[T], set[T], tuple[T, ...] or tuple[A, B]."""
    arguments = typing.get_args(hint)
    if not arguments:
        return Any
    if typing.get_origin(hint) is tuple and Ellipsis not in arguments:
        return arguments[index] if index < len(arguments) else Any
    return arguments[0]


def _fields(hint: Any) -> dict[str, object]:
    """Return the annotated fields of a dataclass or TypedDict."""
    if dataclasses.is_dataclass(hint) or typing.is_typeddict(hint):
        return dict(typing.get_type_hints(hint))
    return {}


def _reads(hint: object, value: object) -> bool:
    """Return True if an annotation says how to read a value of this type back."""
    return isinstance(hint, type) and hint not in {object, Any} and isinstance(value, hint)


def _name(hint: object) -> str:
    return getattr(hint, "__name__", str(hint))


def _refuse(value: object, path: str) -> typing.NoReturn:
    raise BadPayload(
        f"{path}: a value of type {_name(type(value))} cannot be stored; annotate the parameter with "
        "a type that Redrive can read back (datetime, UUID, Decimal, an Enum, a dataclass, a model …) "
        "or pass plain JSON",
        field=path,
    )
