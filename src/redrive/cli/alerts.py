"""Alerts: the channels and their latest messages; sending a test message."""

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
from redrive.alerts.watch import channels_noted, kind_of
from redrive.cli._cli import Cli
from redrive.cli._command import app_option, command
from redrive.cli._errors import FAILED
from redrive.cli._load import find_program, program_name
from redrive.cli.output import Document, Line, Part, Table, View, fields
from redrive.cli.views import error_of
from redrive.desk.documents import job_document
from redrive.errors import StoreMissing
from redrive.payloads.masking import error_text

if TYPE_CHECKING:
    from redrive.jobs.job import Job

_LATEST = 20
_RESULTS = fields("channel:id result:word answer:prose")
_CHANNELS = fields("name=channel:id kind:word reads:prose")


@command(
    "alerts",
    "redrive alerts list",
    "redrive alerts test",
    "redrive alerts test --channel slack --app shop.jobs:app",
)
@click.argument("what", type=click.Choice(["list", "test"]))
@click.option("--channel", metavar="NAME", help="With test: only this channel.")
@app_option("The program whose alerts to use.")
@click.pass_obj
def alerts(cli: Cli, what: str, channel: str | None, app_name: str | None) -> None:
    """List the channels and the latest messages, or send a message now and print the answer.

    The channels are those of the program, named by --app or in the settings, else of `[alerts]`.
    """
    known = _alerts(cli, app_name)
    if what == "list":
        _list(cli, known)
    else:
        _test(cli, [_named(known, channel)] if channel else list(known.channels.values()))


def _alerts(cli: Cli, name: str | None) -> Alerts:
    """Return the alerts of the program, or those of the file."""
    program = program_name(cli, name)
    alerts = find_program(program).alerts if program else None
    return alerts if isinstance(alerts, Alerts) else Alerts()


def _named(alerts: Alerts, name: str) -> Channel:
    if name not in alerts.channels:
        names = ", ".join(alerts.channels) or "none"
        raise click.UsageError(f"no channel {name!r}; known: {names}")
    return alerts.channels[name]


def _test(cli: Cli, channels: Sequence[Channel]) -> None:
    if not channels:
        raise click.UsageError("no channel is set up: add [alerts.channels.slack] to redrive.toml")
    data: list[dict[str, object]] = []
    for channel in channels:
        text = "If you can read this, alerts of Redrive reach you here."
        message = plain("A test of Redrive's alerts", text, _now(cli))
        try:
            answer = channel.send(message, ident=f"test-{uuid.uuid4().hex}")
            result = "sent"
        except Exception as error:  # noqa: BLE001 - any error is the answer
            result, answer = "failed", error_text(error)
        data.append({"channel": channel.name, "result": result, "answer": answer})
    cli.show(View(data, [Table(_RESULTS, data)]), then="redrive alerts list")
    if any(row["result"] == "failed" for row in data):
        raise click.exceptions.Exit(FAILED)


def _now(cli: Cli) -> float:
    from redrive.jobs.clock import SystemClock  # noqa: PLC0415

    return (cli.clock or SystemClock()).now()


def _list(cli: Cli, known: Alerts) -> None:
    jobs: list[Job] = []
    channels = [
        {"name": channel.name, "kind": kind_of(channel), "reads": _variables(channel)}
        for channel in known.channels.values()
    ]
    try:
        with cli.reading() as desk:
            jobs = desk.jobs.find(handler=NAME, limit=_LATEST).jobs
            noted = channels_noted(desk.store)
    except StoreMissing:
        noted = []  # channels can be set up before there is a store
    for channel in noted:
        if channel["name"] not in known.channels:
            reads = ", ".join([*channel["reads"], "set up by the program"])
            channels.append({**channel, "reads": reads})
    messages = [job_document(job) for job in jobs]
    rows = [
        {**message, "message": _message(job)} for job, message in zip(jobs, messages, strict=True)
    ]
    parts: list[Part] = [
        Table(_CHANNELS, channels, "Channels", "channel")
        if channels
        else Line("No channel is set up.", "warn"),
        Table(_MESSAGES, rows, "Latest messages", "message"),
    ]
    data = {"channels": channels, "messages": messages}
    then = "redrive alerts test" if channels else "redrive help alerts"
    cli.show(View(data, parts, now=_now(cli)), then=then)


def _message(job: Job) -> dict[str, str]:
    """Return the channel and the title of a message, which are in the payload of its job."""
    try:
        payload = cast("dict[str, Any]", json.loads(job.payload))
        return {"channel": str(payload["channel"]), "title": str(payload["message"]["title"])}
    except (ValueError, KeyError, TypeError):
        return {"channel": "", "title": job.payload[:100]}


def _error(message: Document) -> str | None:
    failed = message["attempts"] and message["state"] != "completed"
    return error_of(message) if failed else None


_MESSAGES = fields(
    """id=job:id created=at:time message.channel=channel:word state:word attempts:number
    message.title=message:main error""",
    error=_error,
)


def _variables(channel: Channel) -> str:
    return ", ".join(
        f"{name} ({'set' if os.environ.get(name) else 'not set'})" for name in channel.variables
    )
