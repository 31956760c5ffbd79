"""What the site prints below `docs/cli.md`: the commands and their options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import cleandoc

import click

from redrive.cli._command import Command, shared
from redrive.cli._root import EXAMPLES, SECTIONS, root


def page() -> str:
    """Return the part of the page that is made."""
    return "\n".join([*_front(), *_sections()])


def _front() -> Iterator[str]:
    yield _block(EXAMPLES)
    yield "These options stand before or after every command:\n"
    yield _table(shared(), click.Context(root, info_name="redrive"))
    yield "Only before it: `--yes` (`-y`), do not ask; `--version`.\n"


def _sections() -> Iterator[str]:
    top = click.Context(root, info_name="redrive")
    for title, names in SECTIONS.items():
        yield f"## {title}\n"
        for name in names:
            found = root.get_command(top, name)
            if isinstance(found, Command):
                yield from _command(found, name, click.Context(found, top, info_name=name))


def _command(command: Command, name: str, ctx: click.Context) -> Iterator[str]:
    pieces = [piece for piece in command.collect_usage_pieces(ctx) if piece != "[OPTIONS]"]
    yield f"### {' '.join(['redrive', name, *pieces])}\n"
    yield cleandoc(command.help or "") + "\n"
    yield _block(command.examples)
    common = {opt for param in shared() for opt in param.opts}
    options = [param for param in command.params if isinstance(param, click.Option)]
    own = [param for param in options if not common.issuperset(param.opts) and not param.hidden]
    if own:
        yield _table(own, ctx)


def _block(lines: tuple[str, ...]) -> str:
    return "\n".join(["```console", *(f"$ {line}" for line in lines), "```", ""])


def _table(params: Sequence[click.Parameter], ctx: click.Context) -> str:
    records = [record for param in params if (record := param.get_help_record(ctx))]
    rows = [f"| `{_cell(names)}` | {_cell(words)} |" for names, words in records]
    return "\n".join(["| option | |", "|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").strip()
