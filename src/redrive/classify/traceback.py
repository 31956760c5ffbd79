"""The text of a traceback, as Python prints it, masked and bounded.

Written anew, because the `traceback` module asks every error in the chain for its whole text,
however large, and is several times as slow. Of a long text the head and the tail are kept: the
first error and the last are what people look for.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from textwrap import indent
from types import CodeType, TracebackType
from typing import Any, Final

from redrive.classify.clues import guarded, is_a, name_of
from redrive.payloads.masking import error_text

_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"

_HEAD, _TAIL, _FIRST_FRAMES, _LAST_FRAMES = 6000, 10000, 10, 30
_DEEPEST, _MOST = 8, 10
_LONGEST_LINE, _LONGEST_MESSAGE, _LONGEST_FRAMES = 500, 1900, 50000
_MOST_KNOWN: Final = 2000
_KNOWN: Final[dict[tuple[int, int], tuple[CodeType, str]]] = {}
"""Lines of code seen before, by the identity of their code, kept with it: few fail again and again."""
_TRACE: Final = BaseException.__dict__["__traceback__"].__get__
_MEMBERS: Final = BaseExceptionGroup.__dict__["exceptions"].__get__


def trace_text(exc: BaseException, message: str, secrets: Sequence[str] = ()) -> str:
    """Write the traceback of an error, whose masked message is already known.

    The frames of Redrive itself, above the handler's, are left out.
    """
    parts: list[str] = []
    for error, joint in reversed(_chain(exc)):
        own_message = message if error is exc else _text(error, secrets)
        parts.append(_one(error, own_message, secrets))
        if is_a(error, BaseExceptionGroup):
            parts += _members(error, secrets)
        parts.append(joint)
    text = "".join(parts)
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]}\n… {left_out} characters left out …\n{text[-_TAIL:]}"


def _text(value: object, secrets: Sequence[str]) -> str:
    return error_text(value, secrets, limit=_LONGEST_MESSAGE)


def _chain(exc: BaseException) -> list[tuple[BaseException, str]]:
    """List the errors that led to this one, last first, each with what is said after it."""
    chain: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    joint = ""
    error: Any = exc
    while is_a(error, BaseException) and id(error) not in seen and len(seen) < _DEEPEST:
        seen.add(id(error))
        chain.append((error, joint))
        cause = _held(error, "__cause__")
        joint = _CONTEXT if cause is None else _CAUSE
        hidden = _held(error, "__suppress_context__") is True
        error = _held(error, "__context__") if cause is None and not hidden else cause
    return chain


def _held(error: BaseException, name: str) -> Any:
    return guarded(getattr, error, name, None)


def _one(error: BaseException, message: str, secrets: Sequence[str]) -> str:
    frames = "".join(_frames(_TRACE(error)))
    if frames:
        head = "Traceback (most recent call last):\n"
        frames = error_text(head + frames, secrets, limit=_LONGEST_FRAMES)
    name, notes = name_of(type(error)), _held(error, "__notes__")
    text = f"{frames}{name}: {message}\n" if message else f"{frames}{name}\n"
    if is_a(notes, list):
        text += "".join(f"{_text(note, secrets)}\n" for note in notes[:_MOST])
    return text


def _members(error: BaseException, secrets: Sequence[str]) -> Iterator[str]:
    """Write the errors of a group below it, set in; groups inside it only by their own line."""
    members: tuple[BaseException, ...] = _MEMBERS(error)
    for number, member in enumerate(members[:_MOST], 1):
        yield f"  +---------------- {number} ----------------\n"
        yield indent(_one(member, _text(member, secrets), secrets), "    | ")


def _frames(trace: TracebackType | None) -> list[str]:
    entries: list[TracebackType] = []
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__")
        if entries or trace.tb_next is None or not f"{name}.".startswith("redrive."):
            entries.append(trace)
        trace = trace.tb_next
    left_out = len(entries) - _FIRST_FRAMES - _LAST_FRAMES
    if left_out <= 0:
        return [*map(_frame, entries)]
    first, last = entries[:_FIRST_FRAMES], entries[-_LAST_FRAMES:]
    return [*map(_frame, first), f"  … {left_out} frames left out …\n", *map(_frame, last)]


def _frame(entry: TracebackType) -> str:
    code, number = entry.tb_frame.f_code, entry.tb_lineno
    known = _KNOWN.get((id(code), number))
    if known is not None:
        return known[1]
    where = f'  File "{code.co_filename}", line {number}, in {code.co_name}\n'
    # Without a check whether the file changed since: what runs is what was loaded then.
    line = linecache.getline(code.co_filename, number, entry.tb_frame.f_globals).strip()
    if not line:
        return where
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()
    text = f"{where}    {line[:_LONGEST_LINE]}\n"
    _KNOWN[id(code), number] = code, text
    return text
