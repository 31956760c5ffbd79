"""The settings in force and where each is set; secrets in them are masked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import cast

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli.output import Line, Part, Table, View, fields, joined
from redrive.config import Config, find
from redrive.payloads.masking import MASK, mask_json, mask_text
from redrive.payloads.secret_names import is_secret_name
from redrive.submission import who

_NAME = re.compile(r"\w+")
_SETTINGS = fields("name=setting:id value:prose source=from:prose")

Row = tuple[str, str, str]
"""A setting, its value, and where it comes from."""


@command(
    "config",
    "redrive config show",
    "redrive config show --json",
    "redrive --store jobs.db config show",
)
@click.argument("what", type=click.Choice(["show"]))
@click.pass_obj
def config(cli: Cli, what: str) -> None:
    """Show the settings in force and where each comes from, with secrets masked."""
    del what
    active = cli.config
    settings = [
        {"name": name, "value": value, "source": source}
        for name, value, source in (*_store(active), *_others(active))
    ]
    data = {
        "file": None if active.file is None else str(active.file),
        "settings": settings,
        "unknown": list(active.unknown),
    }
    parts: list[Part] = [Table(_SETTINGS, settings)]
    if active.unknown:
        parts.append(Line(f"unknown keys, which are ignored: {joined(active.unknown)}", "warn"))
    cli.show(View(data, parts), then="redrive doctor")


def _store(active: Config) -> Iterator[Row]:
    """Return the store in use, and the ones that other settings name."""
    yield "store", mask_text(active.store), active.source
    filed = find(environ={})
    others = {"REDRIVE_STORE": os.environ.get("REDRIVE_STORE"), filed.source: filed.store}
    for source, value in others.items():
        if value and source not in {active.source, "default"}:
            yield "store (not used)", mask_text(value), source


def _others(active: Config) -> Iterator[Row]:
    file = str(active.file)
    if active.app is not None:
        yield "app", active.app, file
    if active.app_above is not None:
        yield "app (not loaded from a directory above)", active.app_above, file
    yield "actor", who(), "the user who is logged in"
    for name, settings in active.endpoints.items():
        for key, value in settings.items():
            yield f"endpoints.{name}.{key}", _text(key, value), file
    yield from _nested("alerts", active.alerts, file)
    yield from _nested("import", active.imports, file)
    if active.secret_names:
        yield "mask.names", ", ".join(active.secret_names), file


def _nested(name: str, table: Mapping[str, object], source: str) -> Iterator[Row]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _nested(f"{name}.{key}", cast("Mapping[str, object]", value), source)
        else:
            yield f"{name}.{key}", _text(key, value), source


def _text(key: str, value: object) -> str:
    """Return a value as text; for an environment variable also if it is set."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if key.endswith("_env"):
        names = _NAME.findall(text)
        return ", ".join(
            f"{name} ({'set' if os.environ.get(name) else 'not set'})" for name in names
        )
    return MASK if is_secret_name(key) else mask_json(text)
