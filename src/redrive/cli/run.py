"""Running: one pass over what is due, for cron and scripts."""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict

import click

from redrive.cli._command import command
from redrive.cli._errors import PARTLY
from redrive.cli._face import Face
from redrive.cli._load import load_app
from redrive.cli.output import Facts, View


@command(
    "work",
    "redrive work shop.jobs:app --once",
    "redrive work shop.jobs:app --once --ignore-backoff",
    "redrive work --once -v          # the app named in redrive.toml",
)
@click.argument("app_name", metavar="[MODULE:APP]", required=False)
@click.option("--once", is_flag=True, help="Run what is due, each job once, and end.")
@click.option("--ignore-backoff", is_flag=True, help="Take every pending job, pauses too.")
@click.option("--limit", type=click.IntRange(0), default=0, metavar="N", help="At most so many.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Log what happens on standard error (the default on a terminal).",
)
@click.pass_obj
def work(
    face: Face, app_name: str | None, *, once: bool, ignore_backoff: bool, limit: int, verbose: bool
) -> None:
    """Run what is due; exit 6 when some jobs failed (they are kept and retried)."""
    if not once:
        raise click.UsageError("add --once: it runs what is due and ends; run it again from cron")
    name = app_name or face.config.app
    if not name:
        msg = 'name your program as module:app, or in redrive.toml: app = "shop.jobs:app"'
        raise click.UsageError(msg)
    level = logging.INFO if verbose or sys.stderr.isatty() else logging.WARNING
    # What handlers print must not get into the document.
    aside = redirect_stdout(sys.stderr) if face.json else nullcontext()
    with aside, load_app(face, name, level=level) as app:
        done = app.run_due(ignore_backoff=ignore_backoff, limit=limit)
    facts = asdict(done)
    face.show(View(facts, [Facts(list(facts.items()))]), then="redrive status")
    if done.failed:
        raise click.exceptions.Exit(PARTLY)
