"""Alerts: the channels and their latest messages; sending a test message."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import click

from redrive.alerts import Alerts, Channel, listing
from redrive.cli._cli import Cli
from redrive.cli._command import app_option, command, option
from redrive.cli._errors import FAILED
from redrive.cli._load import find_program, program_name
from redrive.cli.output import Document, Line, Part, Table, View, fields
from redrive.cli.views import error_of
from redrive.desk.documents import job_document
from redrive.errors import StoreMissing

_RESULTS = fields("channel:id result:word answer:prose")


def _reads(channel: Document) -> str:
    """Return the variables that a channel reads, and if they are set."""
    reads, unset = cast("list[list[str]]", [channel["reads"], channel["not_set"]])
    return ", ".join(f"{name} ({'not set' if name in unset else 'set'})" for name in reads)


_CHANNELS = fields("channel:id kind:word reads:prose", reads=_reads)


@command(
    "alerts",
    "redrive alerts list",
    "redrive alerts test",
    "redrive alerts test --channel slack --app shop.jobs:app",
)
@click.argument("what", type=click.Choice(["list", "test"]))
@option("--channel NAME", "With test: only this channel.")
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
        raise click.UsageError(
            'no channel is set up: add [alerts.channels.slack] with url_env = "SLACK_URL" to redrive.toml'
        )
    data: list[dict[str, object]] = []
    for channel in channels:
        is_sent, answer = listing.send_test(channel, _now(cli))
        result = "sent" if is_sent else "failed"
        data.append({"channel": channel.name, "result": result, "answer": answer})
    cli.show(View(data, [Table(_RESULTS, data)]), then="redrive alerts list")
    if any(row["result"] == "failed" for row in data):
        raise click.exceptions.Exit(FAILED)


def _now(cli: Cli) -> float:
    from redrive.jobs.clock import SystemClock  # noqa: PLC0415

    return (cli.clock or SystemClock()).now()


def _list(cli: Cli, known: Alerts) -> None:
    sent: list[listing.Sent] = []
    with suppress(StoreMissing), cli.reading() as desk:  # channels can be set up before the store
        sent = listing.latest(desk)
    channels = listing.channels(known)
    messages = [job_document(message.job) for message in sent]
    rows = [
        {**document, "message": {"channel": message.channel, "title": message.title}}
        for message, document in zip(sent, messages, strict=True)
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


def _error(message: Document) -> str | None:
    failed = message["attempts"] and message["state"] != "completed"
    return error_of(message) if failed else None


_MESSAGES = fields(
    """id=job:id created=at:time message.channel=channel:word state:word attempts:number
    message.title=message:main error""",
    error=_error,
)
