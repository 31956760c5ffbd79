"""Masking: what must not be read by others is hidden, what could drive a terminal is shown.

Two ways to find a secret: by name (a field or a `name=value` pair whose name says so) and by
shape (keys of well-known services, tokens, URLs with passwords). A secret found in a payload
is also masked wherever it recurs in other text, and so are the secrets in this process's
environment. Each rule marks spans of the text as it was given, and then all of them are hidden:
no rule can break up what another one would have found. Everything here is linear in the length
of the text, because the text of an error is written by strangers. Payloads themselves are
stored as given; these functions serve every view, log, event, alert and stored error.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from string import ascii_letters, digits
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, quote_plus

from redrive.payloads import escaping, secret_names
from redrive.payloads.secret_names import LONG_SECRET, is_secret_name
from redrive.payloads.secret_shapes import HINTS, ROOTS, SHAPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from redrive.payloads.strict_json import Json

MASK: Final = "•••"  # what stands in place of a secret

_decode = json.JSONDecoder().raw_decode
_FLAT: Final = (str, int, float, NoneType)
_LONGEST_LEAD: Final = 80
_SHORTEST_SECRET: Final = 4
Span = tuple[int, int]
"""Where something to hide begins and ends."""
_PASSES: Final = 8
"""So often a text is searched again after masking; one made to need more is hidden whole."""
_MASKED_AT_MOST: Final = 262_144
_FEW_FORMS: Final = 200
_ESCAPED: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&'"}
_PERCENT = re.compile("%[0-9A-F]{2}")
_MOST_WORK: Final = 200_000_000
"""Characters looked at for one text, over all spellings of all secrets: a fifth of a second."""
_WORK_PER_FORM: Final = 40
"""What it takes to look for one spelling in a text, however short, in characters."""


def loads(text: str) -> Any:
    """Read JSON, also if a number in it is longer than Python converts: that one becomes a float."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=float)


def mask_payload(value: Json, more: Sequence[str] = ()) -> Json:
    """Copy a payload with everything secret in it hidden, and these secrets too.

    Values under secret names are replaced whatever their type; all other text, keys too,
    is scrubbed of those values and of whatever looks like a secret.

    >>> mask_payload({"user": "ada", "password": "hunter22", "note": "try hunter22"})
    {'user': 'ada', 'password': '•••', 'note': 'try •••'}
    """
    secrets = (*secrets_in(value), *more)
    return _masked(value, masker(secrets), frozenset(secrets))


def mask_json(text: str, more: Sequence[str] = ()) -> str:
    """Do the same to a payload as it is stored; what hides nothing comes back as it was."""
    try:
        value = loads(text)
        masked = mask_payload(value, more)
    except (ValueError, RecursionError):
        return mask_text(text, more)
    if masked == value:
        return text
    return json.dumps(masked, ensure_ascii=False, separators=(",", ":"))


