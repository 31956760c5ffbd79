"""The metrics in the text format of Prometheus."""

from __future__ import annotations

import sys

import click

from redrive import metrics
from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli._errors import FAILED, USAGE, Stop


@command(
    "prometheus",
    "redrive prometheus",
    "redrive prometheus --store postgresql://jobs@db/shop",
    "redrive prometheus > /var/lib/node_exporter/redrive.prom",
)
@click.pass_obj
def prometheus(cli: Cli) -> None:
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
    sys.stdout.write(text)
