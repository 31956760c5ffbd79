"""The metrics in the text format of Prometheus."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from redrive import metrics
from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import FAILED, USAGE, Stop


@command(
    "prometheus",
    "redrive prometheus",
    "redrive prometheus --store postgresql://jobs@db/shop",
    "redrive prometheus --output /var/lib/node_exporter/redrive.prom",
)
@option("--output -o FILE", "Replace this file, whole, instead.")
@click.pass_obj
def prometheus(cli: Cli, output: str | None) -> None:
    """Print all metrics in the text format of Prometheus; there is no JSON form of it."""
    if cli.json:
        msg = "prometheus prints Prometheus text only"
        raise Stop("usage", msg, hint="redrive metrics --json", exits=USAGE)
    with cli.reading() as desk:
        try:
            text = metrics.text(desk)
        except ImportError as error:
            msg = f"metrics need an extra: pip install 'redrive[metrics]' ({error})"
            raise Stop("no_extra", msg, exits=FAILED) from error
    if output in {None, "-"}:
        sys.stdout.write(text)
        return
    place = Path(output or "")
    part = place.with_name(f"{place.name}.part-{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(place)  # who collects it never reads half of it
    finally:
        part.unlink(missing_ok=True)
    cli.say(f"metrics written to {place.absolute()}")
