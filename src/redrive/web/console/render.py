"""Rendering pages, and the static files: these have a hash of their content in their names."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from redrive import __version__
from redrive.jobs.clock import iso
from redrive.web.console import charts, shown
from redrive.web.console.pages import nav
from redrive.web.console.requests import Visit
from redrive.web.console.shown import Shown
from redrive.web.console.texts import NAMES, Texts, number

FOLDER = Path(__file__).with_name("templates")
STATIC = Path(__file__).with_name("static")
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One static file, as it is and compressed."""

    name: str
    """Its name in addresses: `console.1f2e3d4c5b.css`, so that browsers keep it for good."""
    kind: str
    plain: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the static files by their own name, such as `console.css`."""
    files = sorted(path for path in STATIC.iterdir() if path.suffix in _KINDS)
    return {path.name: _asset(path) for path in files}


def _asset(path: Path) -> Asset:
    plain = path.read_bytes()
    digest = hashlib.sha256(plain).hexdigest()[:12]
    kind = f"{_KINDS[path.suffix]}; charset=utf-8"
    return Asset(f"{path.stem}.{digest}{path.suffix}", kind, plain, gzip.compress(plain, mtime=0))


@cache
def by_public_name() -> dict[str, Asset]:
    """Return the static files by their name in addresses."""
    return {asset.name: asset for asset in assets().values()}


@cache
def templates() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    known: dict[str, Any] = {
        "asset": _asset_name,
        "charts": charts,
        "kinds": shown.KINDS,
        "languages": NAMES,
        "num": number,
        "phases": shown.PHASES,
        "traces_of": shown.traces,
        "version": __version__,
    }
    cast("dict[str, Any]", made.globals).update(known)
    return made


def bare(template: str, texts: Texts, root: str, data: Mapping[str, Any]) -> str:
    """Render a page outside the layout, without a user."""
    url = Shown(texts, 0.0, root).url
    return templates().get_template(template).render(t=texts, url=url, **data)


def page(visit: Visit, template: str, data: Mapping[str, Any]) -> str:
    """Render a whole page."""
    values = Shown(visit.texts, visit.desk.store.now(), visit.root)
    frame: dict[str, Any] = {
        "t": visit.texts,
        "url": values.url,
        "ago": values.ago,
        "moment": values.moment,
        "since": values.since,
        "span": visit.texts.span,
        "now": values.now,
        "clock": str(iso(values.now))[11:19],
        "can_act": visit.may("act"),
        "can_reveal": visit.may("reveal"),
        "me": visit.session.token,
        "csrf": visit.session.csrf,
        "has_cookie": visit.session.has_cookie,
        "place": visit.place,
        "back": visit.address,
        "notice": visit.notice,
        "notice_text": _notice_text(visit),
        "error": visit.error,
        "nav": nav(visit),
        "every": 0,
    }
    return templates().get_template(template).render({**frame, **data})


def _asset_name(name: str) -> str:
    return assets()[name].name


def _notice_text(visit: Visit) -> str:
    """Return what was done, in words; nothing for a notice that is not ours."""
    try:
        return visit.texts(f"notice.{visit.notice['key']}", **visit.notice["values"])
    except (KeyError, TypeError, ValueError, IndexError):
        return ""
