"""The demo, as a command."""

from __future__ import annotations

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli._errors import FAILED


@command("demo", "redrive demo", "redrive demo --plain", "redrive demo --no-color")
@click.pass_context
def demo(ctx: click.Context) -> None:
    """Watch a bad night, in under a minute: jobs fail, are retried, die, are mended and redriven.

    A server on this machine plays the world outside. Everything is in a temporary directory, which is
    gone afterwards; no store of yours is touched. Exits with 1 if it did not end as told.
    """
    from redrive.contrib.demo.screen import Screen  # noqa: PLC0415 - what runs jobs is loaded when needed
    from redrive.contrib.demo.story import tell  # noqa: PLC0415

    cli = ctx.ensure_object(Cli)
    if not tell(Screen(plain=cli.plain, no_color=cli.no_color)):
        ctx.exit(FAILED)
