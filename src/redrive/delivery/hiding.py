"""The secrets of an endpoint, which a response may repeat.

A server that refuses a request often repeats it: decoded, escaped for HTML, or only a part of it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote, unquote_plus

from redrive.classify.clues import guarded
from redrive.payloads.masking import masker

_SHORTEST, _SHORTEST_PIECE, _LONGEST_WORD = 4, 6, 11
_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "apikey", "token"})
_WORD: Final = re.compile(rf"[a-z_-]{{1,{_LONGEST_WORD}}}")
_JSON_WORDS: Final = frozenset({"true", "false", "null"})
"""Without these an answer could not be read any more."""


def secrets_in(path: str, headers: Mapping[str, str]) -> Iterator[str]:
    """List what may be secret in the path and query of a URL, and in headers.

    Short words of small letters in a path stay: they name what it is about, and so do errors.
    """
    place, _, query = path.partition("?")
    yield from (place, query, unquote(place), unquote_plus(query))
    for raw in place.split("/"):
        yield from (piece for piece in _pieces(raw, unquote(raw)) if not _WORD.fullmatch(piece))
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        given = value if equals else name
        yield from {given, unquote(given), unquote_plus(given)} - _JSON_WORDS
    for value in headers.values():
        yield from (value, *_credentials(value))


def _credentials(value: str) -> Iterator[str]:
    """Take a header's value apart: what follows Bearer, and the password inside of Basic."""
    words = value.split()
    yield from _pieces(*(word for word in words if word.lower() not in _SCHEMES))
    if len(words) > 1 and words[0].lower() == "basic":
        pair = (guarded(base64.b64decode, words[1]) or b"").decode("utf-8", "replace")
        user, _, password = pair.partition(":")
        yield from (pair, password, *_pieces(user))


def _pieces(*texts: str) -> Iterator[str]:
    return (text for text in texts if len(text) >= _SHORTEST_PIECE)


def hider(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return the function that hides these in a text; those too short to be told from it are left."""
    return masker([secret for secret in secrets if len(secret) >= _SHORTEST])
