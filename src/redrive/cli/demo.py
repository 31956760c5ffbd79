"""The demo, as a command."""

from __future__ import annotations

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli._errors import FAILED


@command("demo", "redrive demo", "redrive demo --plain", "redrive demo --no-color")
@click.pass_context
def demo(ctx: click.Context) -> None:
    """Watch jobs fail, be retried, die, be repaired and be retried again, in under a minute.

    A local server plays the services that jobs call. Everything is in a temporary directory, which is
    removed at the end; your stores are not touched. Exits with 1 if the demo did not end as expected.
    """
    from redrive.contrib.demo.screen import Screen  # noqa: PLC0415 - what runs jobs is loaded when needed
    from redrive.contrib.demo.story import tell  # noqa: PLC0415

    cli = ctx.ensure_object(Cli)
    if not tell(Screen(plain=cli.plain, no_color=cli.no_color)):
        ctx.exit(FAILED)
