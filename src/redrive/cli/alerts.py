"""Alerts: who is told and what was told lately; one message now, to see whether it arrives."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from redrive.alerts import Alerts, Channel
from redrive.alerts.conditions import NAME
from redrive.alerts.messages import plain
from redrive.cli._command import command
from redrive.cli._errors import FAILED
from redrive.cli._face import Face
from redrive.cli._load import find_program, program_name
from redrive.cli.output import Cell, Line, Part, Table, View, When, columns
from redrive.desk.documents import error_line, job_document
from redrive.errors import StoreMissing
from redrive.payloads.masking import error_text

if TYPE_CHECKING:
    from redrive.jobs.job import Job

_LATEST = 20


@command(
    "alerts",
    "redrive alerts list",
    "redrive alerts test",
    "redrive alerts test --channel slack --app shop.jobs:app",
)
@click.argument("what", type=click.Choice(["list", "test"]))
@click.option("--channel", metavar="NAME", help="With test: only this channel.")
@click.option("--app", "app_name", metavar="MODULE:APP", help="The program whose alerts are meant.")
@click.pass_obj
def alerts(face: Face, what: str, channel: str | None, app_name: str | None) -> None:
    """List the channels and the latest messages, or send a message now and print the answer.

    The channels are those of the program, named by --app or in the settings, else of `[alerts]`.
    """
    found = _alerts(face, app_name)
    if what == "list":
        _list(face, found)
    else:
        _test(face, [_named(found, channel)] if channel else list(found.channels.values()))


def _alerts(face: Face, name: str | None) -> Alerts:
    """Return the alerts of the program, or those of the file."""
    program = program_name(face, name)
    said = find_program(program).alerts if program else None
    return said if isinstance(said, Alerts) else Alerts()


def _named(found: Alerts, name: str) -> Channel:
    if name not in found.channels:
        raise click.UsageError(f"no channel {name!r}; known: {', '.join(found.channels) or 'none'}")
    return found.channels[name]


def _test(face: Face, channels: Sequence[Channel]) -> None:
    if not channels:
        raise click.UsageError("no channel is set up: add [alerts.channels.slack] to redrive.toml")
    rows: list[list[Cell]] = []
    for one in channels:
        text = "If you can read this, alerts of Redrive reach you here."
        message = plain("A test of Redrive's alerts", text, _now(face))
        try:
            rows.append([one.name, "sent", one.send(message, ident=f"test-{uuid.uuid4().hex}")])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            rows.append([one.name, "failed", error_text(error)])
    names = ("channel", "result", "answer")
    data = [dict(zip(names, row, strict=True)) for row in rows]
    heads = columns("channel:id", "result:word", "answer")
    face.show(View(data, [Table(heads, rows)]), then="redrive alerts list")
    if any(row[1] == "failed" for row in rows):
        raise click.exceptions.Exit(FAILED)


def _now(face: Face) -> float:
    from redrive.jobs.clock import SystemClock  # noqa: PLC0415

    return (face.clock or SystemClock()).now()


def _list(face: Face, found: Alerts) -> None:
    jobs: list[Job] = []
    try:
        with face.reading() as desk:
            jobs = desk.jobs.find(handler=NAME, limit=_LATEST).jobs
    except StoreMissing:
        pass  # channels can be set up before there is a store
    channels: list[list[Cell]] = [
        [one.name, type(one).__name__.lower(), _variables(one)] for one in found.channels.values()
    ]
    parts: list[Part] = [
        Table(columns("channel:id", "kind:word", "reads"), channels, "Channels", "channel")
        if channels
        else Line("No channel is set up.", "warn")
    ]
    rows = [_row(job, _now(face)) for job in jobs]
    heads = columns("job:id", "at:time", "channel:word", "state:word", "tries:number", "message", "error")  # fmt: skip
    if rows:
        parts.append(Table(heads, rows, "Latest messages", "message"))
    data = {
        "channels": [
            {"name": name, "kind": kind, "reads": reads} for name, kind, reads in channels
        ],
        "messages": [job_document(job) for job in jobs],
    }
    face.show(View(data, parts), then="redrive alerts test")


def _row(job: Job, now: float) -> list[Cell]:
    try:
        said = cast("dict[str, Any]", json.loads(job.payload))
        channel, title = str(said["channel"]), str(said["message"]["title"])
    except (ValueError, KeyError, TypeError):
        channel, title = "", job.payload[:100]
    error = error_line(job.failure) if job.attempts and job.state != "completed" else None
    return [job.id, When(job.created, now), channel, job.state.value, job.attempts, title, error]


def _variables(channel: Channel) -> str:
    return ", ".join(
        f"{one} ({'set' if os.environ.get(one) else 'not set'})" for one in channel.variables
    )
