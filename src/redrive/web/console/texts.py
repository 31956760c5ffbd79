"""The texts of the console, one file a language: `texts/en.toml`.

A text may have values in braces. One with a number is a pair, the singular first: `t("jobs", n=3)`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from markupsafe import Markup

from redrive.desk.sentences import SHOWN, Sentence, Value

FOLDER = Path(__file__).with_name("texts")
DEFAULT = "en"
NAMES = {"en": "English", "ja": "日本語"}  # what each language calls itself
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


class Texts:
    """The texts of one language."""

    def __init__(self, language: str, texts: dict[str, str | list[str]]) -> None:
        self.language = language
        self._texts = texts

    def __call__(self, key: str, /, n: int | None = None, **values: object) -> Markup:
        """Return a text with its values, which are escaped unless they are markup already."""
        text = self._texts[key]
        if isinstance(text, list):
            text = text[0 if n == 1 else -1]
        return Markup(text).format(n="" if n is None else number(n), **values)  # noqa: S704 - ours

    def names(self, prefix: str) -> list[str]:
        """Return the ends of the keys that begin so, in the order of the file."""
        return [key.removeprefix(prefix) for key in self._texts if key.startswith(prefix)]

    def said(self, sentence: str) -> str:
        """Return a sentence of the desk in this language; one that was stored stays as it is."""
        if not isinstance(sentence, Sentence):
            return sentence
        text = self._texts.get(f"said.{sentence.code}")
        values = {name: self._value(value) for name, value in sentence.values.items()}
        return str(text).format(**values) if text else sentence

    def _value(self, value: Value) -> str:
        if isinstance(value, list):
            more = f" (+{len(value) - SHOWN})" if len(value) > SHOWN else ""
            return ", ".join(value[:SHOWN]) + more
        if isinstance(value, str):
            return value
        return self.span(value) if isinstance(value, float) else number(value)

    def span(self, seconds: float, *, units: int = 2) -> str:
        """Return a duration in at most so many units: 4 h 38 min."""
        left = round(seconds)
        if left < 1:
            return str(self("unit.second", n=0) if seconds <= 0 else self("unit.below"))
        words: list[str] = []
        for unit, size in _UNITS:
            count, left = divmod(left, size)
            if count and len(words) < units:
                words.append(str(self(f"unit.{unit}", n=count)))
            elif words:
                break
        return str(self("unit.between")).join(words)


def number(value: float) -> str:
    """Write a number with separators."""
    return f"{value:,}"


@cache
def texts(language: str = DEFAULT) -> Texts:
    """Return the texts of a language."""
    return Texts(language, tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8")))


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that there are, the default first."""
    return DEFAULT, *sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != DEFAULT)


def language_of(accepted: str) -> str:
    """Return the first language of an Accept-Language header that there is."""
    for wanted in accepted.lower().split(",")[:20]:
        name = wanted.partition(";")[0].strip().partition("-")[0]
        if name in languages():
            return name
    return DEFAULT
