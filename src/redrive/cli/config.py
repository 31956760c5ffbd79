"""The settings in force, and who said so; secrets in them are hidden."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import cast

import click

from redrive.cli._command import command
from redrive.cli._face import Face
from redrive.cli.output import Line, Part, Table, View, columns
from redrive.config import Config, find
from redrive.payloads.masking import MASK, mask_json, mask_text
from redrive.payloads.secret_names import is_secret_name
from redrive.submission import who

_NAME = re.compile(r"\w+")

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
def config(face: Face, what: str) -> None:
    """Show the settings in force and where each comes from, with secrets hidden."""
    del what
    found = face.config
    rows = [*_store(found), *_others(found)]
    data = {
        "file": None if found.file is None else str(found.file),
        "settings": [
            {"name": name, "value": value, "source": source} for name, value, source in rows
        ],
        "unknown": list(found.unknown),
    }
    parts: list[Part] = [Table(columns("setting:id", "value", "from"), rows)]
    if found.unknown:
        parts.append(Line(f"keys that mean nothing here: {', '.join(found.unknown)}", "warn"))
    face.show(View(data, parts), then="redrive doctor")


def _store(found: Config) -> Iterator[Row]:
    """Return the store, and those that it was chosen before."""
    yield "store", mask_text(found.store), found.source
    filed = find(environ={})
    others = {"REDRIVE_STORE": os.environ.get("REDRIVE_STORE"), filed.source: filed.store}
    for source, value in others.items():
        if value and source not in {found.source, "default"}:
            yield "store (not used)", mask_text(value), source


def _others(found: Config) -> Iterator[Row]:
    file = str(found.file)
    if found.app is not None:
        yield "app", found.app, file
    if found.app_above is not None:
        yield "app (not loaded from a directory above)", found.app_above, file
    yield "actor", who(), "the user who is logged in"
    for name, settings in found.endpoints.items():
        for key, value in settings.items():
            yield f"endpoints.{name}.{key}", _worded(key, value), file
    yield from _nested("alerts", found.alerts, file)
    if found.secret_names:
        yield "mask.names", ", ".join(found.secret_names), file


def _nested(name: str, table: Mapping[str, object], source: str) -> Iterator[Row]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _nested(f"{name}.{key}", cast("Mapping[str, object]", value), source)
        else:
            yield f"{name}.{key}", _worded(key, value), source


def _worded(key: str, value: object) -> str:
    """Return a value as text; for an environment variable also if it is set."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if key.endswith("_env"):
        names = _NAME.findall(text)
        return ", ".join(f"{one} ({'set' if os.environ.get(one) else 'not set'})" for one in names)
    return MASK if is_secret_name(key) else mask_json(text)
