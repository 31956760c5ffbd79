"""The channels and their latest messages, as every face lists them, and a message to test one."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from redrive.alerts.conditions import NAME
from redrive.alerts.messages import plain
from redrive.alerts.watch import channels_noted, kind_of
from redrive.payloads.masking import error_text

if TYPE_CHECKING:
    from redrive.alerts import Alerts
    from redrive.alerts.channels import Channel
    from redrive.desk.desk import Desk
    from redrive.jobs.job import Job

LATEST = 20  # messages that are listed


class ListedChannel(NamedTuple):
    """A channel: its name and kind, and the environment variables that it reads."""

    name: str
    kind: str
    variables: tuple[str, ...]
    is_here: bool
    """False if another program has set it up, so that it cannot be tested here."""

    @property
    def unset(self) -> list[str]:
        """The variables without which it cannot send; nothing is known of another program's."""
        return [name for name in self.variables if self.is_here and not os.environ.get(name)]


class Sent(NamedTuple):
    """A message: its job, and the channel and the title in the job's payload."""

    job: Job
    channel: str
    title: str


def channels(known: Alerts | None, desk: Desk | None) -> list[ListedChannel]:
    """Return the channels that are set up here, and those that the last watching program had."""
    own = known.channels if known else {}
    here = [ListedChannel(c.name, kind_of(c), tuple(c.variables), True) for c in own.values()]
    noted = channels_noted(desk.store) if desk else []
    there = [ListedChannel(c["name"], c["kind"], tuple(c["reads"]), False) for c in noted]
    return [*here, *(channel for channel in there if channel.name not in own)]


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
    text = "If you can read this, alerts of Redrive reach you here."
    message = plain("A test of Redrive's alerts", text, now)
    try:
        return True, channel.send(message, ident=f"test-{uuid.uuid4().hex}")
    except Exception as error:  # noqa: BLE001 - any error is the answer
        return False, error_text(error)
