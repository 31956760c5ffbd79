"""Where jobs are kept: `open_store` opens the store of a URL.

Here: the contract and the four stores that obey it. Not here: what a job's next record is
(`jobs.transitions`), when to retry (`policies`), and who calls the stores (`worker`, `desk`).
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from redrive.errors import UsageError
from redrive.jobs import logger
from redrive.jobs.clock import Clock, SystemClock
from redrive.payloads.escaping import inert
from redrive.stores.contract import Store

if TYPE_CHECKING:
    from redrive.stores.jsonl import JsonlStore
    from redrive.stores.sqlite import SqliteStore

log = logger.log.getChild("store")

_KNOWN = "memory:, jsonl:PATH, sqlite:PATH (or just a path), postgresql://…"


def open_store(
    url: str | os.PathLike[str] | Store,
    *,
    create: bool = True,
    read_only: bool = False,
    clock: Clock | None = None,
) -> Store:
    """Open the store a URL names; a bare path is SQLite. Stores are imported only when used."""
    if isinstance(url, Store):
        return url
    clock = clock or SystemClock()
    scheme, rest = _split(os.fspath(url))
    if scheme == "memory":
        from redrive.stores.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore(clock=clock)
    store: Store
    if scheme == "postgresql":
        from redrive.stores.postgres import PostgresStore  # noqa: PLC0415

        store = PostgresStore(os.fspath(url), clock=clock, create=create, read_only=read_only)
    else:
        store = _file_store(scheme)(
            _path(rest, os.fspath(url)),
            clock=clock,
            create=create,
            read_only=read_only,
        )
    log.info("store %s opened, durability %s", inert(store.url), store.durability)
    return store


def _file_store(scheme: str) -> type[JsonlStore | SqliteStore]:
    if find_spec("fcntl") is None:
        raise UsageError(
            f"a {scheme}: store needs the file locks of Linux and macOS, which this system does not "
            "have; use postgresql://…, or memory: for tests"
        )
    if scheme == "jsonl":
        from redrive.stores.jsonl import JsonlStore  # noqa: PLC0415

        return JsonlStore
    from redrive.stores.sqlite import SqliteStore  # noqa: PLC0415

    return SqliteStore


def _split(url: str) -> tuple[str, str]:
    """Cut a URL into scheme and rest; a path that has a colon in it is still a path."""
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme or "." in scheme or len(scheme) == 1:
        return "sqlite", url
    if scheme in {"memory", "jsonl", "sqlite"}:
        return scheme, rest
    if scheme in {"postgresql", "postgres"} and rest.startswith("//"):
        return "postgresql", rest
    raise UsageError(f"{shown(url)!r} is not the URL of a store; use one of: {_KNOWN}")


def _path(rest: str, url: str) -> Path:
    """Read sqlite:PATH and plain paths; refuse slashes of which nobody knows what they mean."""
    if rest.startswith("//"):
        scheme, name = url.partition(":")[0], rest.lstrip("/")
        raise UsageError(
            f"{url!r} can be read in two ways; write {f'{scheme}:/{name}'!r} for the absolute path, "
            f"or {f'{scheme}:{name}'!r} for one below the current directory"
        )
    if not rest:
        raise UsageError(f"{url!r} names no file; write for example sqlite:redrive.db")
    return Path(rest)


def shown(url: str) -> str:
    """Return a URL without what may be a password: only the scheme of a server's URL."""
    scheme, named, _ = url.partition("://")
    return f"{scheme}://…" if named and scheme not in {"sqlite", "jsonl"} else url