def _masked(value: Json, mask: Callable[[str], str], secrets: frozenset[str]) -> Json:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {
            mask(key): MASK if is_secret_name(key) else _masked(item, mask, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(item, mask, secrets) for item in value]
    if secrets and type(value) in {int, float} and json.dumps(value) in secrets:
        return MASK
    return value


def secrets_in(payload: Json) -> tuple[str, ...]:
    """Collect the values under secret names, longest first, to mask them elsewhere.

    Text and numbers of at least four characters; shorter ones would blot out half a log. Of
    `Bearer TOKEN` and the like the token too.
    """
    secrets: set[str] = set()
    _collect(payload, False, secrets)
    return tuple(sorted(secrets, key=_by_length))


def secrets_of(text: str) -> tuple[str, ...]:
    """Do the same for a payload as it is stored; what is not JSON has none that can be told."""
    try:
        value, end = _decode(text)  # as we write it; `loads` would look for white space around it
        if end == len(text):
            return secrets_in(value)
    except RecursionError:
        return ()
    except ValueError:
        pass
    try:
        return secrets_in(loads(text))
    except (ValueError, RecursionError):
        return ()


def _collect(value: Json, under: bool, secrets: set[str]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            hidden = under or is_secret_name(key)
            if hidden or not isinstance(item, _FLAT):  # most hide nothing
                _collect(item, hidden, secrets)
    elif isinstance(value, list | tuple):
        for item in value:
            if under or not isinstance(item, _FLAT):
                _collect(item, under, secrets)
    elif under and not (value is None or isinstance(value, bool)):
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) >= _SHORTEST_SECRET:
            secrets.update((text, *secret_names.parts_of(text)))


def _by_length(text: str) -> tuple[int, str]:
    return (-len(text), text)


def mask_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Hide these secrets, and whatever looks like one, in text.

    Masking twice gives what masking once gives.

    >>> mask_text("GET https://ada:pw@db.example/?sig=abc said sk-ant-0123456789")
    'GET https://ada:•••@db.example/?sig=••• said •••'
    """
    return masker(secrets)(text)


def masker(secrets: Sequence[str]) -> Callable[[str], str]:
    """Return `mask_text` for these secrets: what many take to compare is done once for all texts."""
    return partial(_mask_text, _spellings(tuple(secrets)) if secrets else None, _Left())


@dataclass(slots=True)
class _Left:
    """How much may still be looked at for all texts of one masker."""

    characters: int = 10 * _MOST_WORK


def _mask_text(mine: _Known | None, left: _Left, text: str) -> str:
    spans = list(_unknown(text))
    known = [mine] if mine else []
    if environment := secret_names.environment():
        known.append(_spellings(environment))
    for forms in known:
        secrets = _known_spans(text, forms, left)
        if secrets is None:
            return MASK
        spans += secrets
    for _ in range(_PASSES):
        if not spans:
            return text
        before, text = text, _hidden(text, spans)
        spans = [] if text == before else list(_unknown(text))  # a name may end before a mask now
    return MASK if spans else text


def _hidden(text: str, spans: list[Span]) -> str:
    """Put one mask in the place of each run of spans that overlap."""
    pieces: list[str] = []
    done = -1
    for start, end in sorted(spans):
        if start > done:
            pieces += (text[max(done, 0) : start], MASK)
        done = max(done, end)
    return "".join((*pieces, text[max(done, 0) :]))


def _unknown(text: str) -> tuple[Span, ...]:
    """Find what looks like a secret by shape or by the name before it."""
    return _looked_for(text, len(secret_names.more))


@lru_cache(maxsize=16)  # failures of one cause carry the same traceback
def _looked_for(text: str, more: int) -> tuple[Span, ...]:
    # Most text holds none of the fixed parts of a rule, and looking for those is cheap.
    small = text.lower()
    has = small.__contains__
    names = any(map(has, ROOTS)) or more > 0 or not text.isascii()
    if not names and not any(map(has, HINTS)):
        return ()
    spans: list[Span] = []
    for hints, shape in SHAPES:
        if any(map(has, hints)):
            spans += ((match.end("head"), match.end()) for match in shape.finditer(text))
    return (*spans, *_pair_spans(text)) if names else tuple(spans)


class _Known(NamedTuple):
    """How secrets may be spelled in text, longest first."""

    forms: list[str]
    by_end: dict[str, list[str]]
    """By their last characters: keys of one service begin alike."""
    widths: set[int]
    """The lengths of those ends."""


@lru_cache(maxsize=8)
def _spellings(secrets: tuple[str, ...]) -> _Known:
    """List how secrets may be spelled in text."""
    forms: set[str] = set()
    for secret in secrets:
        raw = secret.encode("utf-8", "replace")
        forms |= {secret, repr(secret)[1:-1], ascii(secret)[1:-1], repr(raw)[2:-1]}
        for url in {quote(raw), quote(raw, safe=""), quote_plus(raw)}:
            forms |= {url, quote(url), _PERCENT.sub(lambda match: match[0].lower(), url)}
        page = escape(secret).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
        forms |= {page, escape(secret), escape(secret, quote=False)}
        for once in {json.dumps(secret, ensure_ascii=only)[1:-1] for only in (True, False)}:
            forms |= {once, once.replace("/", r"\/"), json.dumps(once, ensure_ascii=False)[1:-1]}
            forms.add(once.translate(_ESCAPED))
        if len(secret) >= LONG_SECRET:
            forms |= {secret.upper(), secret.lower(), raw.hex(), raw.hex().upper()}
            forms |= _base64(raw)
    known = _Known(sorted(forms - {""}, key=_by_length), {}, set())
    for form in known.forms:
        known.by_end.setdefault(form[-_SHORTEST_SECRET:], []).append(form)
    known.widths.update(map(len, known.by_end))
    return known


def _base64(raw: bytes) -> set[str]:
    """Return how Base64 writes these bytes: alone, and wherever they stand between others."""
    forms = {base64.b64encode(raw).decode().rstrip("=")}
    for lead in range(3):
        text = base64.b64encode(bytes(lead) + raw).decode()
        rest = (lead + len(raw)) % 3
        forms.add(text[(0, 2, 3)[lead] : len(text) - (0, 3, 2)[rest]])
    return forms | {form.replace("+", "-").replace("/", "_") for form in forms}


def _known_spans(text: str, known: _Known, left: _Left) -> list[Span] | None:
    """Find secrets that are known; None if that would take seconds: then all must be hidden."""
    if left.characters < 0:
        return None
    forms = known.forms if len(known.forms) <= _FEW_FORMS else _likely(text, known)
    work = len(forms) * (len(text) + _WORK_PER_FORM)
    left.characters -= work
    if work > _MOST_WORK or left.characters < 0:
        return None
    return [span for form in forms if form in text for span in _occurrences(form, text)]


def _occurrences(form: str, text: str) -> Iterator[Span]:
    """Find a secret in a text; a short one may be part of an innocent word."""
    at = text.find(form)
    while at >= 0:
        end = at + len(form)
        around = text[at - 1 : at] + text[end : end + 1] if at else text[end : end + 1]
        if len(form) >= LONG_SECRET or not any(
            letter.isalnum() or letter == "_" for letter in around
        ):
            yield at, end
            at = text.find(form, end)
        else:
            at = text.find(form, at + 1)


def _likely(text: str, known: _Known) -> list[str]:
    """Pick the few of many spellings that a text can hold, by its pieces of their ends' length."""
    by_end = known.by_end
    pieces = {text[at : at + wide] for wide in known.widths for at in range(len(text) - wide + 1)}
    return [form for end in by_end.keys() & pieces for form in by_end[end]]


_NAME_CHARACTERS: Final = f"{ascii_letters}{digits}_-."
_SEPARATOR = re.compile(
    r"(?:=>|:=|:(?![:/])|=(?!=)|[：＝])[ \t]{0,8}"
    r"|--(?P<option>[A-Za-z][\w-]{0,63}+)[\"']?,?[ \t]{1,4}(?=[\"']?[^\s\"',-])"
)
_VALUE = re.compile(
    r"(?P<open>[bBrRuUfF]{0,2}(?P<quote>\\{1,31}[\"']|\"{3}|'{3}|[\"']))"
    r"(?P<body>(?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n]))*+)"
    r"|[\[({][^\])}\r\n]*+[\])}]?"
    r"|(?:[^\s&;,]|,(?![\s\"']|[a-zA-Z_]\w{0,63}=))++"
)
_ELEMENT = re.compile(
    r"<(?P<name>[\w:.-]{1,64})(?:\s[^<>]{0,200})?>(?:<!\[CDATA\[)?(?P<body>[^<\]]++)"
)
_PAIR = re.compile(
    r"\([bBuU]?(?P<quote>[\"'])(?P<name>[\w.-]{1,64})(?P=quote),[ \t]{0,4}"
    r"[bBuU]?(?P<mark>[\"'])(?P<body>(?:\\[^\r\n]|(?!(?P=mark))[^\\\r\n])*+)"
)
_NOT_A_SECRET: Final = frozenset(("none", "null", "true", "false", "", MASK))


def _pair_spans(text: str) -> Iterator[Span]:
    """Find the value in each `name=value`, `"name": "value"` or `--name value` of such a name.

    And in `<name>value</name>` and `('name', 'value')`.
    """
    done = 0
    for separator in _SEPARATOR.finditer(text):
        if separator.start() < done:
            continue
        name = separator["option"] or _name_before(text, separator.start())
        if not is_secret_name(name):
            continue
        value = _VALUE.match(text, separator.end())
        if value is not None and not _is_empty(value):
            done = value.end()
            yield value.start() + len(value["open"] or ""), done
    for opener, pattern in (("<", _ELEMENT), ("(", _PAIR)):
        for match in pattern.finditer(text) if opener in text else ():
            if is_secret_name(match["name"]) and match["body"].strip().lower() not in _NOT_A_SECRET:
                yield match.span("body")


def _name_before(text: str, end: int) -> str:
    lead = text[max(0, end - _LONGEST_LEAD) : end].rstrip(" \t").removesuffix("]").rstrip("\\\"'")
    if lead.isascii():
        return lead[len(lead.rstrip(_NAME_CHARACTERS)) :]
    at = len(lead)
    while at and (
        lead[at - 1].isalnum() or lead[at - 1] in "_-." or unicodedata.combining(lead[at - 1])
    ):
        at -= 1
    return lead[at:]


def _is_empty(value: re.Match[str]) -> bool:
    body = value["body"] if value["quote"] else value[0].rstrip(")]},")
    return body.lower() in _NOT_A_SECRET


def safe_text(value: object, limit: int = 2000) -> str:
    """Turn anything into text that can be stored, whatever its `str()` does.

    Never raises: a `__str__` that fails is told in words, one that returns too much is cut
    with a note of how much is missing. The result encodes as UTF-8 and holds no NUL.
    """
    try:
        text = str(value)
        head, length = text[:limit], len(text)
    except Exception as error:  # noqa: BLE001 - user code
        head = f"<{type_name(value)} whose str() raised {type_name(error)}>"
        length = len(head)
    if length <= limit and head.isascii() and "\0" not in head:
        return head  # as nearly all of it is
    clean = head.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    more = length - len(head) + max(0, len(clean) - limit)
    return f"{clean[:limit]}… ({more} characters more)" if more else clean


def error_text(value: object, secrets: Sequence[str] = (), *, limit: int = 2000) -> str:
    """Turn an error into the text that is stored: safe, masked, then cut, in that order.

    Cut first, and half a secret could be left at the end, no longer recognised.
    """
    return safe_text(mask_text(safe_text(value, max(limit, _MASKED_AT_MOST)), secrets), limit)


def type_name(value: object) -> str:
    """Return the name of a value's type."""
    return type(value).__name__


inert = escaping.inert
"""Show what could drive a terminal as visible escapes; apart, because it is wanted without the rest."""
