"""The text of a traceback, as Python prints it, fit to be stored.

Written anew rather than with the `traceback` module, because that one asks every error in the
chain for its whole text, however large, and is several times as slow. Values of variables are
never shown; the rest is masked and bounded. Of a long text the head and the tail are kept: the
first error and the last are what people look for.
"""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Final, cast

from redrive._clues import is_error, look, name_of
from redrive.redact import error_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"

_HEAD: Final = 6000
_TAIL: Final = 10000
_DEEPEST: Final = 8
_MOST_MEMBERS: Final = 10
_MOST_NOTES: Final = 10
_FIRST_FRAMES: Final = 10
_LAST_FRAMES: Final = 30
_LONGEST_LINE: Final = 500
_LONGEST_MESSAGE: Final = 1900
_LONGEST_FRAMES: Final = 50000


def trace_text(exc: BaseException, message: str, secrets: Sequence[str] = ()) -> str:
    """Write the traceback of an error, whose masked message is already known.

    The frames of Redrive itself, above the handler's, are left out.
    """
    links = list(_chain(exc))
    parts: list[str] = []
    for error, joint in reversed(links):
        said = message if error is exc else error_text(error, secrets, limit=_LONGEST_MESSAGE)
        parts += (_one(error, said, secrets), joint)
    return _bounded("".join(parts))


def _chain(exc: BaseException) -> Iterator[tuple[BaseException, str]]:
    """List the errors that led to this one, last first, each with what is said after it."""
    joint, seen = "", set[int]()
    error: BaseException | None = exc
    while error is not None and id(error) not in seen and len(seen) < _DEEPEST:
        seen.add(id(error))
        yield error, joint
        cause, context = look(error, "__cause__"), look(error, "__context__")
        if not is_error(cause) and look(error, "__suppress_context__") is True:
            return
        joint = _CAUSE if is_error(cause) else _CONTEXT
        before = cause if is_error(cause) else context
        error = cast("BaseException", before) if is_error(before) else None


def _one(error: BaseException, message: str, secrets: Sequence[str]) -> str:
    frames = "".join(_frames(_trace(error)))
    if frames:
        frames = error_text(frames, secrets, limit=_LONGEST_FRAMES)
        frames = f"Traceback (most recent call last):\n{frames}"
    name = name_of(type(error))
    said = f"{name}: {message}\n" if message else f"{name}\n"
    return "".join((frames, said, *_notes(error, secrets), *_members(error, secrets)))


def _trace(error: BaseException) -> TracebackType | None:
    trace: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(error)
    return trace


def _frames(trace: TracebackType | None) -> Iterator[str]:
    entries: list[TracebackType] = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    entries = _without_ours(entries)
    left_out = len(entries) - _FIRST_FRAMES - _LAST_FRAMES
    for index, entry in enumerate(entries):
        if index < _FIRST_FRAMES or index >= _FIRST_FRAMES + left_out:
            yield _frame(entry)
        elif index == _FIRST_FRAMES:
            yield f"  … {left_out} frames left out …\n"


def _without_ours(entries: list[TracebackType]) -> list[TracebackType]:
    for index, entry in enumerate(entries):
        module = entry.tb_frame.f_globals.get("__name__")
        if not f"{module}.".startswith("redrive."):
            return entries[index:]
    return entries


def _frame(entry: TracebackType) -> str:
    code = entry.tb_frame.f_code
    where = f'  File "{code.co_filename}", line {entry.tb_lineno}, in {code.co_name}\n'
    # Without a check whether the file changed since: what runs is what was loaded then.
    line = linecache.getline(code.co_filename, entry.tb_lineno, entry.tb_frame.f_globals).strip()
    return f"{where}    {line[:_LONGEST_LINE]}\n" if line else where


def _notes(error: BaseException, secrets: Sequence[str]) -> Iterator[str]:
    notes = look(error, "__notes__")
    if type(notes) is list:
        for note in cast("list[object]", notes)[:_MOST_NOTES]:
            yield f"{error_text(note, secrets, limit=_LONGEST_MESSAGE)}\n"


def _members(error: BaseException, secrets: Sequence[str]) -> Iterator[str]:
    """Write the errors of a group below it, set in; groups inside it only by their own line."""
    if not issubclass(type(error), BaseExceptionGroup):
        return
    members: tuple[BaseException, ...] = BaseExceptionGroup.__dict__["exceptions"].__get__(error)
    for number, member in enumerate(members[:_MOST_MEMBERS], 1):
        said = error_text(member, secrets, limit=_LONGEST_MESSAGE)
        lines = f"{''.join(_frames(_trace(member)))}{name_of(type(member))}: {said}"
        yield f"  +---------------- {number} ----------------\n"
        for line in error_text(lines, secrets, limit=_LONGEST_FRAMES).splitlines():
            yield f"    | {line}\n"
    if len(members) > _MOST_MEMBERS:
        yield f"  +---------------- … {len(members) - _MOST_MEMBERS} more\n"


def _bounded(text: str) -> str:
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]}\n… {left_out} characters left out …\n{text[-_TAIL:]}"
