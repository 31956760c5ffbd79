"""The metrics as text, for those who scrape by a file or look once."""

from __future__ import annotations

import sys

import click

from redrive import metrics
from redrive.cli._command import command
from redrive.cli._errors import FAILED, Stop
from redrive.cli._face import Face


@command(
    "prometheus",
    "redrive prometheus",
    "redrive prometheus --store postgresql://jobs@db/shop",
    "redrive prometheus > /var/lib/node_exporter/redrive.prom",
)
@click.pass_obj
def prometheus(face: Face) -> None:
    """Print the metrics as Prometheus reads them; docs/metrics.md says what each means."""
    with face.reading() as desk:
        try:
            text = metrics.text(desk)
        except ImportError as error:
            msg = f"metrics need an extra: pip install 'redrive[metrics]' ({error})"
            raise Stop("no_extra", msg, exits=FAILED) from error
    sys.stdout.write(text)
