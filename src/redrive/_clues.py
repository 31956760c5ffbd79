"""What an error carries: its kin, status, codes, headers, and the errors inside it.

Where libraries put these things is written down as places, in tables; `_evidence` says what they
mean. No client library is imported: a class is known by its root module and name, the rest by
looking.

Errors are strangers: a property may raise, lie, recurse or return anything. So every read goes
through `look` or `reach`, which turn whatever happens into None. That includes KeyboardInterrupt,
for a property can raise that too and a failure must not be lost to it.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Path = tuple[str | int, ...]
Kin = tuple[str, str]
"""How a class is known: its root module and its name."""


class Clues(NamedTuple):
    """What one error carries, read once."""

    error: BaseException
    kin: tuple[Kin, ...] = ()
    """Its class and the bases of that, most specific first."""
    held: Mapping[str, object] = {}
    """The attributes that may tell something, and the body of the answer as `body`."""
    status: int | None = None
    codes: tuple[tuple[str, str], ...] = ()
    """Each code with the words for where it was found, the most telling first."""
    headers: Mapping[str, str] = {}
    """Of the answer that the error is about; names in lower case."""

    def at(self, *path: str | int) -> object:
        """Follow a path from the attributes on; whatever goes wrong, there is nothing."""
        return _at(self.held, path)

    def text(self, name: str) -> str | None:
        """Give an attribute if it is text."""
        return as_text(self.held.get(name))

    def whole(self, name: str) -> int | None:
        """Give an attribute if it is a whole number."""
        return as_whole(self.held.get(name))

    def inside(self) -> Iterator[BaseException]:
        """List the errors that this one stands for, the nearest first."""
        for path in _WRAPPED_PLACES:
            found = _at(self.held, path)
            if is_error(found):
                yield cast("BaseException", found)
        context = self.held.get("__context__")
        if is_error(context) and self.held.get("__suppress_context__") is False:
            yield cast("BaseException", context)


def gather(error: BaseException) -> Clues:
    """Read all that an error carries."""
    kin = kin_of(error)
    held = _attributes(error, _NAMES)
    for root, _ in kin:
        if root in _CALLS:
            held.update(_answers(error, _CALLS[root]))
            break
    held["body"] = _body(held)
    return Clues(error, kin, held, _status(held), tuple(_codes(held)), _headers(held))


def within(error: BaseException) -> Iterator[BaseException]:
    """List the errors inside an error of which nothing else is asked."""
    return Clues(error, held=_attributes(error, _WRAPPED_NAMES)).inside()


def _attributes(error: BaseException, names: Iterable[str]) -> dict[str, object]:
    held: dict[str, object] = {}
    for name in names:
        found = look(error, name)
        if found is not None:
            held[name] = found
    return held


def _answers(error: BaseException, calls: Mapping[str, Path]) -> Iterator[tuple[str, object]]:
    """Call the methods that a library we know is documented to have; never one of a stranger."""
    for name, path in calls.items():
        try:
            yield name, cast("Callable[[], object]", reach(error, *path))()
        except BaseException:  # noqa: BLE001 - as in `look`
            yield name, None


def _at(held: Mapping[str, object], path: Path) -> object:
    found = held.get(cast("str", path[0]))
    return found if found is None or len(path) == 1 else reach(found, *path[1:])


def look(thing: object, name: str) -> object:
    """Read an attribute; whatever goes wrong, there is none."""
    try:
        found: object = getattr(thing, name, None)
    except BaseException:  # noqa: BLE001 - a property may raise what is not even an Exception
        return None
    return found


def reach(thing: object, *path: str | int) -> object:
    """Follow attributes, keys and positions; whatever goes wrong, there is nothing."""
    for key in path:
        if thing is None:
            break
        thing = _step(thing, key)
    return thing


def _step(thing: object, key: str | int) -> object:
    kind = type(thing)
    found = look(thing, key) if type(key) is str and kind is not dict else None
    if found is not None or look(kind, "__getitem__") is None:
        return found
    try:
        return cast("Mapping[str | int, object]", thing)[key]
    except BaseException:  # noqa: BLE001 - as in `look`
        return None


_LONGEST_TEXT: Final = 500


def as_text(value: object) -> str | None:
    """Give text as plain text, cut; None for anything else."""
    if type(value) is str:
        return value if len(value) <= _LONGEST_TEXT else value[:_LONGEST_TEXT]
    if issubclass(type(value), str):  # by its characters: a subclass could answer otherwise
        return str.__getitem__(cast("str", value), slice(0, _LONGEST_TEXT))
    if type(value) is bytes:
        return value[:_LONGEST_TEXT].decode("utf-8", "replace")
    return None


def as_whole(value: object) -> int | None:
    """Give a whole number as a plain one; None for anything else, True and False included."""
    if type(value) is bool or not issubclass(type(value), int):
        return None
    return int.__int__(cast("int", value))


# Read from the slots themselves: a metaclass may have put code of its own before them.
_BASES: Final = type.__dict__["__mro__"].__get__
_MODULE: Final = type.__dict__["__module__"].__get__
_NAME: Final = type.__dict__["__name__"].__get__
_QUALIFIED_NAME: Final = type.__dict__["__qualname__"].__get__


def kin_of(error: object) -> tuple[Kin, ...]:
    """Name the class of an error and the bases of it, most specific first."""
    return tuple([(module_of(cls).partition(".")[0], _NAME(cls)) for cls in _BASES(type(error))])


def module_of(cls: type) -> str:
    """Name the module of a class; nothing if it has none."""
    module: object = _MODULE(cls)
    return module if type(module) is str else ""


def name_of(cls: type) -> str:
    """Name a class as its users do: `openai.RateLimitError`, and built-in ones bare."""
    name = as_text(_QUALIFIED_NAME(cls)) or "object"
    parts = module_of(cls).split(".")
    return ".".join((*(part for part in parts if part[:1] != "_" and part != "builtins"), name))


_LOWEST_STATUS: Final = 100
_FAILED_STATUS: Final = 400
_HIGHEST_STATUS: Final = 599
_STATUS_PLACES: Final[tuple[Path, ...]] = (
    ("status_code",),
    ("http_status",),
    ("status",),
    ("code",),
    ("response", "status_code"),
    ("response", "status"),
    ("response", "ResponseMetadata", "HTTPStatusCode"),
    ("resp", "status"),
    ("meta", "status"),
    ("raw_response", "status_code"),
)


def _status(held: Mapping[str, object]) -> int | None:
    """Find the HTTP status, and rather one that says failure: some errors carry a 200."""
    other = None
    for path in _STATUS_PLACES:
        status = as_whole(_at(held, path))
        if status is not None and _FAILED_STATUS <= status <= _HIGHEST_STATUS:
            return status
        if status is not None and _LOWEST_STATUS <= status < _FAILED_STATUS:
            other = other or status
    return other


# What the server said comes before what a wrapper made of it: litellm rewrites `code`. And a code
# comes before a type: many causes share one type.
_CODE_PLACES: Final[tuple[Path, ...]] = (
    ("error_code",),
    ("body", "error", "details", "error_code"),
    ("body", "error", "code"),
    ("body", "code"),
    ("code",),
    ("code", "name"),
    ("reason",),
    ("response", "Error", "Code"),
    ("response", "error"),
    ("status",),
    ("status", "name"),
    ("body", "error", "status"),
    ("grpc_status_code", "name"),
    ("errors", 0, "reason"),
    ("sqlite_errorname",),
    ("sqlstate",),
    ("pgcode",),
    ("body", "error", "type"),
    ("body", "type"),
    ("type",),
)
_CODE: Final = re.compile(r"(?![0-9]+\Z)[A-Za-z0-9_.:/-]{2,100}|[0-9A-Z]{5}")


def _codes(held: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for path in _CODE_PLACES:
        code = as_text(_at(held, path))
        if code is not None and _CODE.fullmatch(code):
            yield code, " in response body" if path[0] == "body" else ""


_LARGEST_BODY: Final = 65536


def _body(held: Mapping[str, object]) -> object:
    """Find the body of the answer, if it is a JSON object and was read already."""
    for name in ("body", "json_body", "details"):
        found = held.get(name)
        kind = type(found)
        body = found if kind is dict else _parsed(found)
        if body is not None:
            return body
    # httpx and requests keep what they have read there; `content` could go and read the network.
    return _parsed(_at(held, ("response", "_content")))


def _parsed(raw: object) -> object:
    if type(raw) is not bytes and type(raw) is not str:
        return None
    if len(raw) > _LARGEST_BODY or raw[:1] not in (b"{", "{"):
        return None
    try:
        return cast("object", json.loads(raw))
    except (ValueError, RecursionError):
        return None


_MOST_HEADERS: Final = 200
_HEADER_PLACES: Final[tuple[Path, ...]] = (
    ("headers",),
    ("response", "headers"),
    ("response", "ResponseMetadata", "HTTPHeaders"),
    ("litellm_response_headers",),
    ("resp",),
    ("meta", "headers"),
    ("raw_response", "headers"),
)


def _headers(held: Mapping[str, object]) -> dict[str, str]:
    for path in _HEADER_PLACES:
        found = _at(held, path)
        if found is not None and (headers := _plain(found)):
            return headers
    return {}


def _plain(found: object) -> dict[str, str]:
    headers: dict[str, str] = {}
    items = look(found, "items")
    try:
        pairs = cast("Callable[[], object]", items)() if items is not None else found
        for name, value in islice(cast("Iterable[tuple[object, object]]", pairs), _MOST_HEADERS):
            kind = type(value)
            key, said = as_text(name), as_text(reach(value, 0) if kind is list else value)
            if key is not None and said is not None:
                headers.setdefault(key.lower(), said)
    except BaseException:  # noqa: BLE001 - as in `look`; what was read so far stands
        return headers
    return headers


_WRAPPED_PLACES: Final[tuple[Path, ...]] = (
    ("orig",),
    ("reason",),
    ("cause",),
    ("exc",),
    ("inner_exception",),
    ("original_exception",),
    ("os_error",),
    ("certificate_error",),
    ("args", 0),
    ("__cause__",),
)
_CALLS: Final[Mapping[str, Mapping[str, Path]]] = {
    "grpc": {"code": ("code",), "headers": ("trailing_metadata",)},
    "tenacity": {"cause": ("last_attempt", "exception")},
}
"""By package: what its methods answer is taken for the attribute named first."""
_WRAPPED_NAMES: Final = (
    *(str(path[0]) for path in _WRAPPED_PLACES),
    *("__context__", "__suppress_context__"),
)
_PLACES: Final = (*_STATUS_PLACES, *_CODE_PLACES, *_HEADER_PLACES)
_NAMES: Final = tuple(
    {
        *(str(path[0]) for path in _PLACES),
        *_WRAPPED_NAMES,
        *("retry_after", "cooldown_time", "details", "json_body"),
        *("redrive_category", "request_id", "errno"),
    }
)


def is_error(thing: object) -> bool:
    """Tell an exception from anything that only says so."""
    return issubclass(type(thing), BaseException)
