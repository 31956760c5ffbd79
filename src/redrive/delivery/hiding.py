"""The secrets of an endpoint, in all the spellings in which a response may repeat them.

A server that refuses a request often repeats it: decoded, escaped for HTML, or only a part of it.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from redrive.classify.clues import guarded

_SHORTEST, _SHORTEST_PIECE, _LONGEST_WORD = 4, 6, 11
_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "apikey", "token"})
_WORD: Final = re.compile(rf"[a-z_-]{{1,{_LONGEST_WORD}}}")
_JSON_WORDS: Final = frozenset({"true", "false", "null"})
"""Without these an answer could not be read any more."""
_ESCAPED: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&'"}


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


def pattern(secrets: Iterable[str]) -> re.Pattern[str]:
    """Find all of them, the longest first; those too short to be told from other text are left."""
    forms = {form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)}
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or r"(?!)")


def _forms(secret: str) -> Iterator[str]:
    """Spell a secret as it is, and as JSON, a URL and a page would."""
    in_json = json.dumps(secret)[1:-1]
    yield from (secret, in_json, in_json.replace("/", "\\/"), in_json.translate(_ESCAPED))
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for quoted in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield from (quoted, re.sub("%..", lambda match: match[0].lower(), quoted))
    page = html.escape(secret)
    yield from (page, html.escape(secret, quote=False))
    yield page.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
