"""The text of a traceback: formatted by Python, masked, then cut.

Of a long text the head and the tail are kept: the first error and the last are what people look for.
Each error is formatted by itself, because `TracebackException` asks every error in the chain for its
whole text, however large.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from traceback import StackSummary, walk_tb
from types import TracebackType
from typing import Final

from redrive.classify.clues import members, name_of
from redrive.payloads.masking import error_text

_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"

_HEAD, _TAIL, _FIRST_FRAMES, _LAST_FRAMES = 6000, 10000, 10, 30
_DEEPEST, _MOST = 8, 10
_LONGEST_MESSAGE, _LONGEST_FRAMES = 1900, 50000


def trace_text(exc: BaseException, message: str, secrets: Sequence[str] = ()) -> str:
    """Format the traceback of an error, whose masked message is already known.

    The frames of Redrive itself, above the handler's, are left out.
    """
    parts: list[str] = []
    error: BaseException | None = exc
    joint, seen = "", set[int]()
    while error is not None and id(error) not in seen and len(seen) < _DEEPEST:
        seen.add(id(error))
        text = _one(error, message if error is exc else _masked(error, secrets), secrets)
        for number, member in enumerate(members(error)[:_MOST], 1):
            inner = indent(_one(member, _masked(member, secrets), secrets), "    | ")
            text += f"  +---------------- {number} ----------------\n{inner}"
        parts.append(text + joint)
        joint = _CONTEXT if error.__cause__ is None else _CAUSE
        hidden = error.__suppress_context__ or error.__cause__ is not None
        error = error.__cause__ if hidden else error.__context__
    text = "".join(reversed(parts))
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]}\n… {left_out} characters left out …\n{text[-_TAIL:]}"


def _masked(value: object, secrets: Sequence[str]) -> str:
    return error_text(value, secrets, limit=_LONGEST_MESSAGE)


def _one(error: BaseException, message: str, secrets: Sequence[str]) -> str:
    text = "".join(_frames(error.__traceback__))
    if text:
        head = "Traceback (most recent call last):\n"
        text = error_text(head + text, secrets, limit=_LONGEST_FRAMES)
    name, notes = name_of(type(error)), getattr(error, "__notes__", ())
    text += f"{name}: {message}\n" if message else f"{name}\n"
    return text + "".join(f"{_masked(note, secrets)}\n" for note in notes[:_MOST])


def _frames(trace: TracebackType | None) -> list[str]:
    """Format the frames from the handler's on, few of many."""
    while trace and trace.tb_next and _is_ours(trace):
        trace = trace.tb_next
    frames = [*walk_tb(trace)]
    left_out = len(frames) - _FIRST_FRAMES - _LAST_FRAMES
    if left_out <= 0:
        return StackSummary.extract(frames).format()
    ends = (frames[:_FIRST_FRAMES], frames[-_LAST_FRAMES:])
    first, last = (StackSummary.extract(some).format() for some in ends)
    return [*first, f"  … {left_out} frames left out …\n", *last]


def _is_ours(trace: TracebackType) -> bool:
    return f"{trace.tb_frame.f_globals.get('__name__')}.".startswith("redrive.")
