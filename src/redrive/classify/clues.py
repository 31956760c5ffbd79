"""What an error carries: its kin, status, codes, headers, and the errors inside it.

No client library is imported: a class is known by its root package and name. A property of an error
may raise or return anything, so it is read through `guarded`, and values are checked by their type.
"""

from __future__ import annotations

import builtins
import errno
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar, cast

from redrive.classify import names, tables
from redrive.jobs.interrupts import may_be_ctrl_c
from redrive.jobs.job import Category

T = TypeVar("T")
_LONGEST_TEXT, _LARGEST_BODY, _MOST_HEADERS = 500, 65536, 200
_LOWEST, _FAILED, _HIGHEST = 100, 400, 599
_MOST_KNOWN, _MOST_ERRORS = 500, 64
_PLAIN: Final = {"args", "errno", "__cause__", "__context__", "__suppress_context__"}
"""Errors that hold no more than every error does are soon read."""
_OWN_NUMBERS: Final = ("ssl.", "socket.", *tables.BAD_CERTIFICATES)
_CODE: Final = re.compile(r"(?![0-9]+\Z)[A-Za-z0-9_.:/-]{2,100}|[0-9A-Z]{5}")
_WEB: Final = re.compile(r"\.\w*(?:HTTP|Http|API|Api|Request|Response|Status|RPC|Rpc)\w*\Z")
_TLS: Final = re.compile("SSL|TLS|Tls|Ssl")
_ANSWERS: Final = {"headers", "response", "resp", "raw_response", "meta"}


class _Class(NamedTuple):
    """What is known of a class."""

    kin: tuple[str, ...]
    name: str
    telling: frozenset[str]
    """What to read of an error that holds nothing but what its class does."""
    named: tuple[str, Category] | None
    """What the names of a class of an unlisted library say, and the name that says it."""
    dialect: str
    """What its arguments may tell: "mysql", "sql", "tls" or nothing."""


class Clues(NamedTuple):
    """What one error carries, read once."""

    error: BaseException
    kin: tuple[str, ...] = ()
    """Its class and the bases of that, each by root package and name, most specific first."""
    held: Mapping[str, Any] = {}
    """The attributes that may tell something, and the body of the answer as `body`."""
    status: int | None = None
    codes: tuple[tuple[str, str], ...] = ()
    """Each code with the words for where it was found, the most telling first."""
    headers: Mapping[str, str] = {}
    """Of the answer that the error is about; names in lower case."""

    @property
    def is_plain(self) -> bool:
        """True if it holds no more than every error does."""
        return self.held.keys() <= _PLAIN


def gather(error: BaseException) -> Clues:
    """Read all that an error carries."""
    kin, held = known(type(error)).kin, _attributes(error)
    for name in tables.CALLS.keys() & kin:
        for attribute, path in tables.CALLS[name].items():
            held[attribute] = guarded(reach(error, *path))
    plain = Clues(error, kin, held)
    if plain.is_plain:
        return plain
    bodies = (guarded(_body, value) for _, value in _values(held, tables.BODY_PLACES))
    held["body"] = next(filter(None, bodies), None)
    return Clues(error, kin, held, _status(held, kin), tuple(_codes(held)), _headers(held))


_KNOWN: Final[dict[type, _Class]] = {}
"""The classes seen before; they are few."""


def known(cls: type) -> _Class:
    """Return what is known of a class; read once, for errors of one class come again and again."""
    seen = _KNOWN.get(cls)
    if seen is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        seen = _KNOWN[cls] = _read_class(cls)
    return seen


def _read_class(cls: type) -> _Class:
    kin = tuple([f"{_module(base).partition('.')[0]}.{base.__name__}" for base in cls.__mro__])
    is_builtin = getattr(builtins, cls.__name__, None) is cls
    telling = tables.ATTRIBUTES.intersection(dir(cls)) if is_builtin else tables.ATTRIBUTES
    own = () if tables.LISTED.intersection(kin) else tuple(_names_of_libraries(kin))
    parts = [part for part in _module(cls).split(".") if part and part[0] != "_"]
    name = ".".join((*(parts if parts != ["builtins"] else ()), cls.__qualname__))
    return _Class(kin, name, telling, names.category_of_class(own), _dialect(own))


