"""What an edit of a payload changes, as every face shows it before it is saved."""

from __future__ import annotations

import difflib
import re

from redrive.errors import BadPayload
from redrive.payloads import editing, strict_json
from redrive.payloads.masking import MASK

_PARTLY_HIDDEN = re.compile(rf'"(?:[^"\\]|\\.)*?{MASK}(?:[^"\\]|\\.)*+"')


def is_unchanged(new: str, *shown: str) -> bool:
    """Return True if a text is the same JSON as one that was shown.

    It is not compared with the stored text: the answer would tell if a secret was guessed right.
    """
    return any(_is_same(new, text) for text in shown)


def _is_same(text: str, stored: str) -> bool:
    try:
        return strict_json.same(strict_json.compact(text), strict_json.compact(stored))
    except BadPayload:
        return False  # what was stored cannot be read: a person corrects it


def difference(before: str, after: str, *, around: int = 2) -> list[str]:
    """Return what changes, line by line, as a unified diff; both are masked. Empty if nothing shows.

    Masked values are not compared: that would tell if a secret was guessed right.
    """
    old, new = (_hidden_whole(_spread(text)) for text in (before, after))
    return list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=around))


def _spread(text: str) -> str:
    """Write JSON over several lines, numbers as they were; what cannot be read stays as it is."""
    try:
        return editing.written(editing.parsed(text), indent="  ")
    except (BadPayload, RecursionError):
        return text


def _hidden_whole(text: str) -> list[str]:
    """Mask whole values that have a masked part: its length would tell if a guess was right."""
    return [_PARTLY_HIDDEN.sub(f'"{MASK}"', line) for line in text.splitlines()]
