"""The settings of a Django project: `REDRIVE`, and the store that DATABASES names."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import django
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, close_old_connections, connections

from redrive import config
from redrive.app import Redrive
from redrive.errors import UsageError
from redrive.registry import Entry, Registry

APP = "redrive.contrib.django:app"  # the name by which workers and their children import the app
_OURS = ("database", "modules", "store")  # the keys of REDRIVE that are not passed on to `Redrive`


def set_up() -> None:
    """Set Django up where a worker imports the app by its name; elsewhere it already is."""
    try:
        if not apps.ready and not apps.loading:
            django.setup()
        installed = settings.INSTALLED_APPS
    except ImproperlyConfigured as error:
        raise UsageError(f"Django is not set up here ({error}); use manage.py redrive") from error
    if not any(name.startswith("redrive.contrib.django") for name in installed):
        raise UsageError('add "redrive.contrib.django" to INSTALLED_APPS')


def make_app() -> Redrive:
    """Return the app of the project. Its store is looked up when it is opened.

    By then a test runner has replaced the database by one for tests.
    """
    options = {key: value for key, value in _settings().items() if key not in _OURS}
    try:
        app = Redrive(store_url, **options)
    except TypeError as error:
        raise UsageError(f"REDRIVE in the settings of Django is wrong: {error}") from error
    app.submitter.registry = _Connected()
    return app


def modules() -> tuple[str, ...]:
    """Return the names of the modules in each installed app that register handlers."""
    return tuple(_settings().get("modules", ("handlers",)))


def use_settings() -> None:
    """Make commands of this process use the store and the app of the project."""
    source = "REDRIVE" if "store" in _settings() else f"DATABASES[{_alias()!r}]"
    config.use_framework(store_url, APP, f"{source} in the settings of Django")


def store_url() -> str:
    """Return the URL of the store: the one that REDRIVE names, or the database of the project."""
    if store := _settings().get("store"):
        return str(store)
    connection = connections[_alias()]
    database = connection.settings_dict
    if connection.vendor == "postgresql":
        return _postgres_url(database)
    if connection.vendor == "sqlite":
        name = str(database["NAME"])
        in_memory = connection.is_in_memory_db()
        return "memory:" if in_memory else str(Path(name).absolute().with_name("redrive.db"))
    raise UsageError(
        f"DATABASES[{_alias()!r}] uses {database['ENGINE']}, where Redrive has no store: name "
        'one in your settings, such as REDRIVE = {"store": "/var/lib/shop/redrive.db"}'
    )


def _settings() -> dict[str, Any]:
    return dict(getattr(settings, "REDRIVE", {}))


def _alias() -> str:
    return str(_settings().get("database", DEFAULT_DB_ALIAS))


def _postgres_url(database: dict[str, Any]) -> str:
    """Return a URL with the same user, server and connection options as Django uses."""
    from psycopg.pq import Conninfo  # noqa: PLC0415 - not needed for SQLite

    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    query = {key: str(value) for key, value in database["OPTIONS"].items() if key in known}
    host, port = str(database["HOST"]), str(database["PORT"])
    if host.startswith("/"):
        query["host"], host = host, ""
    if port and not host:
        query["port"], port = port, ""
    user = quote(str(database["USER"] or ""), safe="")
    secret = quote(str(database["PASSWORD"] or ""), safe="")
    who = f"{user}{f':{secret}' if secret else ''}@" if user or secret else ""
    server = f"[{host}]" if ":" in host else host
    place = (
        f"{who}{server}{f':{port}' if port else ''}/{quote(str(database['NAME'] or ''), safe='')}"
    )
    return f"postgresql://{place}" + (f"?{urlencode(query)}" if query else "")


class _Connected(Registry):
    """The handlers of the project. For workers they begin and end like a request of Django."""

    def add(self, entry: Entry) -> None:
        """Register a handler, with a function that drops connections that are too old or broken."""
        wrap = _acall if entry.is_async else _call
        super().add(replace(entry, function=wrap(entry.function)))


def _call(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        close_old_connections()
        try:
            return function(**arguments)
        finally:
            close_old_connections()

    return call


def _acall(function: Callable[..., Any]) -> Callable[..., Any]:
    from asgiref.sync import sync_to_async  # noqa: PLC0415 - many projects have no async handler

    @functools.wraps(function)
    async def call(**arguments: Any) -> Any:
        await sync_to_async(close_old_connections)()
        try:
            return await function(**arguments)
        finally:
            await sync_to_async(close_old_connections)()

    return call
