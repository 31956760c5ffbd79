"""Messages as e-mail: plain text, over TLS unless the server is this machine."""

from __future__ import annotations

import smtplib
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

from redrive.alerts.channels import SECONDS, Mode, environment
from redrive.alerts.messages import Message
from redrive.errors import Undelivered, UsageError
from redrive.jobs import durations
from redrive.jobs.durations import Duration
from redrive.payloads.masking import mask_text

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_TLS_PORT = 465
_LOWEST, _HIGHEST = 400, 600
_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """A mail server, the sender and the recipients."""

    to: Sequence[str] | str
    sender: str
    host: str = "localhost"
    port: int = 0
    """0: 25 on this machine, 587 elsewhere. On 465 TLS is used from the start, else STARTTLS."""
    user_env: str = ""
    password_env: str = ""
    name: str = "email"
    timeout: Duration = SECONDS
    ca_file: str | None = None
    mode: Mode = "groups"

    def __post_init__(self) -> None:
        object.__setattr__(self, "to", (self.to,) if isinstance(self.to, str) else tuple(self.to))
        durations.positive(self.timeout, name="timeout")
        if bool(self.user_env) != bool(self.password_env):
            raise UsageError(f"channel {self.name}: set both user_env and password_env, or neither")
        try:
            addressed = self._addressed()
        except ValueError as error:
            raise UsageError(f"channel {self.name}: an address is not valid: {error}") from None
        if not self.to or not all("@" in str(addressed[name]) for name in ("To", "From")):
            msg = f"channel {self.name}: to and sender must be addresses such as ops@example.org"
            raise UsageError(msg)

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables it reads."""
        return tuple(name for name in (self.user_env, self.password_env) if name)

    def send(self, message: Message, *, ident: str) -> str:
        """Send it to the server; the answer names recipients that were refused."""
        mail = self._written(message, ident)
        secrets = [environment(self.name, name) for name in self.variables]
        try:
            with self._connected() as server:
                if secrets:
                    server.login(*secrets)
                refused = server.send_message(mail)
        except smtplib.SMTPResponseException as error:
            answer = error.smtp_error
            text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
            raise self._failed(f"{error.smtp_code} {text}", secrets, error.smtp_code) from None
        except smtplib.SMTPRecipientsRefused as error:
            raise self._failed(
                f"the server refused all recipients: {error.recipients}", secrets
            ) from None
        except smtplib.SMTPException as error:
            raise self._failed(str(error), secrets) from None
        except OSError as error:
            raise self._failed(f"{self.host} cannot be reached: {error}", secrets) from error
        more = f", but not by {', '.join(refused)}" if refused else ""
        return f"accepted by {self.host}{more}"

    def _failed(self, answer: str, secrets: Sequence[str], code: int = 0) -> Undelivered:
        msg = f"the mail of {self.name} was not accepted: {mask_text(answer, secrets)[:_SHOWN]}"
        return Undelivered(msg, status_code=code if _LOWEST <= code < _HIGHEST else None)

    def _addressed(self) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self.sender
        mail["To"] = ", ".join(self.to)
        return mail

    def _written(self, message: Message, ident: str) -> EmailMessage:
        mail = self._addressed()
        mail["Subject"] = message.title
        mail["Date"] = formatdate(message.at)
        mail["Message-ID"] = f"<{ident}@redrive.invalid>"
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Redrive-Type"] = message.type
        mail.set_content(message.text)
        return mail

    def _connected(self) -> smtplib.SMTP:
        seconds = durations.seconds(self.timeout)
        is_local = self.host.lower() in _LOCAL
        port = self.port or (25 if is_local else 587)
        tls = ssl.create_default_context(cafile=self.ca_file)
        if port == _TLS_PORT:
            return _BoundedTLS(self.host, port, timeout=seconds, context=tls)
        server = _Bounded(self.host, port, timeout=seconds)
        try:
            server.ehlo()
            if server.has_extn("starttls") and (not is_local or self.ca_file):
                server.starttls(context=tls)
            elif not is_local:
                raise Undelivered(f"{self.name} was not sent: {self.host} offers no TLS")
        except BaseException:
            server.close()
            raise
        return server


class _Bounded(smtplib.SMTP):
    """A connection with one time limit for everything: a slow server cannot hold it forever."""

    def __init__(self, host: str, port: int, **more: Any) -> None:
        self._is_late = False
        self._end = threading.Timer(more["timeout"], self._hang_up)
        self._end.daemon = True
        self._end.start()
        super().__init__(host, port, **more)

    def getreply(self) -> tuple[int, bytes]:
        """Wait for an answer; raise if it came too late."""
        try:
            return super().getreply()
        except smtplib.SMTPServerDisconnected:
            if self._is_late:
                raise TimeoutError("timed out") from None
            raise

    def _hang_up(self) -> None:
        self._is_late = True
        if self.sock is not None:
            with suppress(OSError):  # it has ended by itself
                self.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._end.cancel()
        super().close()


class _BoundedTLS(_Bounded, smtplib.SMTP_SSL):
    """The same, with TLS from the start."""
