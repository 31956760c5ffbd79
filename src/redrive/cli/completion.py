"""Completion for shells: the script they load, and the candidates for a word."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from redrive.cli._cli import Cli
from redrive.cli._command import Kind, command
from redrive.cli.views import error_of
from redrive.desk.desk import Desk
from redrive.desk.documents import job_document
from redrive.errors import RedriveError
from redrive.payloads.escaping import inert

NEWEST = 200  # how many jobs of each state are candidates for an id
SHORT = 60


@command(
    "completion",
    "redrive completion bash >> ~/.bashrc",
    "redrive completion zsh >> ~/.zshrc",
    "redrive completion fish > ~/.config/fish/completions/redrive.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands, options, ids, groups and lanes."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click has no completion for {shell}")
    made = kind(ctx.find_root().command, {}, "redrive", "_REDRIVE_COMPLETE")
    # Not its own `source`: that of bash starts bash to look at its version.
    sys.stdout.write(ShellComplete.source(made) + "\n")


def suggestions(cli: Cli, kind: Kind, begun: str) -> list[CompletionItem]:
    """Return the candidates for the beginning of a word; print no errors into the shell."""
    try:
        with redirect_stderr(io.StringIO()), cli.reading() as desk:
            known = list(_known(desk, kind, begun))
    except (RedriveError, OSError, click.ClickException):
        return []
    return [
        CompletionItem(word, help=inert(about)[:SHORT])
        for word, about in known
        if word.upper().startswith(begun.upper())
    ]


def _known(desk: Desk, kind: Kind, begun: str) -> Iterator[tuple[str, str]]:
    if kind in {"selector", "group"}:
        for group in desk.groups.find(limit=NEWEST):
            yield group.name, f"{group.jobs:,} {group.title}"
    if kind == "run":
        for run in desk.runs.recent():
            yield f"R{run.number}", run.name
    if kind == "lane":
        lanes = {count.lane for count in desk.jobs.counts()}
        yield from ((lane, "") for lane in sorted(lanes))
    if kind == "id" or (kind == "selector" and begun):
        for state in ("dead", "pending"):
            for job in desk.jobs.find(state=state, by_change=True, limit=NEWEST).jobs:
                yield job.id, f"{state} {job.handler} {error_of(job_document(job)) or ''}"
