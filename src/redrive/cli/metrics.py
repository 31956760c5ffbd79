"""Metrics: numbers of jobs as a table, or all metrics in the text format of Prometheus."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli.output import Line, Part, Table, View, fields

_METRICS = fields(
    "metric state:word lane category:word jobs:number oldest_seconds=oldest:span",
    metric=lambda _: "redrive_jobs",
)


@command(
    "metrics",
    "redrive metrics",
    "redrive metrics --plain | grep ^redrive_jobs",
    "redrive metrics --prometheus --output /var/lib/node_exporter/redrive.prom",
)
@option("--prometheus", "All metrics in the text format of Prometheus.", name="as_text")
@option("--output -o FILE", "With --prometheus: write to FILE atomically.")
@click.pass_obj
def metrics(cli: Cli, output: str | None, *, as_text: bool) -> None:
    """Show the numbers of jobs by state, lane and category, and how long the oldest has waited."""
    if as_text:
        _prometheus(cli, output)
        return
    if output:
        raise click.UsageError("--output belongs to --prometheus")
    with cli.reading() as desk:
        counts, now = desk.jobs.counts(), desk.store.now()
    counts.sort(key=lambda count: (count.state, count.lane, count.category or ""))
    data = [
        {
            "state": count.state,
            "lane": count.lane,
            "category": count.category,
            "jobs": count.jobs,
            "oldest_seconds": None if count.oldest is None else max(0.0, now - count.oldest),
        }
        for count in counts
    ]
    parts: list[Part] = [Table(_METRICS, data) if data else Line("No jobs.")]
    cli.show(View(data, parts), then="redrive status")


def _prometheus(cli: Cli, output: str | None) -> None:
    if cli.json:
        hint = "redrive metrics --json"
        raise Stop("usage", "--prometheus has no JSON form", hint=hint, exits=USAGE)
    from redrive import metrics as exported  # noqa: PLC0415 - the table does without

    with cli.reading() as desk:
        try:
            text = exported.text(desk)
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
        part.replace(place)  # a collector never reads half of it
    finally:
        part.unlink(missing_ok=True)
    cli.say(f"metrics written to {place.absolute()}")
