"""Which fields and environment variables hold secrets, by their names.

Our own names, in a dozen languages, and those that the user adds.
"""

from __future__ import annotations

import os
import re
import unicodedata
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from redrive.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_NAME = re.compile(
    r"(?:pass_?word|passwd|pass_?phrase|pass_?code|secret|token|(?:api|auth|private|access|secret)key"
    r"|cookie|credentials?|sessionid|passwort|kennwort|passord|mot_?de_?passe|contrasena|senha"
    r"|wachtwoord|salasana|lozinka|adgangskode|mnemonic|seed_?phrase)(?![a-z])"
    r"|(?<![a-z])(?:pass_?words|pwd|pw|credit_?card|(?:mfa|2_?fa|verification|one_?time|security)_(?:code|answer)|secrets|authorization|cookies|creds|dsn|bearer|jwt|t?otp|cv[cnv]"
    r"|iban|ssn|(?:php)?sessid|connection_?string|card_?number|basic_auth|secret_id"
    r"|(?:api|private|access|secret|encryption|signing|master|account|shared|ssh|hmac|session"
    r"|webhook|auth|service)_keys?|(?:access|refresh|auth|api|bearer|session)_tokens"
    r"|(?:recovery|backup)_(?:phrase|codes?)|heslo|haslo|sifre|losenord|parola"
    r"|(?:db|database|user|admin|old|new|smtp|mail|ftp|redis|mysql|pg|postgres)_pass)(?![a-z])"
    r"|(?<![a-z])pin$"  # only as the last word: pin_code is a postal code
    r"|^pass$"  # only alone: a boarding_pass is none
)
# That of a cookie or header. Programs that write sessionId mostly mean one of their own records.
_SESSION_ID = re.compile(r"(?i)(?<![a-z])session[_.-]id[0-9]*$")
# A URL of one of these mostly has its password in it.
_SECRET_URL = re.compile(
    r"(?<![a-z])(?:database|db|redis|mongo(?:db)?|postgres(?:ql)?|mysql|amqp|rabbitmq|broker)_ur[il]$"
)
FOREIGN: Final = (
    *("パスワード", "暗証番号", "合言葉", "密码", "密碼", "口令", "비밀번호", "암호", "пароль"),
    *("contraseña", "lösenord", "hasło", "jelszó", "şifre", "κωδικός", "סיסמה", "كلمة المرور"),
    *("كلمة السر", "รหัสผ่าน", "mật khẩu", "mật_khẩu", "पासवर्ड", "トークン", "シークレット"),
)
"""Words for a password in names that are not written in ASCII."""
# What is said about a secret is not the secret: token_type, password_changed_at, has_secret.
_ABOUT_SECRET = re.compile(
    r"^(?:max|min|num|total|count|no|has|is|use|with)_"
    r"|_(?:ids?(?<!secret_id)|names?|types?|kind|counts?|limits?|length|size|url|uri|endpoint|env"
    r"|file|path|expiry|expires|expiration|expired|ttl|age|at|in|on|policy|enabled|required|used"
    r"|usage|budget|valid|hint|status|errors?|reset|changed|created|updated|rotated|version|format"
    r"|field|prefix|scopes?|method|mode|jar|store|cost|price|per|max|min|present|missing|invalid"
    r"|alg|algorithm)$"
)
_LONGEST_NAME: Final = 64


def is_secret_name(key: str) -> bool:
    """Return True if a field of this name holds something to hide.

    Looks at the words of the name, however they are joined, so `apiKey`, `X-API-Key` and
    `DB_PASSWORD` are secret while `monkey`, `max_tokens` and `token_type` are not.
    """
    return _says_secret(key[-_LONGEST_NAME:] if key.isascii() else _plain(key)[-_LONGEST_NAME:])


@lru_cache(maxsize=2048)
def _says_secret(key: str) -> bool:
    if not key.isascii() and _says_secret_abroad(key):
        return True
    name = _joined(key)
    if more and not more.isdisjoint(_endings(name)):
        return True
    if _SECRET_URL.search(name) or _SESSION_ID.search(key):
        return True
    return bool(_SECRET_NAME.search(name)) and not _ABOUT_SECRET.search(name)


