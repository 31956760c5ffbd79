"""Alerts about dead letters, once for each group and change, by the channels people read.

    app = Redrive("jobs.db", alerts=Alerts(slack(url_env="SLACK_URL")))

Here: rules, texts, channels and the watch that sends. Not here: when to look (`worker`), groups (`desk`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from redrive import config
from redrive.alerts.channels import Apprise, Channel, Slack, Webhook, checked
from redrive.alerts.mail import Email
from redrive.alerts.messages import Message, Wording
from redrive.alerts.rules import Rules
from redrive.alerts.watch import Watch
from redrive.errors import UsageError
from redrive.jobs import checks
from redrive.jobs.logger import log

if TYPE_CHECKING:
    from redrive.app import Redrive

__all__ = ["Alerts", "Channel", "Message", "Rules", "apprise", "email", "slack", "webhook"]

slack, email, webhook, apprise = Slack, Email, Webhook, Apprise

_KINDS = {"slack": Slack, "email": Email, "webhook": Webhook, "apprise": Apprise}
_TEXTS = ("service", "base_url")
_LISTS = ("fields", "each")
_KEYS = ("channels", "rules", "templates", "types", *_LISTS, *_TEXTS)


class Alerts:
    """The channels, rules and texts of alerts. Without channels, `[alerts]` of the file is used.

    `templates` and `types` are texts and type names by handler; `fields` are the fields of payloads
    that messages may show, such as "sessionId" or "order.id". Dead letters of the handlers in `each`
    are alerted one by one, as on a channel with `mode="each"`. Messages carry the name of the
    `service` and, with a `base_url`, a link to the group: BASE_URL/groups/G7.
    """

    def __init__(
        self,
        *channels: Channel,
        rules: Rules | None = None,
        templates: Mapping[str, str] | None = None,
        types: Mapping[str, str] | None = None,
        fields: Sequence[str] = (),
        each: Sequence[str] = (),
        service: str = "",
        base_url: str = "",
    ) -> None:
        settings: dict[str, Any] = {}
        if not channels:
            settings = read(config.find().alerts)
        self.channels = checked([*channels, *settings.get("channels", ())])
        self.each = frozenset([*settings.get("each", ()), *checks.texts(each, "each")])
        """Handlers whose dead letters are alerted one by one, on every channel."""
        self.rules = rules or settings.get("rules") or Rules()
        self.wording = Wording(
            templates={**settings.get("templates", {}), **(templates or {})},
            types={**settings.get("types", {}), **(types or {})},
            fields=(*settings.get("fields", ()), *fields),
            service=service or settings.get("service", ""),
            base_url=base_url or settings.get("base_url", ""),
        )
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
    settings: dict[str, Any] = {
        name: _table(table.get(name, {}), name) for name in ("templates", "types")
    }
    for name in _LISTS:
        settings[name] = table.get(name, ())
        if not isinstance(settings[name], list | tuple):
            raise UsageError(f'alerts: {name} must be a list, as in {name} = ["…"]')
    for name in _TEXTS:
        settings[name] = table.get(name, "")
        if not isinstance(settings[name], str):
            raise UsageError(f'alerts: {name} must be text, as in {name} = "…"')
    settings["rules"] = _made(Rules, _table(table.get("rules", {}), "rules"), "rules")
    channels = _table(table.get("channels", {}), "channels")
    settings["channels"] = [_channel(name, _table(table, name)) for name, table in channels.items()]
    return settings


def _channel(name: str, settings: Mapping[str, object]) -> object:
    kind = str(settings.get("kind", name))
    if kind not in _KINDS:
        raise UsageError(f'alerts: channel {name} needs kind = "…", one of: {", ".join(_KINDS)}')
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
