"""The texts of alerts, safe to show everywhere.

Text from jobs comes masked from the desk and is made inert here. Of a payload nothing gets into a message but the fields
that were listed, and templates are filled by plain replacement: no format language meets their values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from redrive.alerts.rules import Cause, Change, Condition, LastAlert
from redrive.errors import UsageError
from redrive.jobs.durations import words
from redrive.jobs.job import Job
from redrive.payloads.masking import inert, mask_text
from redrive.registry import check_name

LONGEST = 2000
"""Characters of a message, at most."""
_TITLE = 200
_LISTED = 10
"""How many changes a message about many names."""
_PLACE = re.compile(r"\{([\w.-]+)\}")
_PLACES = ("attempts", "category", "cause", "count", "error", "group", "handler", "job")
_PAYLOAD = "payload."
_HEADS = {
    "new": "NEW", "growing": "GROWING", "old": "STILL OPEN", "regressed": "BACK AGAIN",
    "resolved": "RESOLVED", "paused": "PAUSED", "unserved": "UNSERVED", "stopped": "RUN STOPPED",
    "silent": "WORKER SILENT", "idle": "IDLE", "over": "OVER",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent, the same for every channel."""

    type: str
    state: str
    subject: str
    title: str
    text: str
    at: float
    facts: Mapping[str, object] = field(default_factory=dict[str, object])
    """The same as numbers and names, for machines."""

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Message:
        """Make a message of what a job carries."""
        return cls(**{name: value[name] for name in cls.__annotations__ if name in value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How messages are worded: templates and type names by handler, and the fields they may show."""

    templates: Mapping[str, str] = field(default_factory=dict[str, str])
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    fields: Sequence[str] = ()

    def __post_init__(self) -> None:
        for kind in self.types.values():
            check_name(kind)
        known = {*_PLACES, *(_PAYLOAD + name for name in self.fields)}
        for handler, template in self.templates.items():
            if not isinstance(template, str):
                msg = f"the template of {handler} must be text; a name with dots needs quotes"
                raise UsageError(msg)
            for place in _PLACE.findall(template):
                if place not in known:
                    more = '; list it in fields=["…"]' if place.startswith(_PAYLOAD) else ""
                    msg = (
                        f"the template of {handler} uses {{{place}}}, which is not allowed{more}; "
                        f"known: {', '.join(sorted(known))}"
                    )
                    raise UsageError(msg)


def worded(change: Change, now: float, wording: Wording, newest: Job | None = None) -> Message:
    """Return the message for a change; `newest` is the cause's newest dead job."""
    about = change.about
    if isinstance(about, Cause):
        return _of_cause(change, about, now, wording, newest)
    if isinstance(about, Condition):
        lines = [f"Since {moment(about.since)}."]
        lines += [f"Look: {about.command}"] if about.command else []
        return _message(change, about.title, lines, now, command=about.command)
    return _of_end(change, now)


def _of_cause(
    change: Change, cause: Cause, now: float, wording: Wording, newest: Job | None
) -> Message:
    handler = newest.handler if newest else (cause.handlers or ("",))[0]
    template = wording.templates.get(handler)
    headline = f"{cause.title} ({_jobs(cause.jobs)})"
    if template and newest:
        headline = filled(template, cause, newest, wording.fields)
    grown = _grown(cause, change.before) if change.state == "growing" else ""
    kind = wording.types.get(handler, "")
    error = newest.failure.message if newest and newest.failure else ""
    lines = [
        *([f"Cause: {cause.title}"] if template else []),
        f"{_jobs(cause.jobs)} dead, {cause.recent:,} in the last 10 minutes{grown}.",
        f"Since {moment(cause.since)}, last {moment(cause.last)}; first seen {moment(cause.first)}.",
        f"Category: {cause.category}",
        f"Handlers: {', '.join(cause.handlers)}",
        *([f"Type: {kind}"] if kind else []),
        *([f"Newest: {inert(error)[:300]}"] if error else []),
        f"Look: redrive group {cause.subject}",
        f"After the fix: redrive retry {cause.subject} --canary 3 --wait",
    ]
    facts = {
        "group": cause.subject,
        "cause": cause.title,
        "jobs": cause.jobs,
        "recent": cause.recent,
        "since": cause.since,
        "first_seen": cause.first,
        "last": cause.last,
        "category": cause.category,
        "handlers": list(cause.handlers),
        "command": f"redrive group {cause.subject}",
    }
    return _message(change, headline + grown, lines, now, kind=kind, **facts)


def _of_end(change: Change, now: float) -> Message:
    before = change.before or LastAlert(state=change.state, since=now, at=now)
    lasted = words(max(0.0, now - before.since))
    by = f" (resolved by {inert(change.by)})" if change.by else ""
    if change.state == "resolved":
        title = f"no dead jobs left: {before.title}{by}"
        lines = [f"It lasted {lasted}.", f"Look: redrive group {change.subject}"]
        return _message(change, title, lines, now, group=change.subject, cause=before.title)
    return _message(change, f"no longer: {before.title}", [f"It lasted {lasted}."], now)


def _message(
    change: Change, title: str, lines: Sequence[str], now: float, *, kind: str = "", **facts: object
) -> Message:
    subject = change.subject
    head = f"[{_HEADS[change.state]}] {subject}: {title}"
    return Message(
        type=kind or f"redrive_{change.state}",
        state=change.state,
        subject=subject,
        title=harmless(head, _TITLE),
        text=harmless("\n".join([title, *lines]), LONGEST, keep_newlines=True),
        at=now,
        facts=facts,
    )


def folded(changes: Sequence[Change], now: float) -> Message:
    """Return one message for many changes."""
    ordered = sorted(changes, key=lambda change: -getattr(change.about, "jobs", 0))
    lines = [
        f"{_HEADS[change.state]} {change.subject}: {_short(change)}" for change in ordered[:_LISTED]
    ]
    if len(changes) > _LISTED:
        lines.append(f"… and {len(changes) - _LISTED:,} more")
    lines.append("Look: redrive groups --new")
    title = f"{len(changes):,} changes at once"
    return Message(
        type="redrive_many",
        state="many",
        subject="many",
        title=title,
        text=harmless("\n".join([title, *lines]), LONGEST, keep_newlines=True),
        at=now,
        facts={
            "subjects": [change.subject for change in ordered],
            "command": "redrive groups --new",
        },
    )


def _short(change: Change) -> str:
    about = change.about
    title = about.title if about else change.before.title if change.before else ""
    jobs = f" ({_jobs(about.jobs)})" if isinstance(about, Cause) else ""
    return f"{inert(title)[:100]}{jobs}"


def plain(title: str, text: str, now: float, *, state: str = "test") -> Message:
    """Return a message about Redrive itself."""
    text = harmless(f"{title}\n{text}", LONGEST, keep_newlines=True)
    title = harmless(title, _TITLE)
    return Message(
        type=f"redrive_{state}", state=state, subject="redrive", title=title, text=text, at=now
    )


def harmless(text: str, limit: int, *, keep_newlines: bool = False) -> str:
    """Mask what looks secret, show what could drive a terminal, then cut."""
    clean = inert(mask_text(text[: 10 * limit]), keep_newlines=keep_newlines)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def filled(template: str, cause: Cause, job: Job, fields: Sequence[str]) -> str:
    """Fill a template from a cause and its newest dead job; a field that is not there stays empty.

    Values are inserted in one pass and never expanded again.
    """
    values: dict[str, object] = {
        "attempts": job.attempts,
        "category": cause.category,
        "cause": cause.title,
        "count": cause.jobs,
        "error": job.failure.message if job.failure else "",
        "group": cause.subject,
        "handler": job.handler,
        "job": job.id,
    }
    payload = _read(job.payload)
    values |= {_PAYLOAD + name: _at(payload, name) for name in fields}
    return _PLACE.sub(lambda match: inert(str(values.get(match[1], ""))), template)


def _read(payload: str) -> object:
    try:
        return cast("object", json.loads(payload))
    except (ValueError, RecursionError):  # somebody else's file said so
        return None


def _at(value: object, path: str) -> object:
    """Return the value at a dotted path; lists and objects are left out."""
    for name in path.split("."):
        value = cast("dict[str, object]", value).get(name, "") if isinstance(value, dict) else ""
    return "" if value is None or isinstance(value, dict | list) else value


def _grown(cause: Cause, before: LastAlert | None) -> str:
    if before is None:
        return ""
    return f" (+{max(0, cause.jobs - before.jobs):,} since {moment(before.at)})"


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"


def moment(at: float) -> str:
    """Return a time as short text."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # beyond the year 9999: somebody's file said so
        return "an unknown time"
