"""Channels: each sends a message and returns the answer of the other side.

Secrets (addresses with keys in them) are named by environment variable, read when something is sent, and
masked in every answer.
"""

from __future__ import annotations

import html
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, cast

from redrive.alerts.messages import Message, Text
from redrive.delivery import hiding
from redrive.delivery.courier import Courier, EndpointSettings
from redrive.errors import TokenMissing, Undelivered, UsageError
from redrive.jobs.durations import Duration
from redrive.payloads.masking import mask_text
from redrive.registry import check_name

SECONDS = 10.0  # how long one message may take to be sent
_ANSWER = 300


class Channel(Protocol):
    """A way to send messages to people."""

    @property
    def name(self) -> str:
        """The name that jobs carry."""
        ...

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables it reads."""
        ...

    def send(self, message: Message, *, ident: str) -> str:
        """Send a message and return the answer; raise if it was not accepted.

        `ident` names the message: the same one with every attempt.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Any URL that accepts JSON, such as an incoming webhook of Slack; signed like endpoints."""

    url: str = ""
    url_env: str = ""
    secret_env: str | Sequence[str] = ()
    name: str = "webhook"
    text: Text | None = None
    """Words the messages of this channel, instead of the `text` of the alerts."""
    timeout: Duration = SECONDS
    allow: Sequence[str] = ()
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_env):
            msg = f"channel {self.name}: set either url, or url_env (the environment variable with the URL)"
            raise UsageError(msg)
        self._courier(self.url or "https://channel.invalid/")  # a wrong setting is refused here

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables it reads."""
        return (*([self.url_env] if self.url_env else []), *self._secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self.secret_env,) if isinstance(self.secret_env, str) else tuple(self.secret_env)

    def _courier(self, url: str) -> Courier:
        settings: EndpointSettings = {
            "url": url,
            "secret_env": self._secrets,
            "allow": self.allow,
            "timeout": self.timeout,
            "idempotent": True,  # a message that comes twice is better than none
        }
        if self.ca_file is not None:
            settings["ca_file"] = self.ca_file
        return Courier(self.name, settings)

    def send(self, message: Message, *, ident: str) -> str:
        """Post the body of the message, or its text as Slack takes it: no mention or link in it works."""
        body: dict[str, Any] = {
            "text": html.escape(message.text, quote=False),
            "mrkdwn": False,
            "link_names": False,
            "parse": "none",
            "unfurl_links": False,
            "unfurl_media": False,
        }
        courier = self._courier(self.url or environment(self.name, self.url_env))
        reply = courier.deliver(dict(message.body or body), ident=ident, key=ident)
        hide = hiding.hider(hiding.secrets_in(courier.target.path, {}))
        answer = hide(reply.body.decode("utf-8", "replace").strip())
        return f"{reply.status} {answer[:_ANSWER]}".strip()


def environment(channel: str, name: str) -> str:
    """Return the value of an environment variable; TokenMissing if it is not set."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise TokenMissing(f"cannot send to {channel}: the environment variable {name} is not set")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Apprise:
    """Mail and the other services that apprise supports, by URL; a variable may hold several, with spaces."""

    url_env: str
    name: str = "apprise"

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables it reads."""
        return (self.url_env,)

    def send(self, message: Message, *, ident: str) -> str:  # noqa: ARG002 - apprise knows none
        """Send it by apprise, which returns only True or False; its log has the reason."""
        try:
            import apprise  # noqa: PLC0415 - an extra
        except ImportError:
            msg = f"channel {self.name} needs apprise: pip install 'redrive[alerts]'"
            raise UsageError(msg) from None
        urls = environment(self.name, self.url_env).split()
        with _Heard() as heard:
            sender: Any = apprise.Apprise()
            taken = all(map(sender.add, urls))
            done = taken and bool(
                sender.notify(
                    title=message.title,
                    body=message.text,
                    body_format="text",
                    interpret_escapes=False,
                )
            )
        if not done:
            what = "did not accept the message" if taken else "has a URL that apprise cannot read"
            why = "" if not taken else f": {mask_text(heard.last, urls)[:_ANSWER]}"
            raise Undelivered(f"{self.name} {what}{why}")
        return f"accepted by {len(urls)} service{'' if len(urls) == 1 else 's'}"


class _Heard(logging.Filter):
    """Captures the log of apprise, which may contain secrets."""

    _one_at_a_time = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Capture a record and keep its message."""
        self.last = record.getMessage()
        return False

    def __enter__(self) -> Self:
        self._one_at_a_time.acquire()
        logging.getLogger("apprise").addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("apprise").removeFilter(self)
        self._one_at_a_time.release()


def checked(channels: Sequence[object]) -> dict[str, Channel]:
    """Return channels by name; UsageError if two have the same name."""
    known: dict[str, Channel] = {}
    for value in channels:
        if not hasattr(value, "send"):
            raise UsageError(f"create channels with webhook(…) or apprise(…); found {value!r}")
        channel = cast("Channel", value)
        if check_name(channel.name) in known:
            msg = f"two channels are named {channel.name!r}; give one of them another name="
            raise UsageError(msg)
        known[channel.name] = channel
    return known
