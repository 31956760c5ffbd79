"""The time zone of times that name none: `--assume-tz`, or asked for on a terminal."""

from __future__ import annotations

from datetime import tzinfo
from functools import cache

import click

from redrive.cli._confirm import is_interactive
from redrive.desk.transfer.formats.times import Zone, no_zone, zone_of

zone_option = click.option(
    "--assume-tz", metavar="ZONE", help="Time zone of times without one, such as Asia/Tokyo."
)


def zone_named(name: str | None) -> Zone:
    """Return the time zone that was named; else ask for it once, if there is a terminal."""
    if name is not None:
        zone = zone_of(name)
        return lambda: zone
    return cache(_ask_zone)


def _ask_zone() -> tzinfo | None:
    if not is_interactive():
        return no_zone()
    question = "Some times have no time zone. Which one is it (Asia/Tokyo, UTC, local)?"
    return zone_of(click.prompt(question, err=True))
