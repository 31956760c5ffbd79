"""A command with examples at the top of its help, and the options that all commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import click

from redrive.cli._cli import Cli

Function = Callable[..., None]


class Command(click.Command):
    """A click command whose help starts with examples."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        taken = {name for param in self.params for name in param.opts}
        self.params += [param for param in shared() if not taken.intersection(param.opts)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples before the rest of the help."""
        write_examples(self.examples, formatter)
        super().format_help(ctx, formatter)


def option(
    declared: str, about: str = "", kind: Any = None, *, name: str = "", **settings: Any
) -> Callable[[Any], Any]:
    """Declare an option as it is typed: `--limit N` takes a value, `--dry-run` is a flag.

    `kind` is the type of its value, or the list of its values. A default that is not empty is shown.
    """
    words = declared.split()
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :]) or None
    is_flag = metavar is None and kind is None and "multiple" not in settings
    return click.option(
        *filter(None, [*names, name]),
        type=click.Choice(cast("list[str]", kind)) if isinstance(kind, list) else kind,
        metavar=metavar,
        help=about,
        is_flag=is_flag or None,  # False would make the value optional
        show_default=bool(settings.get("default")),
        **settings,
    )


reason_option = option("--reason TEXT", "Why; kept in the audit log.", default="")
yes_option = option("--yes -y", "Do not ask.")


def app_option(about: str) -> Callable[[Any], Any]:
    """Add the option --app, which names a program."""
    return option("--app MODULE:APP", about, name="app_name")


def command(name: str, *examples: str, **settings: Any) -> Callable[[Function], Command]:
    """Make a command from a function; the examples are lines that can be typed as they are."""
    settings.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
    return click.command(name, cls=Command, examples=examples, **settings)


def write_examples(examples: tuple[str, ...], formatter: click.HelpFormatter) -> None:
    """Write examples as they are, one a line."""
    formatter.write("Examples:\n")
    for example in examples:
        formatter.write(f"  {example}\n")
    formatter.write("\n")


def shared() -> list[click.Parameter]:
    """Return the options that stand before or after any command."""
    flags = {
        "--plain": "Plain text with tabs between values (the default in a pipe).",
        "--json": "One JSON document.",
        "--jsonl": "Lists as one JSON document a line.",
        "--no-color": "No colours, as with NO_COLOR=1.",
        "--quiet": "Suggest no next command, show no progress.",
        "--verbose": "Log more on standard error.",
    }
    short = {"--quiet": ["-q"], "--verbose": ["-v"]}
    store = click.Option(
        ["--store"],
        metavar="URL",
        help="The store: a path (SQLite), jsonl:PATH or postgresql://…",
        expose_value=False,
        callback=_keep,
    )
    return [
        store,
        *(
            click.Option(
                [name, *short.get(name, [])],
                is_flag=True,
                help=text,
                expose_value=False,
                callback=_keep,
            )
            for name, text in flags.items()
        ),
    ]


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Store an option; it may stand before or after the command."""
    cli = ctx.ensure_object(Cli)
    if value == "":
        raise click.BadParameter("the name of the store is empty", ctx=ctx, param=param)
    if value and param.name:
        setattr(cli, param.name, value)
    if cli.jsonl:
        cli.json = True
    if cli.json and cli.plain:
        raise click.UsageError("use --json or --plain, not both", ctx=ctx)
