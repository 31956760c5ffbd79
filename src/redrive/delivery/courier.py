"""Send requests to one endpoint, and turn its answers into results or errors.

Everything secret (the token, the signing secrets, the values of headers, the URL) stays in here: it is
in no job, and is taken out of every text that an error carries to the outside.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypedDict

from redrive.delivery import guard, hiding, signing, wire
from redrive.delivery.guard import Allowed
from redrive.delivery.wire import Deadline, Reply, Sent
from redrive.errors import GiveUp, NoAnswer, Redirected, TokenMissing, Undelivered, UsageError
from redrive.jobs import durations
from redrive.jobs.durations import Duration
from redrive.payloads.masking import mask_text, secrets_in

if TYPE_CHECKING:
    import ssl

    from redrive.payloads.strict_json import Json

_TOKEN: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[ -~]*")
_OURS: Final = frozenset(
    (
        *("Host", "Connection", "Content-Length", "Transfer-Encoding", "Accept-Encoding", "Expect"),
        *("Idempotency-Key", "Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"),
    )
)
_SUCCESS, _REDIRECT, _FAILURE = 200, 300, 400
_SHOWN = 500


class EndpointSettings(TypedDict, total=False):
    """The settings of an endpoint, in code or in a file."""

    url: str
    token_env: str
    """The environment variable with the bearer token; read when something is sent."""
    secret_env: str | Sequence[str]
    """The environment variables with signing secrets; two while one replaces the other."""
    headers: Mapping[str, str]
    key_field: str
    """Put the key into this field of the body, too."""
    idempotent: bool
    """True if sending twice does no harm: without an answer it is sent again, even without a key."""
    timeout: Duration
    """For everything together; 30 s."""
    allow: Sequence[str]
    """What is allowed besides https to public addresses; see `Allowed.read`."""
    ca_file: str | os.PathLike[str]
    """A file of certificate authorities to trust, instead of those of the system."""


class Courier:
    """Sends to one endpoint."""

    def __init__(self, name: str, settings: EndpointSettings) -> None:
        self.name = name
        try:
            self._read(settings)
        except UsageError as error:
            raise UsageError(f"endpoint {name!r}: {error}") from None

    def _read(self, settings: EndpointSettings) -> None:
        unknown = settings.keys() - EndpointSettings.__annotations__.keys()
        if unknown:
            msg = f"unknown settings: {', '.join(sorted(unknown))}; known: {', '.join(EndpointSettings.__annotations__)}"
            raise UsageError(msg)
        self._allowed = Allowed.read(_texts(settings.get("allow", ()), "allow"))
        self.url = _text(settings.get("url"), "url")
        self.target = guard.target_of(self.url, self._allowed)
        self._token_env = _text(settings.get("token_env", ""), "token_env")
        self._secret_env = _names(settings.get("secret_env", ()))
        ours = {*_OURS, "Authorization"} if self._token_env else _OURS
        self._headers = _headers(settings.get("headers", {}), ours)
        self.key_field = _text(settings.get("key_field", ""), "key_field")
        self._is_idempotent = bool(settings.get("idempotent", False))
        self._seconds = durations.positive(settings.get("timeout", 30.0), name="timeout")
        self._ca_file = settings.get("ca_file")

    def deliver(self, body: Json, *, ident: str, key: str | None) -> Reply:
        """Post a body; return the reply of a success, raise for everything else.

        `ident` names the message to a receiver who checks signatures; `key`, if there is one, goes
        out as `Idempotency-Key`.
        """
        if not all(_TOKEN.fullmatch(token) for token in (ident, key) if token is not None):
            msg = f"cannot send to {self.name}: the key may have visible ASCII characters only"
            raise GiveUp(msg)
        token, secrets = self._token(), self._secrets()
        headers = {"User-Agent": "redrive", "Content-Type": "application/json", **self._headers}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if key is not None:
            headers["Idempotency-Key"] = key
            if self.key_field and isinstance(body, dict):
                body = {**body, self.key_field: key}
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        if secrets:
            headers |= signing.sign(ident, data, secrets, time.time())
        reply = self._post(headers, data, may_repeat=key is not None or self._is_idempotent)
        if _SUCCESS <= reply.status < _REDIRECT:
            return reply
        ours = [token, *secrets, *map(signing.bare, secrets)]
        raise self._failure(reply, ours, secrets_in(body))

    def _post(self, headers: Mapping[str, str], data: bytes, *, may_repeat: bool) -> Reply:
        deadline, sent = Deadline(self._seconds), Sent()
        addresses = guard.checked(self.target, self._allowed, timeout=deadline.left())
        tls = self._tls if self.target.scheme == "https" else None
        try:
            return wire.post(
                self.target, addresses, headers, data, tls=tls, deadline=deadline, sent=sent
            )
        except OSError as error:
            if not sent.whole or may_repeat:
                raise
            msg = f"{self.name} received the whole request and sent no answer; it may have acted on it"
            raise NoAnswer(msg) from error

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return wire.context(None if self._ca_file is None else os.fspath(self._ca_file))

    def _token(self) -> str:
        return self._from_environment(self._token_env) if self._token_env else ""

    def _secrets(self) -> list[str]:
        secrets = {name: self._from_environment(name) for name in self._secret_env}
        for name, secret in secrets.items():
            if not signing.is_secret(secret):
                raise TokenMissing(f"cannot send to {self.name}: {name} must be {signing.SECRET}")
        return list(secrets.values())

    def _from_environment(self, name: str) -> str:
        value = os.environ.get(name, "").strip()
        if not _TOKEN.fullmatch(value):
            what = "may have visible ASCII characters only" if value else "is not set"
            msg = f"cannot send to {self.name}: the environment variable {name} {what}"
            raise TokenMissing(msg)
        return value

    def _failure(self, reply: Reply, secrets: Iterable[str], sent: Sequence[str]) -> Undelivered:
        hide = hiding.hider({*secrets, *hiding.secrets_in(self.target.path, self._headers)})
        headers = {name: hide(value) for name, value in reply.headers.items()}
        text = hide(_text_of(reply))
        kind = Redirected if _REDIRECT <= reply.status < _FAILURE else Undelivered
        shown = mask_text(text, sent)  # and only then cut: half a secret would not be recognised
        more = f": {shown[:_SHOWN]}" if text.strip() else ""
        msg = f"{self.name} answered {reply.status}{more}"
        return kind(msg, status_code=reply.status, headers=headers, body=text)


def _text_of(reply: Reply) -> str:
    """Return the body as text; empty if it is compressed or not text."""
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        return ""
    text = reply.body.decode("utf-8", "replace")
    return "" if "\0" in text else text


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text" if value is not None else f"{name} is missing")
    return value


def _texts(values: Iterable[object], name: str) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f'{name} must be a list, as in {name}=["…"]')
    return [_text(value, name) for value in values]


def _names(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else _texts(value, "secret_env")


def _headers(headers: Mapping[str, object], ours: Collection[str]) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise UsageError("headers must be a table of names and values")
    ready: dict[str, str] = {}
    for name, value in headers.items():
        title = _text(name, "the name of a header").title()
        if not _NAME.fullmatch(title) or title in ours or title in ready:
            raise UsageError(
                f"the header {name!r} is set by Redrive, used twice, or not a valid name; remove it"
            )
        ready[title] = _text(value, f"the header {name}")
        if not _VALUE.fullmatch(ready[title]):
            raise UsageError(f"the header {name} may only have visible ASCII characters and spaces")
    return ready
