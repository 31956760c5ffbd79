"""Masking: what must not be read by others is hidden, what could drive a terminal is shown.

Two ways to find a secret: by name (a field or a `name=value` pair whose name says so) and by
shape (keys of well-known services, tokens, URLs with passwords). A secret found in a payload
is also masked wherever it recurs in other text. Everything here is linear in the length of
the text, because the text of an error is written by strangers. Payloads themselves are
stored as given; these functions serve every view, log, event, alert and stored error.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from string import ascii_letters, digits
from types import NoneType
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, quote_plus

from redrive import _inert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redrive._json import Json

MASK: Final = "•••"
"""What stands in place of a secret."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_NAME = re.compile(
    r"(?:password|passwd|passphrase|passcode|secret|token|(?:api|auth|private|access|secret)key"
    r"|cookie|credentials?|sessionid)(?![a-z])"
    r"|(?<![a-z])(?:passwords|pwd|secrets|authorization|cookies|creds|dsn|bearer|jwt|t?otp|cv[cnv]"
    r"|iban|ssn|(?:php)?sessid|connection_?string|card_?number|basic_auth|secret_id"
    r"|(?:api|private|access|secret|encryption|signing|master|account|shared|ssh|hmac|session"
    r"|webhook|auth|service)_keys?|(?:access|refresh|auth|api|bearer|session)_tokens"
    r"|(?:db|database|user|admin|smtp|mail|ftp|redis|mysql|pg|postgres)_pass)(?![a-z])"
    r"|(?<![a-z])pin$"  # only as the last word: pin_code is a postal code
)
# What is said about a secret is not the secret: token_type, password_changed_at, has_secret.
_ABOUT_SECRET = re.compile(
    r"^(?:max|min|num|total|count|no|has|is|use|with)_"
    r"|_(?:ids?(?<!secret_id)|names?|types?|kind|counts?|limits?|length|size|url|uri|endpoint|env"
    r"|file|path|expiry|expires|expiration|expired|ttl|age|at|in|on|policy|enabled|required|used"
    r"|usage|budget|valid|hint|status|errors?|reset|changed|created|updated|rotated|version|format"
    r"|field|prefix|scopes?|method|mode|jar|store|cost|price|per|max|min|present|missing|invalid"
    r"|alg|algorithm)$"
)
_decode = json.JSONDecoder().raw_decode
_FLAT: Final = (str, int, float, NoneType)
_LONGEST_NAME: Final = 64
_LONGEST_LEAD: Final = 80
_SHORTEST_SECRET: Final = 4
_LONG_SECRET: Final = 8
_MASKED_AT_MOST: Final = 262_144
_FEW_FORMS: Final = 200
_MOST_WORK: Final = 200_000_000
"""Characters looked at for one text, over all spellings of all secrets: a fifth of a second."""


def is_secret_name(key: str) -> bool:
    """Say whether a field of this name holds something to hide.

    Looks at the words of the name, however they are joined, so `apiKey`, `X-API-Key` and
    `DB_PASSWORD` are secret while `monkey`, `max_tokens` and `token_type` are not.
    """
    return _says_secret(key[-_LONGEST_NAME:])


@lru_cache(maxsize=2048)
def _says_secret(key: str) -> bool:
    name = "_".join(_WORD.findall(key)).lower().rstrip("_0123456789")
    return bool(_SECRET_NAME.search(name)) and not _ABOUT_SECRET.search(name)


def mask_payload(value: Json, more: Sequence[str] = ()) -> Json:
    """Copy a payload with everything secret in it hidden, and these secrets too.

    Values under secret names are replaced whatever their type; all other text, keys too,
    is scrubbed of those values and of whatever looks like a secret.

    >>> mask_payload({"user": "ada", "password": "hunter22", "note": "try hunter22"})
    {'user': 'ada', 'password': '•••', 'note': 'try •••'}
    """
    return _masked(value, (*secrets_in(value), *more))


def mask_json(text: str) -> str:
    """Do the same to a payload as it is stored; what hides nothing comes back as it was."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return mask_text(text)
    masked = mask_payload(value)
    return text if masked == value else json.dumps(masked, ensure_ascii=False)


def _masked(value: Json, secrets: Sequence[str]) -> Json:
    if isinstance(value, str):
        return mask_text(value, secrets)
    if isinstance(value, dict):
        return {
            mask_text(key, secrets): MASK if is_secret_name(key) else _masked(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(item, secrets) for item in value]
    return value


def secrets_in(payload: Json) -> tuple[str, ...]:
    """Collect the values under secret names, longest first, to mask them elsewhere.

    Text and numbers of at least four characters; shorter ones would blot out half a log.
    """
    found: set[str] = set()
    _collect(payload, False, found)
    return tuple(sorted(found, key=_by_length))


def secrets_of(text: str) -> tuple[str, ...]:
    """Do the same for a payload as it is stored; what is not JSON has none that can be told."""
    try:
        value, end = _decode(text)  # as we write it; `loads` would look for white space around it
        return secrets_in(value if end == len(text) else json.loads(text))
    except (ValueError, RecursionError):
        return ()


def _collect(value: Json, under: bool, found: set[str]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            hidden = under or is_secret_name(key)
            if hidden or not isinstance(item, _FLAT):  # most hide nothing
                _collect(item, hidden, found)
    elif isinstance(value, list | tuple):
        for item in value:
            if under or not isinstance(item, _FLAT):
                _collect(item, under, found)
    elif under and not (value is None or isinstance(value, bool)):
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) >= _SHORTEST_SECRET:
            found.add(text)


def _by_length(text: str) -> tuple[int, str]:
    return (-len(text), text)


def mask_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Hide these secrets, and whatever looks like one, in text.

    Masking twice gives what masking once gives.

    >>> mask_text("GET https://ada:pw@db.example/?sig=abc said sk-ant-0123456789")
    'GET https://ada:•••@db.example/?sig=••• said •••'
    """
    # A password that is the word "password" goes last: it would hide the names of others.
    if not secrets:
        return _mask_unknown(text)
    first, last = _spellings(tuple(secrets))
    return _mask_known(_mask_unknown(_mask_known(text, first)), last)


