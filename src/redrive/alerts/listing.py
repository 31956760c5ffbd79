"""The channels and their latest messages, as every face lists them, and a message to test one."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from redrive.alerts.conditions import NAME
from redrive.alerts.messages import of_test
from redrive.desk import shapes
from redrive.payloads.masking import error_text

if TYPE_CHECKING:
    from redrive.alerts import Alerts
    from redrive.alerts.channels import Channel
    from redrive.desk.desk import Desk
    from redrive.jobs.job import Job

LATEST = 20  # messages that are listed


class Sent(NamedTuple):
    """A message: its job, and the channel and the title in the job's payload."""

    job: Job
    channel: str
    title: str


def channels(alerts: Alerts | None) -> list[shapes.AlertChannel]:
    """Return the channels that are set up here."""
    return [
        {
            "channel": channel.name,
            "kind": type(channel).__name__.lower(),
            "reads": [*channel.variables],
            "not_set": [name for name in channel.variables if not os.environ.get(name)],
        }
        for channel in (alerts.channels.values() if alerts else ())
    ]


def latest(desk: Desk, limit: int = LATEST) -> list[Sent]:
    """Return the newest messages; each is a job."""
    return [_sent(job) for job in desk.jobs.find(handler=NAME, limit=limit).jobs]


def _sent(job: Job) -> Sent:
    try:
        payload = cast("dict[str, Any]", json.loads(job.payload))
        return Sent(job, str(payload["channel"]), str(payload["message"]["title"]))
    except (ValueError, KeyError, TypeError):
        return Sent(job, "", job.payload[:100])


def send_test(channel: Channel, now: float) -> tuple[bool, str]:
    """Send a message by a channel; returns if it was accepted, and the answer or the error."""
    try:
        return True, channel.send(of_test(now), ident=f"test-{uuid.uuid4().hex}")
    except Exception as error:  # noqa: BLE001 - any error is the answer
        return False, error_text(error)
