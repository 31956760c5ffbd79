"""Making text harmless: what could drive a terminal, or forge a line, becomes a visible escape."""

from __future__ import annotations

import re
from typing import Final

DRIVING: Final = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: escape sequences, carriage return, bell
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction marks, overrides, isolates
    "\u00ad\u180e\u200b-\u200d\u2060-\u2065\ufeff\ufff9-\ufffb"  # without width
    "\u2028\u2029\ud800-\udfff\U000e0000-\U000e007f"  # separators, surrogates, tags
)
_NOT_INERT = re.compile(f"[{DRIVING}]")
_NOT_INERT_IN_LINES = re.compile(f"(?![\n\t])[{DRIVING}]")


def inert(text: str, *, keep_newlines: bool = False) -> str:
    r"""Show what could drive a terminal, or forge a line of a log, as visible escapes.

    >>> inert("ok\x1b[2J\nroot: granted")
    'ok\\x1b[2J\\nroot: granted'
    """
    if text.isprintable():
        return text
    driving = _NOT_INERT_IN_LINES if keep_newlines else _NOT_INERT
    return driving.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
