"""Where a command finds its store and app when nobody names them.

In this order: what was said outright, the settings of Django in its process, `REDRIVE_STORE`, `redrive.toml` or `[tool.redrive]` of a
`pyproject.toml` in the current directory or one above it, and `redrive.db` beside you. A relative
path in a file counts from that file, so a command means the same store from every subdirectory. An
app is imported, so only a file in the current directory can name it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from redrive.errors import UsageError

DEFAULT = "redrive.db"
KEYS = ("store", "app", "endpoints", "alerts", "mask", "web")  # what a file may say

_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+]+:")


class _Framework(NamedTuple):
    """What a web framework's settings say: the store, the app, and which setting it was."""

    store: Callable[[], str]
    app: str
    source: str


_framework = [_Framework(lambda: "", "", "framework")]
"""The one of this process; it has no store if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What was found, and where."""

    store: str = DEFAULT
    app: str | None = None
    """The program's Redrive object, as `module:attribute`; only a file right here names it."""
    app_above: str | None = None
    """One that a file in a directory above names: it is shown and never imported."""
    source: str = "default"
    """Who named the store: "--store", "REDRIVE_STORE", a file's path, or "default"."""
    endpoints: Mapping[str, Mapping[str, object]] = field(default_factory=dict[str, Any])
    """What `[endpoints.NAME]` says about each, for `app.endpoint`."""
    alerts: Mapping[str, object] = field(default_factory=dict[str, Any])
    """What `[alerts]` says, for `redrive.alerts`."""
    secret_names: tuple[str, ...] = ()
    """What `[mask] names` says: more names of fields that hold secrets."""
    web: Mapping[str, str] = field(default_factory=dict[str, str])
    """What `[web]` says: the `name` and the `environment` that the console shows."""
    unknown: tuple[str, ...] = ()
    """Keys of the file that mean nothing here, most likely misspelled."""
    file: Path | None = None
    """The file that was read, if there is one."""


