"""The stores that the contract is proved for. A new one is one more line in KINDS.

Stores are imported when they are first opened, so that a missing driver fails its own tests only.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pgkit
from redrive.stores.contract import Store
from redrive.testing import ManualClock


@dataclass(frozen=True)
class Kind:
    """A sort of store, how to open one in a directory of its own, and what it is able to do."""

    name: str
    open: Callable[[Path, ManualClock], Store]
    persistent: bool = False
    """It can be closed and opened again."""
    shared: bool = False
    """Two store objects can be open on the same data at once."""
    tx: bool = False
    """`add` can be part of the caller's own transaction."""
    files: bool = False
    """Its data are files that can be copied while it is closed, and put back."""
    local: bool = True
    """Its clock is its host's, not a server's."""
    forget: Callable[[Path], None] = lambda _directory: None
    """Remove what opening it in this directory made elsewhere."""


def _opener(module: str, name: str, file: str = "") -> Callable[[Path, ManualClock], Store]:
    def open_it(directory: Path, clock: ManualClock) -> Store:
        make: Callable[..., Any] = getattr(
            importlib.import_module(f"redrive.stores.{module}"), name
        )
        where = (directory / file,) if file else ()
        store: Store = make(*where, clock=clock)
        return store

    return open_it


def _open_postgres(directory: Path, clock: ManualClock) -> Store:
    return pgkit.open_in(directory, clock=clock)


KINDS = [
    Kind("memory", _opener("memory", "MemoryStore")),
    Kind(
        "jsonl",
        _opener("jsonl", "JsonlStore", "jobs.jsonl"),
        persistent=True,
        shared=True,
        files=True,
    ),
    Kind(
        "sqlite",
        _opener("sqlite", "SqliteStore", "jobs.db"),
        persistent=True,
        shared=True,
        files=True,
    ),
    Kind(
        "postgresql",
        _open_postgres,
        persistent=True,
        shared=True,
        tx=True,
        local=False,
        forget=pgkit.forget,
    ),
]


class Place:
    """Where one store of a kind lives during a test: open it, open it again, copy it, restore it."""

    def __init__(self, kind: Kind, directory: Path, clock: ManualClock | None = None) -> None:
        self.kind = kind
        self.clock = clock or ManualClock()
        self.directory = directory / "data"
        self._copy = directory / "copy"
        self._opened: list[Store] = []
        self.directory.mkdir(parents=True)

    def open(self) -> Store:
        """Give one more store object on the data."""
        store = self.kind.open(self.directory, self.clock)
        self._opened.append(store)
        return store

    def reopen(self) -> Store:
        """Close everything and open the data again."""
        self.close()
        return self.open()

    def copy(self) -> None:
        """Keep a copy of the data as they are on disk, with every store closed."""
        self.close()
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.directory, self._copy)

    def restore(self) -> Store:
        """Put the copy back, as after a disaster, and open it."""
        self.close()
        shutil.rmtree(self.directory)
        shutil.copytree(self._copy, self.directory)
        return self.open()

    def close(self) -> None:
        """Close every store that was opened here."""
        while self._opened:
            self._opened.pop().close()

    def remove(self) -> None:
        """Close everything, and leave nothing behind."""
        self.close()
        self.kind.forget(self.directory)
