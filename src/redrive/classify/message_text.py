"""Messages without what differs between failures of one cause: for fingerprints and titles."""

from __future__ import annotations

import re
from functools import lru_cache
from http import HTTPStatus
from typing import Final

_MESSAGE_LENGTH: Final = 300
MESSAGE_READ: Final = 4096  # characters of a message that are looked at

_ID: Final = "[A-Za-z0-9_-]"
# All get the same mark, or chance would split a group: 4d1e7f02 is an id with letters,
# 49127302 one without, and 4912730d could be days.
_VARYING: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>)\]}]++"  # URLs
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"  # mail addresses
    r"|(?<![\w.-])(?:(?:[\w-]{1,63}\.){1,8}(?:com|net|org|io|dev|app|cloud|ai|co|eu|de|uk|fr|jp|us"
    r"|cn|ru|edu|gov|local|internal|intranet|lan|corp|svc|test|example|invalid|arpa)|localhost)"
    r"(?::\d{1,5})?(?![\w-]|\.\w)"  # hosts
    r"|(?<![\w:])\[?(?=[0-9a-f:]{0,40}::|(?:[0-9a-f]{1,4}:){5})[0-9a-f:]{2,40}(?:\.\d{1,3}){0,3}"
    r"(?![\w:])(?:\](?::\d{1,5})?)?"  # IPv6
    r"|(?<![\w.])/(?:tmp|var/folders|private/tmp)/[^\s\"':,)]++"
    rf"|(?<!{_ID})(?:[0-9a-f]{{8,}}+(?!{_ID})|[a-z_-]*+\d{_ID}*+(?:[.,:+]\d{_ID}*+)*+)",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(r"<n>(?:,? ?<n>)+")
# A word in quotes names a field or a table. After a bracket it is the text of a nested error.
_QUOTED: Final = re.compile(r"(?<![\w(])(['\"`])((?:(?!\1)[^\\]|\\.){1,2000})\1(?!\w)")
_LONGEST_NAME: Final = 40


def normalise(message: str) -> str:
    """Take out of a message what differs between failures of one cause.

    >>> normalise("user 42 not found on api3.eu.example.com:443 after 1.5s")
    'user <n> not found on <n> after <n>'
    """
    text = _LISTED.sub("<n>", _VARYING.sub("<n>", " ".join(message[:MESSAGE_READ].split())))
    return _QUOTED.sub(_unless_name, text)[:_MESSAGE_LENGTH]


def _unless_name(match: re.Match[str]) -> str:
    quote, body = match[1], match[2]
    return f"{quote}<s>{quote}" if "<" in body or len(body) > _LONGEST_NAME else match[0]


_SQL: Final = re.compile(r"\b(?:SELECT|INSERT|UPDATE|DELETE|WHERE|VALUES)\b")
_LITERAL: Final = re.compile(r"'(?:[^']|'')*+'|(?<==\()[^()]*(?=\))")
_LITERALS: Final = re.compile(r"<s>(?:, ?<[sn]>)+")


def without_literals(text: str) -> str:
    """Take the values out of SQL, and out of `Key (email)=(…)` as PostgreSQL writes it."""
    if "=(" not in text and not _SQL.search(text):
        return text
    return _LITERALS.sub("<s>", _LITERAL.sub("<s>", text))


