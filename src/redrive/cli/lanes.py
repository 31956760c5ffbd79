"""Pausing and resuming lanes."""

from __future__ import annotations

from collections.abc import Collection

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option, reason_option
from redrive.cli._errors import NOTHING, Stop
from redrive.cli.output import Facts, Line, Part, View, fields
from redrive.jobs.durations import positive, words


@command(
    "pause",
    "redrive pause mail",
    "redrive pause mail --for 2h --reason 'provider is down'",
    "redrive pause http:railway --json",
)
@click.argument("lane")
@option("--for TIME", "For 90s, 5m, 2h …; else until `redrive resume`.", name="duration")
@option("--reason TEXT", "Why; shown in status.", default="")
@click.pass_obj
def pause(cli: Cli, lane: str, duration: str | None, reason: str) -> None:
    """Pause a lane for all workers; its jobs wait and use up no attempts."""
    span = None if duration is None else positive(duration, name="--for")
    with cli.acting() as desk:
        before = {pause.lane: pause for pause in desk.lanes.pauses()}.get(lane)
        action = desk.lanes.pause(lane, reason=reason, duration=span)
        counts = desk.jobs.counts()
        waiting = sum(c.jobs for c in counts if c.lane == lane and c.state == "pending")
        known = {c.lane for c in counts} | desk.lanes.served()
    if before is not None and before.by == "worker":
        cli.say(f"this replaces the pause that a worker set: {before.reason}")
    if lane not in known and not lane.startswith("provider:"):
        cli.say(f"no job and no worker has the lane {lane}{_meant(lane, known)}")
    ends = "until `redrive resume`" if span is None else f"for {words(span)}"
    data: dict[str, object] = {"lane": lane, "paused": True, "seconds": span}
    data |= {"reason": action.reason, "waiting": waiting}
    parts: list[Part] = [
        Line(f"lane {lane} is paused {ends}", "good"),
        Facts(fields("waiting"), data),
    ]
    cli.show(View(data, parts), then=f"redrive resume {lane}")


def _meant(lane: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - rarely needed

    within = sorted(name for name in known if name.startswith(f"{lane}."))
    near = within or get_close_matches(lane, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


@command(
    "resume",
    "redrive resume mail",
    "redrive resume mail --reason 'it works again'",
    "redrive resume mail --json",
)
@click.argument("lane")
@reason_option
@click.pass_obj
def resume(cli: Cli, lane: str, reason: str) -> None:
    """Resume a paused lane."""
    with cli.acting() as desk:
        if not any(pause.lane == lane for pause in desk.lanes.pauses()):
            raise Stop("nothing_matched", f"lane {lane} is not paused", exits=NOTHING)
        action = desk.lanes.resume(lane, reason=reason)
    data = {"lane": lane, "paused": False, "reason": action.reason}
    cli.show(View(data, [Line(f"lane {lane} is resumed", "good")]), then="redrive status")
