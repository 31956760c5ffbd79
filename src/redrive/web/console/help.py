"""Help: keys, words, and the pages of `redrive help`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from redrive.web.call import Problem
from redrive.web.console.visit import Visit

FOLDER = Path(__file__).parents[2] / "cli" / "pages"
_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def help(visit: Visit) -> dict[str, Any]:  # noqa: A001 - the name of the page
    """Return the keys, the words and the list of pages."""
    _ = visit
    titles = {name: _title(text) for name, text in topics().items()}
    return {"here": "help", "line": "redrive help", "topics": titles}


def help_topic(visit: Visit) -> dict[str, Any]:
    """Return one page of `redrive help`."""
    name = visit.path["topic"]
    text = topics().get(name)
    if text is None:
        names = ", ".join(topics())
        raise Problem(404, "not_found", f"there is no help page {name!r}; the pages are: {names}")
    shown = {"name": name, "title": _title(text), "body": markup(text.partition("\n")[2])}
    return {"here": "help", "line": f"redrive help {name}", **shown}


@cache
def topics() -> dict[str, str]:
    """Return the pages of `redrive help` by name."""
    return {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def markup(text: str) -> Markup:
    """Return the Markdown of a help page as HTML: code, tables, lists, headings and paragraphs."""
    out = Markup()
    blocks = re.split(r"(?ms)^```\w*\n(.*?)^```$", text)
    for place, block in enumerate(blocks):
        if place % 2:
            out += Markup('<pre class="plaintrace" tabindex="0"><code>{}</code></pre>').format(
                block
            )
        else:
            for part in re.split(r"\n\s*\n", block.strip("\n")):
                out += _block(part)
    return out


def _block(part: str) -> Markup:
    lines = part.strip().splitlines()
    if not lines:
        return Markup()
    if lines[0].startswith("#"):
        return Markup("<h2>{}</h2>").format(lines[0].lstrip("# ")) + _block("\n".join(lines[1:]))
    if lines[0].startswith("|"):
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
        return _table(rows[0], rows[2:])
    if lines[0].startswith("- "):
        items = re.split(r"(?m)^- ", part.strip())[1:]
        listed = Markup("").join(Markup("<li>{}</li>").format(_inline(item)) for item in items)
        return Markup('<ul class="bullets">{}</ul>').format(listed)
    return Markup("<p>{}</p>").format(_inline(part))


def _table(head: list[str], rows: list[list[str]]) -> Markup:
    heads = _cells('<th scope="col">{}</th>', head)
    body = Markup("").join(Markup("<tr>{}</tr>").format(_cells("<td>{}</td>", row)) for row in rows)
    shown = Markup(
        '<div class="scroll" tabindex="0"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    )
    return shown.format(heads, body)


def _cells(tag: str, texts: list[str]) -> Markup:
    made = Markup(tag)  # noqa: S704 - our own
    return Markup("").join(made.format(_inline(text.strip("| "))) for text in texts)


def _inline(text: str) -> Markup:
    text = " ".join(text.split())
    marked = _CODE.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(_STRONG.sub(r"<strong>\1</strong>", marked))  # noqa: S704 - escaped, and our own pages