_TEMPORARY: Final = ("/tmp/", "/var/folders/", "/private/tmp/")  # noqa: S108 - text, not files
_ENDS: Final = r"\s\"'`()\[\]{}<>,;=|"
_CHANGING: Final = re.compile(
    rf"(?<![^{_ENDS}])(?:{'|'.join(_TEMPORARY)}|[a-fA-F]*+::|[^\d@?{_ENDS}]*+[\d@?])[^{_ENDS}]*+"
)
"""Words that may differ between failures of one cause: with a digit, a mailbox, a query."""
_PIECE: Final = re.compile(r"[A-Za-z0-9_-]*\d[A-Za-z0-9_-]*")
_FAMILY: Final = re.compile(r"(?=[a-z_-]*[g-z])(?:(?:[a-z]+[_-])+|[a-z]+(?=\d+\Z))", re.IGNORECASE)
"""What ids of one kind begin with: `order-`, `ch_`, `worker`; letters that may be hexadecimal do not."""
_HOST: Final = re.compile(r"[\w.-]+\.[a-z]{2,}(?::\d{1,5})?", re.IGNORECASE)
_URL: Final = re.compile(
    r"([a-z][a-z0-9+.-]*://)(?:[^@/?#]*@)?([^/?#]*)([^?#]*)(.*)", re.IGNORECASE
)
_PORT: Final = re.compile(r":(\d{1,5})\Z")
_CLIENT_PORTS: Final = 32768
_PHRASES: Final = {str(one.value): one.phrase.lower() for one in HTTPStatus}
_BEFORE_STATUS: Final = ("http", "status", "code")
_STARS: Final = re.compile(r"\*(?:[.,:+/_ -]{0,2}\*)+")


def without_ids(message: str, keep: tuple[str, ...] = ()) -> str:
    """Write a message with `*` for numbers and ids; hosts stay recognisable, and what is in `keep`.

    An HTTP status stays where its phrase follows, or `HTTP` or `status` comes before it.

    >>> without_ids("Connection refused: pay-7.internal:443 (job 4711)")
    'Connection refused: pay-*.internal:443 (job *)'
    >>> without_ids("429 Too Many Requests for job 4711")
    '429 Too Many Requests for job *'
    """
    parts = message[:MESSAGE_READ].split()
    keep += _statuses(parts)
    words = [word if word.isalpha() else _word(word, keep) for word in parts]
    if message.startswith("[Errno "):  # as OSError writes it; a code, not an id
        words[1:2] = parts[1:2]
    text = " ".join(words)
    return (_STARS.sub("*", text) if "*" in text else text)[:_MESSAGE_LENGTH]


def _statuses(words: list[str]) -> tuple[str, ...]:
    """Return the numbers that are an HTTP status by the words beside them."""
    found = [(at, word.rstrip(",:;.")) for at, word in enumerate(words) if word[0] in "12345"]
    return tuple(
        number
        for at, number in found
        if number in _PHRASES
        and (
            " ".join(words[at + 1 : at + 6]).lower().startswith(_PHRASES[number])
            or (at > 0 and words[at - 1].lower().rstrip(":").partition("/")[0] in _BEFORE_STATUS)
        )
    )


@lru_cache(maxsize=2048)  # the same words come again and again
def _word(word: str, keep: tuple[str, ...]) -> str:
    bare = word.strip("()[].,;#")
    if bare.isdigit() and bare not in keep:
        return word.replace(bare, "*")
    return _CHANGING.sub(lambda match: _starred(match[0], keep), word)


def _starred(word: str, keep: tuple[str, ...]) -> str:
    """Replace in one word what varies."""
    if word.count(":") > 1 and not word.strip("0123456789abcdefABCDEF:."):  # a time, IPv6
        return "*"
    bare = word.rstrip(".:!?")
    end = word[len(bare) :]
    if bare in keep:
        return word
    if bare.startswith(_TEMPORARY):
        return f"{bare[: bare.index('/', 1)]}/*{end}"
    if url := _URL.fullmatch(bare):
        scheme, host, path, query = url.groups()
        return scheme + _host(host) + _pieces(path) + ("?*" if query else "") + end
    mailbox, at, host = bare.rpartition("@")
    if at and mailbox:
        return f"*@{_host(host)}{end}"
    if _HOST.fullmatch(bare):
        return _host(bare) + end
    return _pieces(bare) + end


def _host(text: str) -> str:
    port = _PORT.search(text)
    if port is None:
        return re.sub(r"\d+", "*", text)
    known = port[0] if int(port[1]) < _CLIENT_PORTS else ":*"
    return re.sub(r"\d+", "*", text[: port.start()]) + known


def _pieces(text: str) -> str:
    return _PIECE.sub(_family, text)


def _family(match: re.Match[str]) -> str:
    family = _FAMILY.match(match[0])
    return f"{family[0]}*" if family else "*"
