"""`redrive help [COMMAND]`: Markdown on a terminal with rich, else the text of `--help`."""

from __future__ import annotations

import re

import click

from redrive.cli._command import command
from redrive.cli.output import Line, View


@command("help", "redrive help", "redrive help retry", "redrive help retry --plain")
@click.argument("name", required=False, metavar="[COMMAND]")
@click.pass_context
def help_(ctx: click.Context, name: str | None) -> None:
    """Show the help of a command, or the list of commands."""
    here = ctx.find_root()
    text = here.get_help()
    if name is not None and isinstance(here.command, click.Group):
        found = here.command.get_command(here, name)
        if found is None:
            raise click.UsageError(f"no command {name!r}; `redrive help` lists the commands")
        text = found.get_help(click.Context(found, here, info_name=name))
    # A heading, and each list below it as a block of code.
    markdown = re.sub(r"(?m)^([\w ]+):\n((?:  .*\n?|\n)+)", "## \\1\n```\n\\2```\n", f"{text}\n")
    if ctx.obj.json or not ctx.obj.show_markdown(markdown):
        ctx.obj.show_raw(View({"help": text}, [Line(line) for line in text.splitlines()]))
