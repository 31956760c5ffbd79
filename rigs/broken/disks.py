"""Builds that treat the disk badly on purpose. Each is a function that breaks the running process."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from typing import Any

from redrive.stores import _files
from redrive.stores.jsonl import compact, lines
from redrive.stores.jsonl.journal import Journal
from redrive.stores.sqlite import opening, unanswered


def no_fsync() -> None:
    """Answer without having synced the journal."""
    _files.sync_data = lambda descriptor: None  # noqa: ARG005


def no_directory_fsync() -> None:
    """Make and rename files without syncing their names."""
    _files.sync_directory = lambda directory: None  # noqa: ARG005


def no_batch_mark() -> None:
    """Call every line the last of its operation."""
    line = lines.line
    lines.line = lambda seq, *, ends, body: line(seq, ends=True, body=body)  # noqa: ARG005


def late_write() -> None:
    """Answer first, and write with the next call."""
    write = Journal._write  # noqa: SLF001
    waiting: list[int] = []

    def late(self: Journal) -> None:
        if waiting:
            write(self)
        waiting.append(1)

    Journal._write = late  # type: ignore[method-assign] # noqa: SLF001


def sync_errors_ignored() -> None:
    """Take a failed sync for a good one."""
    sync = _files.sync_data

    def ignore(descriptor: int) -> None:
        with contextlib.suppress(OSError):
            sync(descriptor)

    _files.sync_data = ignore


def failed_syncs_built_upon() -> None:
    """Go on with a file whose sync failed as it is, once it is opened again."""
    compact.if_doubtful = lambda journal, clock: None  # noqa: ARG005
    unanswered.clear = lambda place: None  # noqa: ARG005


def full_disk_ignored() -> None:
    """Take a failed write for a good one."""
    write = _files.write_all

    def ignore(descriptor: int, data: bytes) -> None:
        with contextlib.suppress(OSError):
            write(descriptor, data)

    _files.write_all = ignore


def synchronous_off() -> None:
    """Let SQLite sync nothing."""
    opening.FULL = opening.NORMAL = 0
    _after_opening("PRAGMA synchronous = OFF")


def no_log() -> None:
    """Let SQLite write its pages in place, with the way back in memory only."""
    _after_opening("PRAGMA journal_mode = MEMORY")


def short_write_ignored() -> None:
    """Write once, and never look how much was written."""

    def once(descriptor: int, data: Any) -> None:
        os.write(descriptor, data)

    _files.write_all = once


def _after_opening(pragma: str) -> None:
    opened = opening.open_writer

    def changed(place: Path, patience: float) -> sqlite3.Connection:
        connection = opened(place, patience)
        connection.execute(pragma)
        return connection

    opening.open_writer = changed
