"""The handlers that an import knows, and the pending jobs that none of them can run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from redrive.cli._cli import Cli
from redrive.cli._errors import CONFLICT, Stop
from redrive.cli._load import program_of
from redrive.desk.desk import Desk
from redrive.payloads.masking import mask_text
from redrive.registry import Registry

NAMED = 5  # how many of many are shown: handlers, reasons, bad lines (the quarantine file has all)

Unserved = Counter[tuple[str, str]]
"""How many pending jobs no handler can run, by handler and URL."""


@dataclass(slots=True)
class Handlers:
    """The known handlers by name, the URLs of endpoints, and the URLs that hooks may be sent to."""

    names: set[str]
    urls: dict[str, str]
    endpoints: tuple[str, ...] = ()

    def learn(self, desk: Desk) -> None:
        """Add the handlers of running workers."""
        self.names |= desk.lanes.served_handlers()

    def can_run(self, handler: str, url: str) -> bool:
        """Return True if a known handler runs such a job, or a person allowed its URL."""
        if url and handler in self.urls:
            return url == self.urls[handler]
        if url in self.endpoints:
            return True
        listed = {*self.endpoints, *self.urls.values()}
        return handler in self.names and (not url or not listed or url in listed)


def handlers_of(cli: Cli, app_name: str | None, endpoints: tuple[str, ...] = ()) -> Handlers:
    """Return the handlers of the program that is named, and of `redrive.toml`."""
    from redrive.delivery.endpoint import urls  # noqa: PLC0415 - slow to load

    configured = cli.config.endpoints
    known = {name: str(end["url"]) for name, end in configured.items() if end.get("url")}
    program = program_of(cli, app_name)
    registry = program.submitter.registry if program else Registry()
    return Handlers({*known, *registry.names()}, {**known, **urls(registry)}, endpoints)


def refuse(unserved: Unserved, handlers: Handlers) -> None:
    """Stop before anything is written if no known handler can run some pending jobs."""
    if not unserved:
        return
    urls = [url for _, url in unserved if url]
    fitting = sorted(name for name, url in handlers.urls.items() if mask_text(url) in urls)
    ways = [
        "name the program that runs them: --app MODULE:APP",
        f"name a handler that is known: --handler {fitting[0] if fitting else 'NAME'}",
        *(f"allow the URL of these hooks: --endpoint {url}" for url in urls[:1]),
        "or import them anyway, to wait for a handler: --force",
    ]
    msg = f"no known handler can run {named(unserved)}; nothing was imported"
    raise Stop("unserved", msg, hint="; ".join(ways), exits=CONFLICT)


def named(unserved: Unserved) -> str:
    """Describe the jobs that no handler can run."""
    few = ", ".join(
        f"{number:,} for {handler}{f' to {url}' if url else ''}"
        for (handler, url), number in unserved.most_common(NAMED)
    )
    more = ", …" if len(unserved) > NAMED else ""
    return f"{unserved.total():,} pending records ({few}{more})"