def _names_of_libraries(kin: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of the classes that are not Python's own."""
    for package, _, name in (each.partition(".") for each in kin):
        if package not in sys.stdlib_module_names:
            yield name


def _dialect(own: tuple[str, ...]) -> str:
    if "MySQLError" in own:
        return "mysql"
    if not tables.DATABASE_NAMES.isdisjoint(own):
        return "sql"
    return "tls" if any(_TLS.search(name) for name in own) else ""


def guarded(work: Callable[..., T], *arguments: object) -> T | None:
    """Call something that may run code of the user; return None if it fails.

    Only what may be Ctrl-C is raised, also if the code raised it: the two look the same.
    """
    try:
        return work(*arguments)
    except BaseException as error:  # a property may raise what is not even an Exception
        if may_be_ctrl_c(error):
            raise
        return None


def reach(thing: Any, *path: str | int) -> Any:
    """Follow attributes, keys and positions; return None if anything goes wrong."""
    for key in path:
        plain = type(thing) is dict
        if plain:  # the commonest, and it has no attributes worth a look
            value: Any = guarded(thing.get, key)
        else:
            value = guarded(getattr, thing, key, None) if type(key) is str else None
            if value is None and guarded(is_a, thing, Mapping, Sequence):  # else it may do anything
                value = guarded(_at, thing, key)
        if value is None:
            return None
        thing = value
    return thing


def _at(thing: Any, key: Any) -> Any:
    """Look up a key without creating it, as a defaultdict would."""
    return dict[Any, Any].get(thing, key) if is_a(thing, dict) else thing[key]


def is_a(thing: object, *kinds: type) -> bool:
    """Return True if the real type of a value is one of these classes."""
    return issubclass(type(thing), kinds)


def as_text(value: Any) -> str | None:
    """Return text as plain text, cut; None for anything else."""
    if type(value) is str:
        return value[:_LONGEST_TEXT]
    if type(value) is bytes:
        return value[:_LONGEST_TEXT].decode("utf-8", "replace")
    return str(value[:_LONGEST_TEXT]) if is_a(value, str) else None


def as_whole(value: Any) -> int | None:
    """Return a whole number as a plain one; None for anything else, True and False included."""
    return int(value) if is_a(value, int) and not is_a(value, bool) else None


def name_of(cls: type) -> str:
    """Name a class as its users do: `openai.RateLimitError`, and built-in ones bare."""
    return known(cls).name


def _module(cls: type) -> str:
    return as_text(getattr(cls, "__module__", "")) or ""  # a class made by exec() may have none


def errno_name(clues: Clues) -> str | None:
    """Name the system error; TLS and name look-up count their own, so theirs are none."""
    if "builtins.OSError" not in clues.kin or clues.kin[0].startswith(_OWN_NUMBERS):
        return None
    return errno.errorcode.get(as_whole(clues.held.get("errno")) or 0)


def inside(clues: Clues) -> Iterator[BaseException]:
    """Yield the errors inside an error, the nearest first."""
    hidden = clues.held.get("__suppress_context__") is not False
    for root, value in _values(clues.held, tables.INNER_PLACES):
        if is_a(value, BaseException) and not (hidden and root == "__context__"):
            yield value


def members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the errors in a group; none for any other error."""
    if isinstance(error, BaseExceptionGroup):
        return cast("BaseExceptionGroup[BaseException]", error).exceptions
    return ()


def with_causes(error: BaseException) -> Iterator[Clues]:
    """List an error and those inside it, members of groups too, each once and the nearest first."""
    waiting, seen = [error], dict[int, BaseException]()
    while waiting and len(seen) < _MOST_ERRORS:
        if id(current := waiting.pop(0)) not in seen:
            seen[id(current)] = current
            yield (clues := gather(current))
            waiting += [*members(current), *inside(clues)]


def _attributes(error: BaseException) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for name in tables.ATTRIBUTES if error.__dict__ else known(type(error)).telling:
        try:  # not by `guarded`: forty calls would cost as much as all the rest
            value = getattr(error, name, None)
        except Exception:  # noqa: BLE001 - a property may raise anything
            value = None
        if value is not None:
            held[name] = value
    return held


def _values(held: Mapping[str, Any], places: Iterable[tables.Place]) -> Iterator[tuple[str, Any]]:
    """Yield the values that are set at these places."""
    for root, path in places:
        thing = held.get(root)
        if thing is not None and path:
            thing = reach(thing, *path)
        if thing is not None:
            yield root, thing


def _status(held: Mapping[str, Any], kin: tuple[str, ...]) -> int | None:
    """Return the HTTP status; prefer one of a failure, because some errors also carry a 200."""
    places = _values(held, tables.STATUS_PLACES)
    numbers = [
        as_whole(value) or 0 for root, value in places if root != "code" or _is_web(held, kin)
    ]
    statuses = (number for number in numbers if _LOWEST <= number <= _HIGHEST)
    return max(statuses, key=lambda status: status >= _FAILED, default=None)


def _is_web(held: Mapping[str, Any], kin: tuple[str, ...]) -> bool:
    """Return True if a number called `code` may be a status: a ledger counts its rules so, too."""
    return not _ANSWERS.isdisjoint(held) or any(_WEB.search(name) for name in kin)


def _codes(held: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for root, value in _values(held, tables.CODE_PLACES):
        code = as_text(value)
        if code is not None and _CODE.fullmatch(code):
            yield code, " in response body" if root == "body" else ""


def _body(raw: Any) -> object:
    """Return the body of an answer if it is a JSON object, as such or as text."""
    if is_a(raw, dict):
        return raw
    small = is_a(raw, str, bytes) and len(raw) <= _LARGEST_BODY
    return json.loads(raw) if small and raw[:1] in ("{", b"{") else None


def _headers(held: Mapping[str, Any]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _, value in _values(held, tables.HEADER_PLACES):
        guarded(_read_headers, value, headers)  # what was read before it failed stands
    return headers


def _read_headers(pairs: Any, headers: dict[str, str]) -> None:
    for name, value in islice(pairs.items() if hasattr(pairs, "items") else pairs, _MOST_HEADERS):
        key = (as_text(name) or "").lower()
        text = as_text(value if is_a(value, str, bytes) else reach(value, 0))
        if key and text:
            headers.setdefault(key, text)
