"""A command with examples on top of its help and the options that all commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from redrive.cli._face import Face

Function = Callable[..., None]


class Command(click.Command):
    """A click command whose help starts with examples."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params += shared()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples first: they are what people look for."""
        write_examples(self.examples, formatter)
        super().format_help(ctx, formatter)


def command(name: str, *examples: str, **settings: Any) -> Callable[[Function], Command]:
    """Make a command of a function; the examples are lines that can be typed as they are."""
    settings.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
    return click.command(name, cls=Command, examples=examples, **settings)


def write_examples(examples: tuple[str, ...], formatter: click.HelpFormatter) -> None:
    """Write examples as they are, one a line."""
    formatter.write("Examples:\n")
    for example in examples:
        formatter.write(f"  {example}\n")
    formatter.write("\n")


def shared() -> list[click.Parameter]:
    """Give the options that stand before or after any command."""
    return [
        click.Option(
            ["--store"],
            metavar="URL",
            help="The store: a path (SQLite), jsonl:PATH or postgresql://…",
            expose_value=False,
            callback=_keep,
        ),
        click.Option(
            ["--plain"],
            is_flag=True,
            help="Stable plain text, tabs between values (the default in a pipe).",
            expose_value=False,
            callback=_keep,
        ),
        click.Option(
            ["--json"],
            is_flag=True,
            help="One JSON document.",
            expose_value=False,
            callback=_keep,
        ),
    ]


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Note an option where it was given; the group and the command fill the same face."""
    face = ctx.ensure_object(Face)
    if value == "":
        raise click.BadParameter("a store must have a name", ctx=ctx, param=param)
    if value and param.name:
        setattr(face, param.name, value)
    if face.json and face.plain:
        raise click.UsageError("give --json or --plain, not both", ctx=ctx)
