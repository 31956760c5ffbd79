"""Alerts about dead letters, once for each group and change, by the channels people read.

    app = Redrive("jobs.db", alerts=Alerts(webhook(url_env="SLACK_URL")))

Here: rules, texts, channels and the watch that sends. Not here: when to look (`worker`), groups (`desk`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from redrive import config
from redrive.alerts.channels import Apprise, Channel, Webhook, checked
from redrive.alerts.messages import Message, Text
from redrive.alerts.rules import Rules
from redrive.alerts.watch import Watch
from redrive.errors import UsageError
from redrive.jobs import checks
from redrive.jobs.logger import log

if TYPE_CHECKING:
    from redrive.app import Redrive

__all__ = ["Alerts", "Channel", "Message", "Rules", "Text", "apprise", "webhook"]

webhook, apprise = Webhook, Apprise

_KINDS: Mapping[str, type[object]] = {"webhook": Webhook, "apprise": Apprise}
_KEYS = ("channels", "rules", "each", "service", "base_url")


class Alerts:
    """The channels, rules and texts of alerts. Without channels, `[alerts]` of the file is used.

    `text` words alerts: a function of a group and its newest dead job. Dead letters of the handlers in
    `each` (a `*` matches anything) are alerted one by one, with None for the group. Messages carry the
    name of the `service` and, with a `base_url`, a link to the group: BASE_URL/groups/G7.
    """

    def __init__(
        self,
        *channels: Channel,
        text: Text | None = None,
        each: Sequence[str] = (),
        rules: Rules | None = None,
        service: str = "",
        base_url: str = "",
    ) -> None:
        settings: dict[str, Any] = {} if channels else read(config.find().alerts)
        self.channels = checked([*channels, *settings.get("channels", ())])
        self.text = None if text is None else checks.function(text, "the text of alerts")
        self.each = (*settings.get("each", ()), *checks.texts(each, "each"))
        self.rules = rules or settings.get("rules") or Rules()
        self.service = service or settings.get("service", "")
        self.base_url = base_url or settings.get("base_url", "")
        if self.base_url and not self.base_url.startswith(("https://", "http://")):
            msg = f"base_url must begin with https:// or http://; found {self.base_url!r}"
            raise UsageError(msg)
        self._watches: WeakKeyDictionary[Redrive, Watch] = WeakKeyDictionary()

    def watch(self, app: Redrive) -> Watch:
        """Return the watch over an app's store."""
        if app not in self._watches:
            for name, variable in self.unset():
                log.warning("alerts: channel %s cannot send: %s is not set", name, variable)
            self._watches[app] = Watch(self, app)
        return self._watches[app]

    def unset(self) -> list[tuple[str, str]]:
        """Return the channels that cannot send, each with an environment variable that is not set."""
        return [
            (name, variable)
            for name, channel in self.channels.items()
            for variable in getattr(channel, "variables", ())
            if not os.environ.get(variable)
        ]


def read(table: Mapping[str, object]) -> dict[str, Any]:
    """Read the table `[alerts]`; raise UsageError if it is not valid."""
    unknown = table.keys() - set(_KEYS)
    if unknown:
        msg = f"alerts: unknown keys: {', '.join(sorted(unknown))}; known: {', '.join(_KEYS)}"
        raise UsageError(msg)
    each = table.get("each", [])
    settings: dict[str, Any] = {"each": each}
    if not isinstance(each, list) or not all(
        isinstance(name, str) for name in cast("list[object]", each)
    ):
        raise UsageError('alerts: each must be a list, as in each = ["…"]')
    for name in ("service", "base_url"):
        settings[name] = table.get(name, "")
        if not isinstance(settings[name], str):
            raise UsageError(f'alerts: {name} must be text, as in {name} = "…"')
    settings["rules"] = _made(Rules, _table(table.get("rules", {}), "rules"), "rules")
    channels = _table(table.get("channels", {}), "channels")
    settings["channels"] = [_channel(name, _table(one, name)) for name, one in channels.items()]
    return settings


def _channel(name: str, settings: Mapping[str, object]) -> object:
    kind = str(settings.get("kind", "webhook"))
    if kind not in _KINDS:
        raise UsageError(
            f'alerts: channel {name}: kind must be "webhook" or "apprise"; found {kind!r}'
        )
    options = {key: value for key, value in settings.items() if key != "kind"}
    return _made(_KINDS[kind], {"name": name, **options}, f"channel {name}")


def _made(kind: type[object], settings: Mapping[str, object], what: str) -> object:
    try:
        return kind(**settings)
    except TypeError as error:
        known = ", ".join(kind.__annotations__)
        msg = f"alerts: {what}: {str(error).partition(') ')[2] or error}; known: {known}"
        raise UsageError(msg) from None


def _table(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"alerts: {name} must be a table, as in [alerts.{name}]")
    return cast("Mapping[str, Any]", value)
