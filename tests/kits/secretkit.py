"""Canary secrets: unique words put where secrets are, and a look at every place they must not be."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from redrive import Redrive
from redrive.cli._root import root
from redrive.events import Event

PAYLOAD = {"payload", "original"}
"""The only fields of a store that may hold what was given as it was given."""


def canary(word: str) -> str:
    """A secret that is found again wherever it goes: 24 letters and digits."""
    return f"{word}{'canary0123456789abcdefg'[: 24 - len(word)]}"


class Watch:
    """Hears every log record, down to debug, and every event."""

    def __init__(self, app: Redrive, log: logging.Handler) -> None:
        self._log = log
        self._told: list[str] = []
        app.listen(self._hear)

    def _hear(self, event: Event) -> None:
        self._told += (repr(event), json.dumps(asdict(event), default=str, ensure_ascii=False))

    def seen(self, records: list[logging.LogRecord]) -> Iterator[tuple[str, str]]:
        assert len(self._told) > 4
        yield "events", "\n".join(self._told)
        logged = [self._log.format(record) for record in records]
        assert logged
        yield "log", "\n".join((*logged, *(repr(record.__dict__) for record in records)))


def commands(place: str, ids: list[str]) -> Iterator[tuple[str, str]]:
    """What every command shows, in each of its forms."""
    words = [
        "status",
        "dlq",
        "failed",
        "list",
        "groups",
        "log",
        "verify",
        *(f"show {i}" for i in ids),
    ]
    words += ["list state:pending", "retry G1", "resolve G1 --yes --reason done", "list --ids"]
    for line in words:
        for form in ("--plain", "--json", ""):
            told = [*line.split(), "--store", place, *([form] if form else [])]
            done = CliRunner().invoke(root, told)
            assert done.output, told
            yield f"redrive {line} {form}", done.output


def stored(place: str) -> str:
    """All that a store holds beside payloads."""
    if place.startswith("jsonl:"):
        lines = Path(place.removeprefix("jsonl:")).read_text("utf-8").splitlines()
        return json.dumps([_beside(json.loads(line)) for line in lines], ensure_ascii=False)
    found: list[object] = []
    with closing(sqlite3.connect(place)) as file:
        tables = [
            name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for table in tables:
            rows = file.execute(f"SELECT * FROM {table}")  # a name of the schema itself
            names = [column[0] for column in rows.description]
            found += [_beside(dict(zip(names, row, strict=True))) for row in rows]
    assert len(found) > 5
    return json.dumps(found, default=str, ensure_ascii=False)


def whole(place: str) -> bytes:
    """Every byte of the store's files."""
    path = Path(place.removeprefix("jsonl:"))
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())


def _beside(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _beside(item) for name, item in value.items() if name not in PAYLOAD}
    return [_beside(item) for item in value] if isinstance(value, list) else value


def check(name: str, text: str, secrets: list[str]) -> None:
    for secret in secrets:
        assert secret not in text, f"{secret} is in {name}"
