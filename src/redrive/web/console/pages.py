"""Rendering: a page is its frame, with parts that come from the cache while they are fresh."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import to_builtins

from redrive import __version__
from redrive.jobs.clock import iso
from redrive.web.console import charts, shown
from redrive.web.console.assets import assets
from redrive.web.console.parts import PARTS
from redrive.web.console.shown import Shown
from redrive.web.console.texts import NAMES, Texts, number
from redrive.web.console.visit import Visit

FOLDER = Path(__file__).with_name("templates")


class Piece(NamedTuple):
    """A rendered part."""

    html: Markup
    title: str
    """What it adds to the title of its page."""
    lasts: float
    """Seconds for which it is kept: until just before the next refresh."""


class Pages:
    """The templates."""

    def __init__(self) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        known: dict[str, Any] = {
            "asset": _asset,
            "charts": charts,
            "kinds": shown.KINDS,
            "languages": NAMES,
            "num": number,
            "phases": shown.PHASES,
            "traces_of": shown.traces,
            "version": __version__,
        }
        cast("dict[str, Any]", self._templates.globals).update(known)

    def bare(self, template: str, texts: Texts, root: str, data: Mapping[str, Any]) -> str:
        """Render a page without a frame, for nobody in particular."""
        return self._templates.get_template(template).render(
            t=texts, url=Shown(texts, 0.0, root).url, **data
        )

    def page(self, visit: Visit, template: str, data: Mapping[str, Any]) -> str:
        """Render a whole page."""

        def part(name: str, **query: str) -> Piece:
            return self.part(visit.with_query(_typed(name, query)), name)

        return self._templates.get_template(template).render(
            **self._common(visit),
            part=part,
            me=visit.session.token,
            csrf=visit.session.csrf,
            place=visit.place,
            back=visit.address,
            notice=visit.notice,
            notice_text=_notice_text(visit),
            error=visit.error,
            is_open=not visit.session.id,
            **data,
        )

    def part(self, visit: Visit, name: str) -> Piece:
        """Return a part, rendered at most once in its time for each language and right."""
        query = urlencode(to_builtins(visit.query)) if visit.query is not None else ""
        key = (name, query, visit.texts.language, visit.right, visit.root)
        return visit.shared.get(
            key, lambda piece: piece.lasts, lambda: self._render(visit, name, query)
        )

    def _render(self, visit: Visit, name: str, query: str) -> Piece:
        data = PARTS[name].does(visit)
        every = data.get("every", PARTS[name].every)
        address = visit.root + f"/part/{name}" + (f"?{query}" if query else "")
        html = self._templates.get_template(f"parts/{name}.html").render(
            **{**self._common(visit), **data, "every": every, "address": address, "part_name": name}
        )
        lasts = (every or PARTS[name].every) - 0.2
        return Piece(Markup(html), str(data.get("title", "")), lasts)  # noqa: S704 - our own template

    def _common(self, visit: Visit) -> dict[str, Any]:
        values = Shown(visit.texts, visit.desk.store.now(), visit.root)
        return {
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
        }


def _asset(name: str) -> str:
    return assets()[name].name


def _notice_text(visit: Visit) -> str:
    """Return what was done, in words; nothing for a notice that is not ours."""
    try:
        return visit.texts(f"notice.{visit.notice['key']}", **visit.notice["values"])
    except (KeyError, TypeError, ValueError, IndexError):
        return ""


def _typed(name: str, query: Mapping[str, str]) -> Any:
    from redrive.web.reads import checked  # noqa: PLC0415 - what is asked here is ours

    return checked(dict(query), PARTS[name].query, name, strict=False)
