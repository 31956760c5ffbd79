"""Group failures by their cause: a fingerprint for grouping, and a title for people.

In order: a key that the exception carries; else the type of the error and the function and statement
of the application's own code that failed; else the type and the message without what varies. The
handler counts too, unless the failure is about something outside that many handlers may use.

Fingerprints carry the version of this algorithm: to change what goes into one, raise the version.
Nothing here raises, whatever the exception does.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from redrive.classify.clues import guarded, members
from redrive.classify.message_text import MESSAGE_READ, normalise, without_ids, without_literals
from redrive.classify.statements import statement_at
from redrive.jobs.job import Category
from redrive.payloads.masking import error_text, inert, safe_text, type_name

if TYPE_CHECKING:
    from types import TracebackType

VERSION: Final = "v1"  # the algorithm that made a fingerprint; the part before its colon

OUTSIDE: Final = frozenset(
    (Category.TRANSIENT, Category.RATE_LIMIT, Category.QUOTA, Category.AUTH, Category.CRASH)
)
"""Categories of failures that handlers share: one outage is one group, whichever handler met it."""

_TITLE_LENGTH: Final = 120
_MOST_ERRORS: Final = 100
_MOST_KNOWN: Final = 2000
_KNOWN: Final[dict[tuple[object, ...], tuple[list[object], str]]] = {}
"""Fingerprints made before, by the identity of code and class, which are kept with them."""


class Cause(NamedTuple):
    """What failures of one group share; the title is the first line a person reads."""

    fingerprint: str
    title: str


def cause_of(
    exc: BaseException,
    message: str,
    *,
    detail: str = "",
    keep: tuple[str, ...] = (),
    handler: str = "",
    outside: bool = False,
) -> Cause:
    """Find the cause of this failure, whose message comes in as `error_text` returns it.

    An attribute `redrive_group` on the exception decides alone. `detail` tells apart what fails in
    one statement for different reasons, such as a status or an error code; titles keep the numbers
    in `keep`. `outside` leaves the handler out.
    """
    place = _place_of(exc)
    if group := _given_group(exc):
        fingerprint = _digest("key", group)
    else:
        what = (detail, "" if outside else handler)
        known = place and _known_print(exc, message, place, what)
        fingerprint = known or _print(exc, message, None, what)
    function = place.tb_frame.f_code.co_name if place else ""
    return Cause(fingerprint, _title(type_name(exc), without_ids(message, keep), function))


def _known_print(
    exc: BaseException, message: str, place: TracebackType, what: tuple[str, str]
) -> str:
    """Return the fingerprint, from memory if the same statement failed in the same way before."""
    code, kind, others = place.tb_frame.f_code, type(exc), _others(exc)
    key: tuple[object, ...] = (id(code), place.tb_lasti, id(kind), *what)
    held: list[object] = [code, kind]
    for error, at in others:
        held += (at.tb_frame.f_code, type(error))
        key += (id(at.tb_frame.f_code), at.tb_lasti, id(type(error)))
    known = _KNOWN.get(key)
    if known is None:
        known = (held, _print(exc, message, place, what))
        if not statement_at(place):  # then the message counts
            return known[1]
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known[1]


def _print(
    exc: BaseException, message: str, place: TracebackType | None, what: tuple[str, str]
) -> str:
    """Compute the fingerprint."""
    detail, handler = safe_text(what[0]), what[1]
    where = _statement(place) if place else ("", "")
    text = "" if where[1] else normalise(message)
    if text:
        where = (*where, without_literals(text))
    # How many errors there were is chance.
    others = {(_type(error), _statement(at)) for error, at in _others(exc)}
    return _digest(where, _type(exc), detail, tuple(sorted(others)), handler)


def of_text(
    type_name: str,
    message: str,
    *,
    keep: tuple[str, ...] = (),
    handler: str = "",
    outside: bool = False,
) -> Cause:
    """Find the cause of a failure that is known only as text, such as a crash.

    >>> one, other = of_text("Crash", "worker 17 vanished"), of_text("Crash", "worker 4 vanished")
    >>> one.fingerprint == other.fingerprint
    True
    """
    name, text = safe_text(type_name), error_text(message, limit=MESSAGE_READ)
    where = ("", "", without_literals(normalise(text)))
    fingerprint = _digest(where, name, "", (), "" if outside else handler)
    return Cause(fingerprint, _title(name, without_ids(text, keep), ""))


@lru_cache(maxsize=512)  # few causes make up nearly all failures
def _digest(*parts: object) -> str:
    # ascii() keeps the parts apart and is the same on every Python.
    return f"{VERSION}:{hashlib.sha256(ascii(parts).encode()).hexdigest()[:16]}"


@lru_cache(maxsize=512)
def _title(name: str, message: str, function: str) -> str:
    """Write the type, the message, and the function."""
    words = inert(message)
    what = f"{inert(name)}: {words}" if words else inert(name)
    where = f" @ {_cut(inert(function), _TITLE_LENGTH // 3)}" if function else ""
    return _cut(what, _TITLE_LENGTH - len(where)) + where


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _given_group(exc: BaseException) -> str:
    return safe_text(guarded(getattr, exc, "redrive_group", None) or "")


def _type(exc: BaseException) -> str:
    """Name a type without its module: a class stays what it is when it moves."""
    return type(exc).__qualname__


def _others(exc: BaseException) -> list[tuple[BaseException, TracebackType]]:
    """Return the errors that led to this one or are grouped in it, and their places.

    Only as far as the application's own code saw them. What a library caught and turned into
    another error says how the library works, and would split one outage into many groups.
    """
    found: list[tuple[BaseException, TracebackType]] = []
    waiting: list[BaseException | None] = [exc]
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_ERRORS:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        if error is not exc and (place := _place_of(error)):
            found.append((error, place))
        waiting += members(error)[:_MOST_ERRORS]
        waiting.append(error.__cause__ if error.__suppress_context__ else error.__context__)
    return found


# Python 3.12 made these part of the function around them; the line that runs them says enough.
_COMPREHENSIONS: Final = frozenset(("<listcomp>", "<dictcomp>", "<setcomp>"))
_TYPED_IN: Final = ("<stdin>", "<string>", "<ipython", "<doctest")
_LIBRARIES: Final = tuple(
    os.path.dirname(file).replace("\\", "/") + "/"  # noqa: PTH120 - text only, no file system
    for file in (os.__file__, __file__)
)


def _place_of(exc: BaseException) -> TracebackType | None:
    """Find the innermost line of the application that the error passed through."""
    innermost: TracebackType | None = None
    trace: TracebackType | None = exc.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name not in _COMPREHENSIONS and _is_app_file(code.co_filename):
            innermost = trace
        trace = trace.tb_next
    return innermost


@lru_cache(maxsize=4096)
def _is_app_file(file: str) -> bool:
    path = file.replace("\\", "/")
    if path.startswith("<"):
        return path.startswith(_TYPED_IN)
    return not path.startswith(_LIBRARIES) and not re.search("/(?:site|dist)-packages/", path)


_INSIDE: Final = re.compile(r"<(?:list|dict|set)comp>\.<locals>\.")


def _statement(place: TracebackType) -> tuple[str, ...]:
    """Name function and statement so that it stays when code moves or is formatted.

    The statement is empty without its source.
    """
    name = place.tb_frame.f_code.co_qualname
    return (_INSIDE.sub("", name) if "comp>" in name else name, statement_at(place))