def _says_secret_abroad(key: str) -> bool:
    """Return True if a name that is not ASCII has a word for a password in it, or one of the user's."""
    name = key.casefold()
    return any(word in name for word in FOREIGN) or any(
        not word.isascii() and word in name for word in more
    )


def _plain(key: str) -> str:
    """Write a name as it looks: wide letters as the usual ones, without characters nobody sees."""
    visible = (letter for letter in key if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", "".join(visible))


def _endings(name: str) -> list[str]:
    """Return the last words of a name, more and more of them, written together."""
    words = name.split("_")
    return ["".join(words[at:]) for at in range(len(words))]


def _joined(key: str) -> str:
    """Write the words of a name in small letters, joined by `_`."""
    return "_".join(_WORD.findall(key)).lower().rstrip("_0123456789")


more: set[str] = set()
"""Names that the user calls secret, in small letters and written together."""


def add_secret_names(names: Iterable[str]) -> None:
    """Mask fields of these names too, in this process: `kundennummer` also means `alteKundenNummer`."""
    known = len(more)
    for name in names:
        plain = _plain(name)
        bare = _joined(plain).replace("_", "") if plain.isascii() else plain.casefold()
        if not bare:
            raise UsageError(
                f"a secret name must have letters in it, such as 'customer_number'; found {name!r}"
            )
        more.add(bare)
    if len(more) > known:
        _says_secret.cache_clear()


LONG_SECRET: Final = 8
_PLAIN_WORD: Final = 16
"""A value of letters only in the environment is taken for a secret from this length on."""
_URL_PASSWORD = re.compile(r"://[^\s/?#:@]{0,256}:([^\s/?#@]{4,256})@")
_URL_USER = re.compile(r"://([^\s/?#@]{4,512})@")
_JOINT = re.compile(r"[\s;,&=]|://")
_PART = re.compile(r"(?<![^\s;,&])(?:[^\s;,&=]{1,64}=)?([^\s;,&]++)")
_MOST_PARTS: Final = 64  # the lines of a long private key are fewer
_DIRECTORIES: Final = ("PWD", "OLDPWD")


_environment: tuple[object, tuple[str, ...]] = ({}, ())


def environment() -> tuple[str, ...]:
    """Collect the values of environment variables that are secret, longest first."""
    global _environment  # noqa: PLW0603 - what was read last
    # The variables as the system has them: comparing these is 30 times as fast as reading them.
    raw: Mapping[bytes, bytes] = vars(os.environ).get("_data", {})
    if raw != _environment[0]:
        secrets = {word for name, value in os.environ.items() for word in _secrets_of(name, value)}
        _environment = dict(raw), tuple(sorted(secrets, key=len, reverse=True))
    return _environment[1]


def _secrets_of(name: str, value: str) -> Iterator[str]:
    """Yield what is secret in one variable; a plain word such as `postgres` would hide half a log."""
    match = _URL_PASSWORD.search(value)
    named = is_secret_name(name) and name not in _DIRECTORIES and not os.path.exists(value)  # noqa: PTH110
    candidates = (value if named else "", match[1] if match else "")
    yield from filter(_is_no_word, candidates)


def _is_no_word(text: str) -> bool:
    return len(text) >= LONG_SECRET and not (text.strip("-").isalpha() and len(text) < _PLAIN_WORD)


def parts_of(secret: str) -> Iterator[str]:
    """Yield what of a secret is secret by itself, because an error may repeat only that.

    The token of `Bearer TOKEN`, the value of `name=VALUE`, the password of a URL, a line of a key.
    """
    if not _JOINT.search(secret):
        return iter(())  # as most are
    parts = [match[1] for match in islice(_PART.finditer(secret), _MOST_PARTS)]
    users = islice(_URL_USER.finditer(secret), _MOST_PARTS)
    passwords = [match[1].rpartition(":")[2] for match in users]
    return filter(_is_no_word, (*parts, *passwords))
