"""Sentences that the desk makes, in English, with what a console needs to show them in another language."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Self, TypeAlias

from redrive.jobs.durations import words

Value: TypeAlias = str | int | float | list[str]
"""A float is a duration in seconds, a list the names of lanes."""
SHOWN = 5


@cache
def texts() -> dict[str, str | list[str]]:
    """Return the sentences by code; a pair is singular and plural."""
    import tomllib  # noqa: PLC0415 - most commands show no such sentence

    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


class Sentence(str):
    """An English sentence, with its code and its values."""

    __slots__ = ("code", "values")
    code: str
    values: dict[str, Value]

    def __new__(cls, code: str, **values: Value) -> Self:
        """Make a sentence of a code of `sentences.toml`."""
        text = texts()[code]
        if isinstance(text, list):
            first = next(value for value in values.values() if isinstance(value, int))
            text = text[0 if first == 1 else 1]
        shown = {name: _shown(value) for name, value in values.items()}
        sentence = super().__new__(cls, text.format(**shown))
        sentence.code, sentence.values = code, values
        return sentence

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Copy it as plain text."""
        return str, (str(self),)


def _shown(value: Value) -> str:
    if isinstance(value, list):
        more = f" and {len(value) - SHOWN} more" if len(value) > SHOWN else ""
        return f"the lane{'' if len(value) == 1 else 's'} {', '.join(value[:SHOWN])}{more}"
    return (
        words(value)
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else value
    )
