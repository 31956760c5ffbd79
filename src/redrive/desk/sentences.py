"""Sentences that the desk makes, in English, with what a console needs to show them in another language."""

from __future__ import annotations

from typing import Literal, Self

Code = Literal[
    "healthy", "failing", "grows", "overdue", "overdue_paused", "unserved", "began", "came_back",
    "silent", "blocked", "blocked_for", "retrying", "dead", "deaths", "workers",
    "wait_paused", "wait_worker", "wait_pass", "wait_cooldown", "wait_cooldown_for",
    "wait_unserved", "wait_silent", "wait_slot",
]  # fmt: skip
"""A catalogue has a text for each: `said.CODE`."""


class Sentence(str):
    """An English sentence, with its code and its values: numbers, texts, and durations as floats."""

    __slots__ = ("code", "values")
    code: Code
    values: dict[str, str | float]

    def __new__(cls, text: str, code: Code, **values: str | float) -> Self:
        """Make a sentence."""
        sentence = super().__new__(cls, text)
        sentence.code, sentence.values = code, values
        return sentence
