"""The colours, signs and symbols of the terminal."""

from __future__ import annotations

from typing import NamedTuple

TONES = {"": "", "good": "green", "bad": "bold red", "warn": "yellow"}
WORDS = {
    "dead": "red",
    "pending": "yellow",
    "running": "cyan",
    "completed": "green",
    "resolved": "dim",
    "auth": "red",
    "invalid": "red",
    "permanent": "red",
    "crash": "red",
}
SYMBOLS = {
    "transient": "⚡",
    "rate_limit": "⏳",
    "quota": "💳",
    "auth": "🔒",
    "invalid": "🚫",
    "permanent": "🚫",
    "timeout": "⏰",
    "crash": "💥",
    "unknown": "❓",
}
"""Of the categories of errors; each takes two columns."""


class Signs(NamedTuple):
    """The characters beside the text: some terminals know only ASCII."""

    good: str = "✓"
    bad: str = "✗"
    warn: str = "!"
    nothing: str = "–"
    rule: str = "─"
    more: str = "…"
    steps: str = "▁▂▃▄▅▆▇█"
    frame: str = "╭╮╰╯│"

    def of(self, tone: str) -> str:
        """Return the sign of a tone, with a space."""
        return f"{getattr(self, tone)} " if tone else ""


ASCII = Signs("ok", "x", "!", "-", "-", "...", "_.:-=+*#", "++++|")
SPELT = str.maketrans({"…": "...", "•": "*", "·": "|", "–": "-", "→": "->", "±": "+-"})
"""Our own punctuation, for a terminal that knows only ASCII."""
