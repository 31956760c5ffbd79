"""The help pages: Markdown on a terminal, plain text elsewhere."""

from __future__ import annotations

import re
import sys
from importlib.resources import files

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli.output import Line, Table, View, fields

_MARKS = re.compile(r"^#+ |\*\*|`", re.MULTILINE)
_FENCES = re.compile(r"^```\w*\n", re.MULTILINE)


@command("help", "redrive help", "redrive help selectors", "redrive help exit-codes --plain")
@click.argument("topic", required=False, metavar="[TOPIC]")
@click.pass_context
def help_(ctx: click.Context, topic: str | None) -> None:
    """Show a help page, or the list of pages; with the name of a command, its help."""
    cli: Cli = ctx.obj
    pages = topics()
    root = ctx.find_root().command
    if topic is None:
        data = [{"topic": name, "about": _title(text)} for name, text in pages.items()]
        cli.show(View(data, [Table(fields("topic:id about:main"), data)]), then="redrive --help")
    elif topic in pages:
        _show(cli, topic, pages[topic])
    elif isinstance(root, click.Group) and (named := root.get_command(ctx, topic)):
        sys.stdout.write(named.get_help(click.Context(named, ctx.parent, info_name=topic)) + "\n")
    else:
        raise click.UsageError(f"no page {topic!r}; known: {', '.join(pages)}")


def topics() -> dict[str, str]:
    """Return the text of each page by its name."""
    pages = files("redrive.cli").joinpath("pages").iterdir()
    texts = {page.name.removesuffix(".md"): page.read_text(encoding="utf-8") for page in pages}
    return dict(sorted(texts.items()))


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _show(cli: Cli, topic: str, text: str) -> None:
    if not cli.json and cli.show_markdown(text):
        return
    plain = _MARKS.sub("", _FENCES.sub("", text))
    cli.show_raw(View({"topic": topic, "text": text}, [Line(line) for line in plain.splitlines()]))
