"""Patterns in which `*` stands for any text: matched from left to right, in linear time."""

from __future__ import annotations


def matches(pattern: str, text: str) -> bool:
    """Return True if the whole text fits the pattern.

    Each fixed part is taken where it first occurs after the one before it, so no choice is ever tried
    again: a regular expression of the same meaning takes time that grows with the number of stars as
    an exponent.

    >>> matches("mail.*", "mail.send"), matches("*a*b", "ba")
    (True, False)
    """
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    at, end = len(first), len(text) - len(last)
    if end < at or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        place = text.find(part, at, end)
        if place < 0:
            return False
        at = place + len(part)
    return True