@lru_cache(maxsize=16)  # failures of one cause carry the same traceback
def _mask_unknown(text: str) -> str:
    # Most text holds none of the fixed parts of a rule, and looking for those is cheap.
    small = text.lower()
    for fixed in _FIXED:
        if fixed in small:
            break
    else:
        return text
    has = small.__contains__
    for hints, shape in _SHAPES:
        if any(map(has, hints)):
            text = shape.sub(rf"\g<head>{MASK}", text)
    return _mask_pairs(text) if any(map(has, _ROOTS)) else text


class _Known(NamedTuple):
    """How secrets may be spelled in text, longest first."""

    forms: list[str]
    by_end: dict[str, list[str]]
    """By their last characters: keys of one service begin alike."""


@lru_cache(maxsize=8)
def _spellings(secrets: tuple[str, ...]) -> tuple[_Known, _Known]:
    """List how secrets may be spelled in text; those that are names apart."""
    found: tuple[set[str], set[str]] = (set(), set())
    for secret in secrets:
        raw = secret.encode("utf-8", "replace")
        forms = found[is_secret_name(secret)]
        forms |= {secret, repr(secret)[1:-1], quote(raw), quote(raw, safe=""), quote_plus(raw)}
        forms |= {json.dumps(secret, ensure_ascii=only)[1:-1] for only in (True, False)}
    first, last = (_known(forms - {""}) for forms in found)
    return first, last


def _known(forms: set[str]) -> _Known:
    known = _Known(sorted(forms, key=_by_length), {})
    for form in known.forms:
        known.by_end.setdefault(form[-_SHORTEST_SECRET:], []).append(form)
    return known


def _mask_known(text: str, known: _Known) -> str:
    forms = known.forms if len(known.forms) <= _FEW_FORMS else _likely(text, known.by_end)
    if len(forms) * len(text) > _MOST_WORK:
        return MASK  # to look for them all would take seconds, and to leave one is worse
    for form in forms:
        if form in text and len(form) >= _LONG_SECRET:
            text = text.replace(form, MASK)
        elif form in text:  # a short one may be part of an innocent word
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", MASK, text)
    return text


def _likely(text: str, by_end: dict[str, list[str]]) -> list[str]:
    """Pick the few of many spellings that a text can hold, by its pieces of their ends' length."""
    widths = {len(end) for end in by_end}
    pieces = {text[at : at + wide] for wide in widths for at in range(len(text) - wide + 1)}
    return sorted((form for end in by_end.keys() & pieces for form in by_end[end]), key=_by_length)


