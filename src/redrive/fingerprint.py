"""Which failures have one cause: a fingerprint for grouping, and a title for people.

In order: a key that somebody gave; else where in the application's own code it failed and
with what type of error; else the type and the message without what varies. Fingerprints
carry the version of this algorithm, because a change must never regroup old jobs silently:
whoever changes what goes into one raises the version. Nothing here raises, whatever the
exception does.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from redrive.redact import error_text, inert, safe_text, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType, TracebackType

VERSION: Final = "v1"
"""The algorithm that made a fingerprint; the part before its colon."""

_TITLE_LENGTH: Final = 120
_MESSAGE_LENGTH: Final = 300
_MESSAGE_READ: Final = 4096
_LONGEST_CHAIN: Final = 20
_MOST_MEMBERS: Final = 200


@dataclass(frozen=True, slots=True)
class Cause:
    """What failures of one group share; the title is the first line a person reads."""

    fingerprint: str
    title: str


@dataclass(frozen=True, slots=True)
class _Place:
    """A line of the application; `identity` stays when the code above its function moves."""

    identity: tuple[str, str, int]
    function: str
    line: int


def cause_of(
    exc: BaseException,
    message: str,
    *,
    key: str | None = None,
    detail: str = "",
    app_roots: Sequence[str] = (),
) -> Cause:
    """Find the cause of this failure, whose message comes in as `redact.error_text` gives it.

    `key`, or an attribute `redrive_group` on the exception, decides alone. `detail` tells
    apart what fails on one line for different reasons, such as a status or an error code.
    `app_roots` are directories or packages that count as the application even where they
    are installed among the libraries.
    """
    place = _place_of(exc, app_roots)
    group = _given_group(exc) if key is None else safe_text(key)
    if group:
        fingerprint = _digest("key", group)
    else:
        where = ("line", *place.identity) if place else ("text", normalise(message))
        before = (*_members(exc, app_roots), *_earlier(exc, app_roots))
        fingerprint = _digest(where, _qualified_type(exc), safe_text(detail), before)
    return Cause(fingerprint, _title(type_name(exc), message, place))


def of_text(
    type_name: str, message: str, *, detail: str = "", secrets: Sequence[str] = ()
) -> Cause:
    """Find the cause of a failure that is known only as text: a crash, an imported record.

    >>> one, other = of_text("Crash", "worker 17 vanished"), of_text("Crash", "worker 4 vanished")
    >>> one.fingerprint == other.fingerprint
    True
    """
    name, text = safe_text(type_name), error_text(message, secrets, limit=_MESSAGE_READ)
    fingerprint = _digest(("text", normalise(text)), name, safe_text(detail), ())
    return Cause(fingerprint, _title(name.rpartition(".")[2], text, None))


def _digest(*parts: object) -> str:
    # ascii() keeps the parts apart and is the same on every Python.
    return f"{VERSION}:{hashlib.sha256(ascii(parts).encode()).hexdigest()[:16]}"


def _title(name: str, message: str, place: _Place | None) -> str:
    words = inert(" ".join(message.split()))
    what = f"{inert(name)}: {words}" if words else inert(name)
    if place is None:
        return _cut(what, _TITLE_LENGTH)
    where = f" @ {_cut(inert(place.function), _TITLE_LENGTH // 3)}:{place.line}"
    return _cut(what, _TITLE_LENGTH - len(where)) + where


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _given_group(exc: BaseException) -> str:
    try:
        group: object = getattr(exc, "redrive_group", None)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a property of a user's class may raise anything
        group = None
    return "" if group is None else safe_text(group)


# Read from the slots themselves: a subclass may have put code of its own before them.
_SLOTS: Final = {**BaseExceptionGroup.__dict__, **BaseException.__dict__}
_MODULE_NAME: Final = type.__dict__["__module__"]
_QUALIFIED_NAME: Final = type.__dict__["__qualname__"]


def _qualified_type(exc: BaseException) -> str:
    module = _MODULE_NAME.__get__(type(exc))
    name = str.__str__(_QUALIFIED_NAME.__get__(type(exc)))
    return name if module == "builtins" or type(module) is not str else f"{module}.{name}"


def _members(exc: BaseException, roots: Sequence[str]) -> list[tuple[object, ...]]:
    """Say what an exception group holds; how many and in which order is chance."""
    found: set[tuple[object, ...]] = set()
    waiting, taken = [exc], 0
    while waiting and taken < _MOST_MEMBERS:
        member, taken = waiting.pop(), taken + 1
        if issubclass(type(member), BaseExceptionGroup):
            waiting.extend(_SLOTS["exceptions"].__get__(member))
        elif member is not exc:
            place = _place_of(member, roots)
            found.add((_qualified_type(member), place.identity if place else ()))
    return sorted(found)


def _earlier(exc: BaseException, roots: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """Say which errors led to this one, as far as the application's own code saw them.

    What a library caught and turned into another error says how the library works, and
    would split one outage into as many groups as it has ways to fail.
    """
    seen = {id(exc)}
    current = _before(exc)
    while current is not None and id(current) not in seen and len(seen) < _LONGEST_CHAIN:
        seen.add(id(current))
        place = _place_of(current, roots)
        if place:
            yield (_qualified_type(current), place.identity)
        current = _before(current)


def _before(exc: BaseException) -> BaseException | None:
    cause: BaseException | None = _SLOTS["__cause__"].__get__(exc)
    if cause is not None or _SLOTS["__suppress_context__"].__get__(exc):
        return cause
    context: BaseException | None = _SLOTS["__context__"].__get__(exc)
    return context


# Python 3.12 made these part of the function around them; the line that runs them says enough.
_COMPREHENSIONS: Final = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>"))
_TYPED_IN: Final = ("<stdin>", "<string>", "<ipython", "<doctest")
_LIBRARIES: Final = tuple(
    os.path.dirname(file).replace("\\", "/") + "/"  # noqa: PTH120 - text only, no file system
    for file in (os.__file__, __file__)
)
_PACKAGES: Final = re.compile(r"/(?:site|dist)-packages/")


def _place_of(exc: BaseException, roots: Sequence[str]) -> _Place | None:
    """Find the innermost line of the application that the error passed through."""
    innermost: TracebackType | None = None
    trace: TracebackType | None = _SLOTS["__traceback__"].__get__(exc)
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name not in _COMPREHENSIONS and _in_app(frame, roots):
            innermost = trace
        trace = trace.tb_next
    return _place(innermost) if innermost else None


def _place(trace: TracebackType) -> _Place:
    code = trace.tb_frame.f_code
    # The package and the file, not the module's name: that is __main__ in a script and
    # something else in the worker that imports it.
    package = _global(trace.tb_frame, "__package__")
    file = code.co_filename.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
    module = f"{package}.{file}" if package else file
    line = trace.tb_lineno or code.co_firstlineno
    identity = (module, code.co_qualname, line - code.co_firstlineno)
    return _Place(identity, code.co_name, line)


def _in_app(frame: FrameType, roots: Sequence[str]) -> bool:
    file = frame.f_code.co_filename
    return _is_app_file(file) or any(_is_under(root, file, frame) for root in roots)


@lru_cache(maxsize=4096)
def _is_app_file(file: str) -> bool:
    path = file.replace("\\", "/")
    if path.startswith("<"):
        return path.startswith(_TYPED_IN)
    return not path.startswith(_LIBRARIES) and not _PACKAGES.search(path)


def _is_under(root: str, file: str, frame: FrameType) -> bool:
    if "/" in root or "\\" in root:
        return file.replace("\\", "/").startswith(root.replace("\\", "/").rstrip("/") + "/")
    return f"{_global(frame, '__name__')}.".startswith(f"{root}.")


def _global(frame: FrameType, name: str) -> str:
    # Not frame.f_globals.get(): the globals of executed code may be a user's kind of dict.
    value: object = dict[str, object].get(frame.f_globals, name)
    return value if type(value) is str else ""


_CLOCK: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
_WEEKDAY: Final = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_REST_OF_DATE: Final = rf"(?: \d{{4}})?(?: {_CLOCK})?(?: \d{{4}})?"
_DURATION: Final = (
    r"\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?"
    r"|milliseconds?|microseconds?)"
)
_ADDRESS_6: Final = (
    r"(?=[0-9a-f:]{0,40}::|(?:[0-9a-f]{1,4}:){5})(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}"
    r"(?:\.\d{1,3}){0,3}(?:%\w{1,16})?"
)
_DOMAIN: Final = (
    r"(?:com|net|org|io|dev|app|cloud|ai|co|info|biz|eu|de|uk|fr|jp|us|ca|au|nl|es|it|ch|at|se|pl"
    r"|br|in|cn|kr|ru|edu|gov|local|localdomain|internal|intranet|lan|corp|home|svc|test|example"
    r"|invalid|arpa)"
)
_ID: Final = "[A-Za-z0-9_-]"
# In this order: a URL contains a host, an address looks like a time, and everything ends in
# numbers. Numbers, ids and times get the same mark, or chance would split a group: 4d1e7f02 is
# an id with letters, 49127302 one without, and 4912730d could be days.
_VARYING: Final = tuple(
    (re.compile(pattern), mark)
    for pattern, mark in (
        (r"\s++", " "),
        (r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>)\]}]++", "<url>"),
        (r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}", "<email>"),
        (rf"(?i)(?<![\w:])\[?{_ADDRESS_6}(?![\w:])(?:\](?::\d{{1,5}})?)?", "<host>"),
        (r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?!\w|\.\d)", "<host>"),
        (rf"(?<![\w-])\d{{4}}-\d{{2}}-\d{{2}}(?:[T ,]{{1,2}}{_CLOCK})?(?![\w-])", "<n>"),
        (rf"{_WEEKDAY}\b(?:\d{{1,2}} {_MONTH}|{_MONTH} \d{{1,2}},?){_REST_OF_DATE}\b", "<n>"),
        (rf"(?<![\w:.]){_CLOCK}(?![\w:])", "<n>"),
        (rf"(?<![\w.-]){_DURATION}(?: ?{_DURATION}){{0,4}}(?![\w-])", "<n>"),
        (
            rf"(?i)(?<![\w.-])(?:[\w-]{{1,63}}\.){{1,8}}{_DOMAIN}(?::\d{{1,5}})?(?![\w-]|\.\w)",
            "<host>",
        ),
        (r"(?i)\blocalhost(?::\d{1,5})?\b", "<host>"),
        (r"(?<![\w.])/(?:tmp|var/folders|private/tmp)/[^\s\"':,)]++", "/tmp/<n>"),  # noqa: S108 - a mark, not a file
        (r"([/\\](?:home|Users)[/\\])[^\s/\\\"':,)]++", r"\1<n>"),
        (r"(?<![A-Za-z0-9_-])[0-9a-fA-F]{8,}+(?![A-Za-z0-9_-])", "<n>"),
        (rf"(?<!{_ID})[A-Za-z_-]*+\d{_ID}*+(?:[.,]\d{_ID}*+)*+", "<n>"),
        (r"(<\w{1,5}>)(?:,? ?\1)+", r"\1"),
    )
)
# A word in quotes names a field or a table. After a bracket it is the text of a nested error.
_QUOTED = re.compile(r"(?<![\w(])(['\"`])((?:(?!\1)[^\\]|\\.){1,2000})\1(?!\w)")
_LONGEST_NAME: Final = 40


def normalise(message: str) -> str:
    """Take out of a message what differs between failures of one cause.

    >>> normalise("user 42 not found on api3.eu.example.com:443 after 1.5s")
    'user <n> not found on <host> after <n>'
    """
    text = message[:_MESSAGE_READ]
    for pattern, mark in _VARYING:
        text = pattern.sub(mark, text)
    return _QUOTED.sub(_unless_name, text).strip()[:_MESSAGE_LENGTH]


def _unless_name(match: re.Match[str]) -> str:
    quote, body = match[1], match[2]
    return f"{quote}<s>{quote}" if "<" in body or len(body) > _LONGEST_NAME else match[0]