def find(
    *,
    store: str | None = None,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """Find the store and the app; `store` is what was said outright and wins."""
    environ = os.environ if environ is None else environ
    (framework,) = _framework
    sources = {
        "--store": store,
        framework.source: store or framework.store(),
        "REDRIVE_STORE": environ.get("REDRIVE_STORE"),
    }
    here = directory or Path.cwd()
    file, table = _nearest(here)
    app, kept = _text(table, "app", file), _text(table, "store", file)
    unknown = tuple(key for key in table if key not in KEYS)
    base = Config(
        app=(app if file is None or file.parent == here else None) or framework.app or None,
        app_above=None if file is None or file.parent == here else app,
        endpoints=_places(table, "endpoints", file),
        alerts=_alerts(table, file),
        secret_names=_secret_names(table, file),
        web=_web(table, file),
        unknown=unknown,
        file=file,
    )
    for source, value in sources.items():
        if value:
            return replace(base, store=value, source=source)
    if file is not None and kept is not None:
        return replace(base, store=anchored(kept, file.parent), source=str(file))
    return base


def use_framework(store: Callable[[], str], app: str, source: str) -> None:
    """Take the store and the app of this process from the settings of a web framework."""
    _framework[:] = [_Framework(store, app, source)]


def secret_names() -> tuple[str, ...]:
    """Return the names that the nearest file calls secret; a file that is wrong has none."""
    try:
        return _secret_names_near(Path.cwd())
    except (OSError, UsageError):
        return ()  # the commands say what is wrong with it


@lru_cache(maxsize=8)
def _secret_names_near(directory: Path) -> tuple[str, ...]:
    return find(directory=directory).secret_names


def place_of(store: str | os.PathLike[str] | Callable[[], str] | None) -> Callable[[], str]:
    """Return a function for the store that a program names, or the configured one.

    Paths are relative to the directory in which the program names them.
    """
    if callable(store):
        return lambda: anchored(store(), Path.cwd())
    try:
        named = find().store if store is None else os.fspath(store)
    except TypeError:
        msg = f'a store must be a path or a URL such as "jsonl:PATH"; found {store!r}'
        raise UsageError(msg) from None
    place = anchored(named, Path.cwd())
    return lambda: place


def anchored(url: str, directory: Path) -> str:
    """Make the relative path in a store's URL count from a directory."""
    scheme = next((known for known in ("sqlite:", "jsonl:") if url.startswith(known)), "")
    rest = url.removeprefix(scheme)
    if rest.startswith(("/", "~")) or (not scheme and _OTHER_SCHEME.match(url)):
        return url
    return f"{scheme}{directory / rest}"


def _nearest(directory: Path) -> tuple[Path | None, Mapping[str, object]]:
    for place in (directory, *directory.parents):
        own, shared = place / "redrive.toml", place / "pyproject.toml"
        table = _read(own)
        if table is not None:  # under [redrive], or at the top
            ours = _section(table, "redrive", file=own) or {}
            return own, {**{key: table[key] for key in table if key != "redrive"}, **ours}
        table = _read(shared, naming=b"redrive")
        section = None if table is None else _section(table, "tool", "redrive", file=shared)
        if section is not None:
            return shared, section
    return None, {}


def _read(file: Path, *, naming: bytes = b"") -> Mapping[str, object] | None:
    """Read a file if it is there; one that never names us is not worth parsing."""
    try:
        if file.exists() and not file.is_file():
            raise UsageError(f"{file} is not a regular file; replace or remove it")
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        # A directory above that we may not look into cannot be meant for us.
        return None
    except OSError as error:
        raise UsageError(f"cannot read {file} ({error.strerror}); correct or remove it") from error
    if naming not in content:
        return None
    import tomllib  # noqa: PLC0415 - most calls meet no file

    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from error


def _section(table: Mapping[str, object], *names: str, file: Path) -> Mapping[str, object] | None:
    section = table
    for name in names:
        inner = section.get(name)
        if inner is None:
            return None
        if not isinstance(inner, dict):
            raise UsageError(f"{name} in {file} must be a table, as in [{'.'.join(names)}]")
        section = cast("dict[str, object]", inner)
    return section


def _alerts(table: Mapping[str, object], file: Path | None) -> Mapping[str, object]:
    if file is None or (section := _section(table, "alerts", file=file)) is None:
        return {}
    return {**section, "channels": _places(section, "channels", file)}


def _web(table: Mapping[str, object], file: Path | None) -> Mapping[str, str]:
    if file is None or (section := _section(table, "web", file=file)) is None:
        return {}
    are_texts = all(isinstance(value, str) for value in section.values())
    if not are_texts or set(section) - {"name", "environment"}:
        msg = f'[web] in {file} may hold name and environment, as in name = "billing"'
        raise UsageError(f"{msg}; found {dict(section)!r}")
    return {name: str(value) for name, value in section.items()}


def _secret_names(table: Mapping[str, object], file: Path | None) -> tuple[str, ...]:
    if file is None or (section := _section(table, "mask", file=file)) is None:
        return ()
    names = cast("list[object]", section.get("names", []))
    is_right = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    if not is_right or set(section) - {"names"}:
        msg = f'[mask] in {file} must hold names, as in names = ["customer_number"]'
        raise UsageError(f"{msg}; found {dict(section)!r}")
    return tuple(map(str, names))


def _places(
    table: Mapping[str, object], key: str, file: Path | None
) -> Mapping[str, Mapping[str, object]]:
    """Return the tables of endpoints; the endpoints check what is in them."""
    if file is None or (section := _section(table, key, file=file)) is None:
        return {}
    endpoints: dict[str, Mapping[str, object]] = {}
    for name in section:
        settings = dict(_section(section, name, file=file) or {})
        if isinstance(settings.get("ca_file"), str):
            settings["ca_file"] = file.parent / str(settings["ca_file"])
        endpoints[name] = settings
    return endpoints


def _text(table: Mapping[str, object], key: str, file: Path | None) -> str | None:
    value = table.get(key)
    if value is None or (isinstance(value, str) and value):
        return value
    raise UsageError(f'{key} in {file} must be text, as in {key} = "…"; found {value!r}')