# Each pattern either has a bounded lead or consumes what it has scanned (possessive
# repeats), so no text makes it start over from every character.
_SHAPES: Final = tuple(
    (hints.split(), re.compile(pattern))
    for hints, pattern in {
        "-----begin": r"(?P<head>)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[ A-Z]{0,10}-----"
        r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,60}-----|\Z)",
        # A header is hidden to its closing quote, or to the end of its line.
        "authorization cookie": r"(?i)(?P<head>(?:authorization[\"']?[:=]|cookie[\"']?:)"
        r"[ \t]{0,4}(?P<quoted>[\"'])?)(?=[^\s=;,]{1,256}="
        r"|(?:bearer|basic|digest|token|negotiate|apikey|aws4[\w-]{0,20}) )"
        r"(?(quoted)[^\r\n\"']*+|[^\r\n]*+)",
        # Not a short word in small letters: "Basic authentication failed" is prose.
        "bearer basic": r"\b(?P<head>(?i:bearer|basic)(?:\s{1,4}|%20))"
        r"(?![A-Za-z][a-z]{0,14}(?![\w.~+/=%-]))[\w.~+/=%-]{4,}+",
        r":// :\/": r"(?P<head>:\\?/\\?/[^\s/?#:@\"']{0,256}:)"
        r"(?:[^\s/?#\"']*|(?!\d{1,5}[/?#])[^\s\"'<>]{0,256})(?=@)",
        "sig key=": r"(?i)(?P<head>[?&](?:[\w.-]{0,40}(?:sig|signature)|key)=)[^&\s#\"'<>]++",
        "hooks.slack.com discord": r"(?i)(?P<head>(?:hooks\.slack\.com/\w{1,20}"
        r"|discord(?:app)?\.com/api/webhooks)/)[\w/-]++",
        "sk- sk_ rk_ whsec_ ghp_ gho_ ghu_ ghs_ ghr_ _pat_ glpat- xox xapp- akia asia aiza ya29."
        " hf_ sg. eyj": r"(?P<head>)(?:\b(?:sk-[\w*-]{8,}+|[sr]k_(?:live|test)_\w{8,}+"
        r"|whsec_[\w+/=-]{8,}+|gh[pousr]_\w{16,}+|github_pat_\w{16,}+|glpat-[\w-]{16,}+"
        r"|xox[a-z]-[\w-]{8,}+|xapp-[\w-]{8,}+|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}+"
        r"|ya29\.[\w-]{16,}+|hf_\w{30,}+|SG\.[\w-]{16,64}\.[\w-]{16,}+)"
        r"|eyJ[\w-]{12,}+(?:\.[\w-]*+){0,4}+)",
    }.items()
)
# Every secret name contains one of these, so a text without them needs no closer look.
_ROOTS: Final = (
    *("pass", "pwd", "secret", "token", "key", "auth", "cookie", "cred", "dsn", "bearer", "jwt"),
    *("otp", "cv", "iban", "ssn", "sessi", "pin", "string", "card"),
)
_FIXED: Final = (*(hint for hints, _ in _SHAPES for hint in hints), *_ROOTS)
_NAME_CHARACTERS: Final = f"{ascii_letters}{digits}_-."
_SEPARATOR = re.compile(
    r"(?:=>|:=|:(?![:/])|=(?!=))[ \t]{0,8}"
    r"|--(?P<option>[A-Za-z][\w-]{0,63}+)[\"']?,?[ \t]{1,4}(?=[\"']?[^\s\"',-])"
)
_VALUE = re.compile(
    r"(?P<open>[bBrRuUfF]{0,2}(?P<quote>\\+[\"']|\"{3}|'{3}|[\"']))"
    r"(?P<body>(?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n]))*+)"
    r"|[\[({][^\])}\r\n]*+[\])}]?"
    r"|(?:[^\s&;,]|,(?![\s\"']|[a-zA-Z_]\w{0,63}=))++"
)
_NOT_A_SECRET: Final = frozenset(("none", "null", "true", "false", "", MASK))


def _mask_pairs(text: str) -> str:
    """Hide the value in each `name=value`, `"name": "value"` or `--name value` of such a name."""
    pieces: list[str] = []
    done = 0
    for separator in _SEPARATOR.finditer(text):
        name = separator["option"] or _name_before(text, separator.start())
        if separator.start() < done or not is_secret_name(name):
            continue
        value = _VALUE.match(text, separator.end())
        if value is not None and not _is_empty(value):
            pieces += (text[done : value.start()], value["open"] or "", MASK)
            done = value.end()
    return "".join((*pieces, text[done:]))


def _name_before(text: str, end: int) -> str:
    lead = text[max(0, end - _LONGEST_LEAD) : end].rstrip(" \t").removesuffix("]").rstrip("\\\"'")
    return lead[len(lead.rstrip(_NAME_CHARACTERS)) :]


def _is_empty(value: re.Match[str]) -> bool:
    body = value["body"] if value["quote"] else value[0].rstrip(")]},")
    return body.lower() in _NOT_A_SECRET


def safe_text(value: object, limit: int = 2000) -> str:
    """Turn anything into text that can be stored, whatever its `str()` does.

    Never raises: a `__str__` that fails is told in words, one that returns too much is cut
    with a note of how much is missing. The result encodes as UTF-8 and holds no NUL.
    """
    if type(value) is str and len(value) <= limit and value.isascii() and "\0" not in value:
        return value  # as nearly all of it is
    try:
        text = str(value)
        if type(text) is str and len(text) <= limit and text.isascii() and "\0" not in text:
            return text
        head, length = str.__getitem__(text, slice(0, limit)), str.__len__(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code may raise anything at all
        head = f"<{type_name(value)} whose str() raised {type_name(error)}>"
        length = len(head)
    clean = head.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    more = length - len(head) + max(0, len(clean) - limit)
    return f"{clean[:limit]}… ({more} characters more)" if more else clean


def error_text(value: object, secrets: Sequence[str] = (), *, limit: int = 2000) -> str:
    """Turn an error into the text that is stored: safe, masked, then cut, in that order.

    Cut first, and half a secret could be left at the end, no longer recognised.
    """
    return safe_text(mask_text(safe_text(value, max(limit, _MASKED_AT_MOST)), secrets), limit)


def type_name(value: object) -> str:
    """Name the type of anything, without asking a metaclass that may have other ideas."""
    return str.__str__(type.__dict__["__name__"].__get__(type(value)))


inert = _inert.inert
"""Show what could drive a terminal as visible escapes; apart, because it is wanted without the rest."""
