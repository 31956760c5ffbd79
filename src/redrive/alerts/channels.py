"""Channels: each sends a message and returns the answer of the other side.

Secrets (addresses with keys in them, passwords) are named by environment variable, read when something
is sent, and masked in every answer.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, Self, cast, get_args

from redrive.alerts.messages import Message
from redrive.delivery import hiding
from redrive.delivery.courier import Courier, EndpointSettings
from redrive.errors import TokenMissing, Undelivered, UsageError
from redrive.jobs.durations import Duration
from redrive.payloads.masking import MASK, mask_text
from redrive.registry import check_name

SECONDS = 10.0  # how long one message may take to be sent
_ANSWER = 300
_HEADER, _SECTION = 150, 2900  # the most characters that Slack accepts in a header and in a section
_ANY_URL = "https://channel.invalid/"
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


Mode = Literal["groups", "each"]
"""What a channel is sent of dead letters: messages about groups, or one for each job."""


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
class Slack:
    """An incoming webhook of Slack, or of a service with the same format."""

    url_env: str
    name: str = "slack"
    timeout: Duration = SECONDS
    allow: Sequence[str] = ()
    ca_file: str | None = None
    mode: Mode = "groups"

    def __post_init__(self) -> None:
        _courier(self, _ANY_URL, ())

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables it reads."""
        return (self.url_env,)

    def send(self, message: Message, *, ident: str) -> str:
        """Post blocks of plain text, in which nothing is a mention or a link."""
        body = {
            "text": fitted(message.title, _SECTION),
            "blocks": [
                {"type": "header", "text": _plain(message.title, _HEADER)},
                {"type": "section", "text": _plain(message.text, _SECTION)},
            ],
            "mrkdwn": False,
            "link_names": False,
            "parse": "none",
            "unfurl_links": False,
            "unfurl_media": False,
        }
        return _posted(self, environment(self.name, self.url_env), (), body, ident)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Any URL that accepts JSON; requests are signed like those of endpoints."""

    url: str = ""
    url_env: str = ""
    secret_env: str | Sequence[str] = ()
    name: str = "webhook"
    timeout: Duration = SECONDS
    allow: Sequence[str] = ()
    ca_file: str | None = None
    mode: Mode = "groups"

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_env):
            msg = f"channel {self.name}: set either url, or url_env (the environment variable with the URL)"
            raise UsageError(msg)
        _courier(self, self.url or _ANY_URL, self._secrets)

    @property
    def variables(self) -> Sequence[str]:
        """The environment variables it reads."""
        return (*([self.url_env] if self.url_env else []), *self._secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self.secret_env,) if isinstance(self.secret_env, str) else tuple(self.secret_env)

    def send(self, message: Message, *, ident: str) -> str:
        """Post the message as it is."""
        url = self.url or environment(self.name, self.url_env)
        body = {"version": 1, "id": ident, **asdict(message)}
        return _posted(self, url, self._secrets, body, ident)


def _plain(text: str, limit: int) -> dict[str, object]:
    return {"type": "plain_text", "text": fitted(text, limit), "emoji": False}


def fitted(text: str, limit: int) -> str:
    """Escape what Slack reads as markup, and cut without leaving half an escape.

    >>> fitted("<!channel> & co", 20)
    '&lt;!channel&gt; …'
    """
    taken, size = "", 0
    for char in text:
        piece = _ESCAPES.get(char, char)
        if size + len(piece) > limit - 1:
            return taken + "…"
        taken, size = taken + piece, size + len(piece)
    return taken


def _courier(to: Slack | Webhook, url: str, secrets: Sequence[str]) -> Courier:
    """Return the courier of a channel; raise UsageError if a setting is wrong, even without a URL."""
    settings: EndpointSettings = {
        "url": url,
        "secret_env": secrets,
        "allow": to.allow,
        "timeout": to.timeout,
        "idempotent": True,  # a message that comes twice is better than none
    }
    if to.ca_file is not None:
        settings["ca_file"] = to.ca_file
    return Courier(to.name, settings)


def _posted(
    to: Slack | Webhook, url: str, secrets: Sequence[str], body: dict[str, Any], ident: str
) -> str:
    courier = _courier(to, url, secrets)
    reply = courier.deliver(body, ident=ident, key=ident)
    hidden = hiding.pattern(hiding.secrets_in(courier.target.path, {}))
    answer = mask_text(hidden.sub(MASK, reply.body.decode("utf-8", "replace").strip()))
    return f"{reply.status} {answer[:_ANSWER]}".strip()


def environment(channel: str, name: str) -> str:
    """Return the value of an environment variable; TokenMissing if it is not set."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise TokenMissing(f"cannot send to {channel}: the environment variable {name} is not set")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Apprise:
    """Services that apprise supports, by URL; one variable may hold several, separated by spaces."""

    url_env: str
    name: str = "apprise"
    mode: Mode = "groups"

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
            msg = f"create channels with slack(…), email(…), webhook(…) or apprise(…); found {value!r}"
            raise UsageError(msg)
        channel = cast("Channel", value)
        if check_name(channel.name) in known:
            msg = f"two channels are named {channel.name!r}; give one of them another name="
            raise UsageError(msg)
        if mode_of(channel) not in get_args(Mode):
            found = mode_of(channel)
            msg = f"channel {channel.name}: mode must be 'groups' or 'each'; found {found!r}"
            raise UsageError(msg)
        known[channel.name] = channel
    return known


def mode_of(channel: object) -> Mode:
    """Return the mode of a channel; one of the user's own need not have one."""
    return cast("Mode", getattr(channel, "mode", "groups"))
