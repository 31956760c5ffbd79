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
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from redrive._json import Json

MASK: Final = "•••"
"""What stands in place of a secret."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_ENDINGS: Final = tuple(
    _words(
        "password passwd passphrase passcode secret token apikey authkey privatekey accesskey"
        " secretkey cookie credential credentials sessionid"
    )
)
_SECRET_WORDS: Final = _words(
    "passwords pwd secrets authorization cookies creds dsn bearer jwt otp totp cvv cvc cvn iban ssn"
    " sessid phpsessid connectionstring cardnumber"
)
_SECRET_PAIRS: Final = frozenset(
    (first, last)
    for last, firsts in {
        "key": "api private access secret encryption signing master account shared ssh hmac"
        " session webhook auth service",
        "keys": "api private access secret encryption signing",
        "tokens": "access refresh auth api bearer session",
        "pass": "db database user admin smtp mail ftp redis mysql pg postgres",
        "auth": "basic",
        "id": "secret",
        "string": "connection",
        "number": "card",
    }.items()
    for first in _words(firsts)
)
# What is said about a secret is not the secret: token_type, password_changed_at, has_secret.
_ABOUT: Final = _words(
    "id ids name names type types kind count counts limit limits length size url uri endpoint"
    " env file path expiry expires expiration expired ttl age at in on policy enabled required"
    " used usage budget valid hint status error errors reset changed created updated rotated"
    " version format field prefix scope scopes method mode jar store cost price per max min"
    " present missing invalid alg algorithm"
)
_COUNTING: Final = _words("max min num total count no has is use with")
_CACHED_NAME: Final = 64
_SHORTEST_SECRET: Final = 4


def is_secret_name(key: str) -> bool:
    """Say whether a field of this name holds something to hide.

    Looks at the words of the name, however they are joined, so `apiKey`, `X-API-Key` and
    `DB_PASSWORD` are secret while `monkey`, `max_tokens` and `token_type` are not.
    """
    return _cached_secret_name(key) if len(key) <= _CACHED_NAME else _secret_name(key)


def _secret_name(key: str) -> bool:
    words = [word.lower() for word in _WORD.findall(key)]
    while words and words[-1].isdigit():
        words.pop()
    pairs = list(pairwise(words))
    if pairs and pairs[-1] in _SECRET_PAIRS:
        return True
    if not words or words[-1] in _ABOUT or words[0] in _COUNTING:
        return False
    # A PIN unlocks something only as the last word: pin_code is a postal code.
    return (
        words[-1] == "pin"
        or not _SECRET_WORDS.isdisjoint(words)
        or not _SECRET_PAIRS.isdisjoint(pairs)
        or any(word.endswith(_SECRET_ENDINGS) for word in words)
    )


_cached_secret_name = lru_cache(maxsize=2048)(_secret_name)


def mask_payload(value: Json) -> Json:
    """Copy a payload with everything secret in it hidden.

    Values under secret names are replaced whatever their type; all other text, keys too,
    is scrubbed of those values and of whatever looks like a secret.

    >>> mask_payload({"user": "ada", "password": "hunter22", "note": "try hunter22"})
    {'user': 'ada', 'password': '•••', 'note': 'try •••'}
    """
    return _masked(value, secrets_in(value))


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
    found = {text for text in _secrets(payload, under=False) if len(text) >= _SHORTEST_SECRET}
    return tuple(sorted(found, key=_by_length))


def _secrets(value: Json, *, under: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets(item, under=under or is_secret_name(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item, under=under)
    elif under and not (value is None or isinstance(value, bool)):
        yield value if isinstance(value, str) else json.dumps(value)


def mask_text(text: str, secrets: Sequence[str] = ()) -> str:
    """Hide these secrets, and whatever looks like one, in text.

    Masking twice gives what masking once gives.

    >>> mask_text("GET https://ada:pw@db.example/?sig=abc said sk-ant-0123456789")
    'GET https://ada:•••@db.example/?sig=••• said •••'
    """
    # A password that is the word "password" goes last: it would hide the names of others.
    text = _mask_secrets(text, [secret for secret in secrets if not is_secret_name(secret)])
    # Most text holds none of the fixed parts of a rule; looking for those is cheap.
    lowered = _lower(text)
    for hints, mask in _RULES:
        if any(map(lowered.__contains__, hints)):
            text = mask(text)
    text = _mask_pairs(text, _lower(text))
    return _mask_secrets(text, [secret for secret in secrets if is_secret_name(secret)])


def _lower(text: str) -> str:
    # U+0130 is the one character that gets longer in lower case; offsets must stay the same.
    return text.replace("\u0130", "i").lower()


_ANYWHERE: Final = 8


def _mask_secrets(text: str, secrets: Sequence[str]) -> str:
    for form in sorted({form for secret in secrets for form in _forms(secret)}, key=_by_length):
        if form not in text:
            continue
        if len(form) >= _ANYWHERE:
            text = text.replace(form, MASK)
        else:  # a short one may be part of an innocent word
            text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", MASK, text)
    return text


def _by_length(text: str) -> tuple[int, str]:
    return (-len(text), text)


def _forms(secret: str) -> set[str]:
    """List how a secret may be spelled in text: as it is, quoted, or in a URL."""
    if secret.isalnum():
        return {secret}
    plain = secret.encode("utf-8", "replace").decode()
    in_text = {secret, repr(secret)[1:-1], *(_quoted(secret, ascii_only=a) for a in (True, False))}
    return (in_text | {quote(plain), quote(plain, safe=""), quote_plus(plain)}) - {""}


def _quoted(secret: str, *, ascii_only: bool) -> str:
    return json.dumps(secret, ensure_ascii=ascii_only)[1:-1]


def _mask_scheme(match: re.Match[str]) -> str:
    # "Basic authentication failed" and "Bearer token" are prose, not credentials.
    word = match["credential"]
    prose = word.isalpha() and len(word) < 16 and (word.islower() or word.istitle())  # noqa: PLR2004
    return match[0] if prose else f"{match['head']}{MASK}"


def _mask_option(match: re.Match[str]) -> str:
    return f"{match['head']}{MASK}" if is_secret_name(match["name"]) else match[0]


_Replacement: TypeAlias = "str | Callable[[re.Match[str]], str]"
_KEEP_HEAD: Final = rf"\g<head>{MASK}"


def _rule(
    hints: str, *pattern: str, to: _Replacement = MASK
) -> tuple[list[str], Callable[[str], str]]:
    return hints.split(), partial(re.compile("".join(pattern)).sub, to)


# Each pattern either has a bounded lead or consumes what it has scanned (possessive
# repeats), so no text makes it start over from every character.
_RULES: Final = (
    _rule(
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[ A-Z]{0,10}-----",
        r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,60}-----|\Z)",
    ),
    _rule(
        "authorization cookie",
        r"(?im)^(?P<head>[ \t<>*]{0,8}(?:(?:proxy-)?authorization|(?:set-)?cookie)[ \t]{0,4}:",
        r"[ \t]{0,4})[^\s][^\r\n]*+",
        to=_KEEP_HEAD,
    ),
    _rule("cookie:", r"(?i)(?P<head>cookie:[ \t]{0,4})[^\s=;]{1,256}=[^\r\n]*+", to=_KEEP_HEAD),
    _rule(
        "authorization",
        r"(?i)(?P<head>authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?)",
        r"(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256) [^\r\n\"']*+",
        to=_KEEP_HEAD,
    ),
    _rule(
        "bearer basic",
        r"(?i)\b(?P<head>(?:bearer|basic)(?:\s{1,4}|%20))(?P<credential>[\w.~+/=%-]{4,}+)",
        to=_mask_scheme,
    ),
    _rule(
        r":// :\/",
        r"(?P<head>:\\?/\\?/[^\s/?#:@\"']{0,256}:)",
        r"(?:[^\s/?#\"']*@|(?!\d{1,5}[/?#])[^\s\"'<>]{0,256}@)",
        to=rf"{_KEEP_HEAD}@",
    ),
    _rule(
        "sig key=",
        r"(?i)(?P<head>[?&](?:[\w.-]{0,40}(?:sig|signature)|key)=)[^&\s#\"'<>]++",
        to=_KEEP_HEAD,
    ),
    _rule(
        "hooks.slack.com discord",
        r"(?i)(?P<head>(?:hooks\.slack\.com/\w{1,20}|discord(?:app)?\.com/api/webhooks)/)[\w/-]++",
        to=_KEEP_HEAD,
    ),
    _rule(
        "--",
        r"(?P<head>--(?P<name>[A-Za-z][\w-]{0,63}+)[\"']?,?[ \t]{1,4}[\"']?)[^\s\"',-][^\s\"',]*+",
        to=_mask_option,
    ),
    _rule(
        "sk- sk_ rk_ whsec_ ghp_ gho_ ghu_ ghs_ ghr_ _pat_ glpat-",
        r"\b(?:sk-[\w*-]{8,}+|[sr]k_(?:live|test)_\w{8,}+|whsec_[\w+/=-]{8,}+",
        r"|gh[pousr]_\w{16,}+|github_pat_\w{16,}+|glpat-[\w-]{16,}+)",
    ),
    _rule(
        "xox xapp- akia asia aiza ya29. hf_ sg.",
        r"\b(?:xox[a-z]-[\w-]{8,}+|xapp-[\w-]{8,}+|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}+",
        r"|ya29\.[\w-]{16,}+|hf_\w{30,}+|SG\.[\w-]{16,64}\.[\w-]{16,}+)",
    ),
    _rule("eyj", r"eyJ[\w-]{12,}+(?:\.[\w-]*+){0,4}+"),
)

# Every secret name contains one of these, so a text without them needs no closer look.
_ROOTS: Final = tuple(
    _words(
        "pass pwd secret token key auth cookie cred dsn bearer jwt otp cv iban ssn sess pin"
        " connection card"
    )
)
_NAME_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789_-."
_AFTER_ROOT = re.compile(
    r"(?P<tail>[a-z0-9_.-]{0,64}+)(?:\\{0,4}[\"'])?\]?[ \t]{0,8}(?:=>|:=|:(?![:/])|=(?!=))[ \t]{0,8}"
)
_VALUE = re.compile(
    r"(?P<open>[bBrRuUfF]{0,2}(?P<quote>\\+[\"']|\"{3}|'{3}|[\"']))"
    r"(?P<body>(?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n]))*+)"
    r"|[\[({][^\])}\r\n]*+[\])}]?"
    r"|(?:[^\s&;,]|,(?![\s\"']|[a-zA-Z_]\w{0,63}=))++"
)
_NOT_A_SECRET: Final = frozenset(("none", "null", "true", "false", "", MASK))


def _mask_pairs(text: str, lowered: str) -> str:
    """Hide the value of each `name=value`, `name: value`, `"name": "value"` with such a name."""
    pieces: list[str] = []
    done = 0
    for root_end, start in sorted(_root_places(lowered)):
        if start < done:
            continue
        after = _AFTER_ROOT.match(lowered, root_end)
        if after is None or not is_secret_name(_name_at(text, lowered, start, after.end("tail"))):
            continue
        value = _VALUE.match(text, after.end())
        if value is not None and not _is_empty(value):
            pieces += (text[done : value.start()], value["open"] or "", MASK)
            done = value.end()
    return "".join((*pieces, text[done:])) if pieces else text


def _root_places(lowered: str) -> Iterator[tuple[int, int]]:
    for root in _ROOTS:
        start = lowered.find(root)
        while start >= 0:
            yield start + len(root), start
            start = lowered.find(root, start + len(root))


def _name_at(text: str, lowered: str, start: int, end: int) -> str:
    lead = lowered[max(0, start - _CACHED_NAME) : start]
    return text[start - (len(lead) - len(lead.rstrip(_NAME_CHARACTERS))) : end]


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
        head, length = str.__getitem__(text, slice(0, limit)), str.__len__(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - user code may raise anything at all
        head = f"<{type_name(value)} whose str() raised {type_name(error)}>"
        length = len(head)
    clean = head.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    more = length - len(head) + max(0, len(clean) - limit)
    return f"{clean[:limit]}… ({more} characters more)" if more else clean


_MASKED_AT_MOST: Final = 262_144


def error_text(value: object, secrets: Sequence[str] = (), *, limit: int = 2000) -> str:
    """Turn an error into the text that is stored: safe, masked, then cut, in that order.

    Cut first, and half a secret could be left at the end, no longer recognised.
    """
    return safe_text(mask_text(safe_text(value, max(limit, _MASKED_AT_MOST)), secrets), limit)


def type_name(value: object) -> str:
    """Name the type of anything, without asking a metaclass that may have other ideas."""
    return str.__str__(_TYPE_NAME.__get__(type(value)))


_TYPE_NAME: Final = type.__dict__["__name__"]
_DRIVING: Final = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: escape sequences, carriage return, bell
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction marks, overrides, isolates
    "\u00ad\u180e\u200b-\u200d\u2060-\u2065\ufeff\ufff9-\ufffb"  # without width
    "\u2028\u2029\ud800-\udfff\U000e0000-\U000e007f"  # separators, surrogates, tags
)
_NOT_INERT = re.compile(f"[{_DRIVING}]")
_NOT_INERT_IN_LINES = re.compile(f"(?![\n\t])[{_DRIVING}]")
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def inert(text: str, *, keep_newlines: bool = False) -> str:
    r"""Show what could drive a terminal, or forge a line of a log, as visible escapes.

    >>> inert("ok\x1b[2J\nroot: granted")
    'ok\\x1b[2J\\nroot: granted'
    """
    if text.isprintable():
        return text
    return (_NOT_INERT_IN_LINES if keep_newlines else _NOT_INERT).sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if code > 0xFF:  # noqa: PLR2004 - beyond what two hexadecimal digits can say
        return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
    return _SHORT_ESCAPES.get(character, f"\\x{code:02x}")
