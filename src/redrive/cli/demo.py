"""The demo, as a command."""

from __future__ import annotations

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli._errors import FAILED

NAMES = ("hooks", "articles", "summaries", "sync", "events")
"""The examples that have a demo of their own."""


@command("demo", "redrive demo", "redrive demo hooks", "redrive demo --plain")
@click.argument("name", required=False, type=click.Choice(NAMES), metavar="[EXAMPLE]")
@click.pass_context
def demo(ctx: click.Context, name: str | None) -> None:
    """Watch jobs fail, be retried, die, be repaired and be retried again, in under a minute.

    With the name of an example (hooks, articles, summaries, sync, events) its own code runs, on a clock
    whose waits pass a thousand times as fast. A local server plays the services that jobs call.
    Everything is in a temporary directory, which is removed at the end; your stores are not touched.
    Exits with 1 if the demo did not end as expected.
    """
    from redrive.contrib.demo import story, users  # noqa: PLC0415 - what runs jobs is loaded when needed
    from redrive.contrib.demo.screen import Screen  # noqa: PLC0415

    cli = ctx.ensure_object(Cli)
    screen = Screen(plain=cli.plain, no_color=cli.no_color)
    is_right = story.tell(screen) if name is None else users.tell(name, screen)
    if not is_right:
        ctx.exit(FAILED)
