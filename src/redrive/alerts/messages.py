"""The texts of alerts, safe to show everywhere.

Text from jobs comes masked from the desk and is made inert here. Of a payload nothing gets into a message but the fields
that were listed, and templates are filled by plain replacement: no format language meets their values.
"""

from __future__ import annotations

import json
import re
import shlex
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

LONGEST = 2000  # characters of a message, at most
TITLE = 200
KEY = 60
_HANDLERS = 5  # how many handlers a text names
_LISTED = 10  # how many changes a message about many names
_PLACE = re.compile(r"\{([\w.-]+)\}")
_PLACES = ("attempts", "category", "cause", "count", "error", "group", "handler", "job")
_PAYLOAD = "payload."
_HEADS = {
    "new": "NEW", "growing": "GROWING", "old": "STILL OPEN", "regressed": "BACK AGAIN",
    "resolved": "RESOLVED", "paused": "PAUSED", "unserved": "UNSERVED", "stopped": "RUN STOPPED",
    "retrying": "STILL RETRYING",
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
    def of(cls, title: str, lines: Sequence[str], *, head: str = "", **fields: Any) -> Message:
        """Write a message of a title and lines, both harmless; `head` stands before the title."""
        text = harmless("\n".join([title, *lines]), LONGEST, keep_newlines=True)
        return cls(title=harmless(head + title, TITLE), text=text, **fields)

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
    service: str = ""
    """What the program is called."""
    base_url: str = ""
    """Where people see groups: a message links to BASE_URL/groups/G7."""

    def __post_init__(self) -> None:
        if self.base_url and not self.base_url.startswith(("https://", "http://")):
            msg = f"base_url must begin with https:// or http://; found {self.base_url!r}"
            raise UsageError(msg)
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
                    raise UsageError(
                        f"the template of {handler} uses {{{place}}}, which is not allowed{more}; "
                        f"known: {', '.join(sorted(known))}"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a message comes from: the store, and what the program said about itself."""

    store: str
    wording: Wording

    def command(self, text: str) -> str:
        """Return a command that means this store, wherever it is pasted."""
        shared = text and not self.store.startswith("memory:")
        return f"{text} --store {shlex.quote(self.store)}" if shared else text

    def link(self, subject: str = "") -> str:
        """Return the address of a group, or of the start page; empty without a base URL."""
        place = f"/groups/{subject}" if subject else ""
        return self.wording.base_url and self.wording.base_url.rstrip("/") + place

    def lines(self, subject: str = "") -> list[str]:
        """Return the last lines of a message."""
        name = self.wording.service
        service = f"Service: {name}; store: " if name else "Store: "
        link = self.link(subject)
        return [service + self.store, *([f"Link: {link}"] if link else [])]

    def facts(self, subject: str = "") -> dict[str, object]:
        """Return the same for machines."""
        service = self.wording.service
        return {"service": service, "store": self.store, "link": self.link(subject)}


def worded(change: Change, now: float, source: Source, newest: Sequence[Job] = ()) -> Message:
    """Return the message for a change; `newest` are the cause's newest dead jobs, the last one first."""
    about = change.about
    if isinstance(about, Cause):
        return _of_cause(change, about, now, source, newest)
    if isinstance(about, Condition):
        command = source.command(about.command)
        lines = [f"Since {moment(about.since)}."]
        lines += [f"Look: {command}"] if command else []
        facts = {"command": command, "since": about.since, **source.facts()}
        return _message(change, about.title, [*lines, *source.lines()], now, facts)
    return _of_end(change, now, source)


def _of_cause(
    change: Change, cause: Cause, now: float, source: Source, jobs: Sequence[Job]
) -> Message:
    wording, newest = source.wording, next(iter(jobs), None)
    handler = newest.handler if newest else (cause.handlers or ("",))[0]
    template = wording.templates.get(handler)
    headline = f"{cause.title} ({jobs_text(cause.jobs)})"
    if template and newest:
        headline = filled(template, cause, newest, wording.fields)
    grown = _grown(cause, change.before) if change.state == "growing" else ""
    kind = wording.types.get(handler, "")
    error = newest.failure.message if newest and newest.failure else ""
    keys = _new_keys(jobs, change.before)
    lines = [
        *([f"Cause: {cause.title}"] if template else []),
        *_counts(cause, grown),
        *([f"Type: {kind}"] if kind else []),
        *([f"Newest: {inert(error)[:300]}"] if error else []),
        f"Look: {source.command(f'redrive group {cause.subject}')}",
        f"After the fix: {source.command(f'redrive retry {cause.subject} --canary 3 --wait')}",
        *source.lines(cause.subject),
        *([f"Keys of new jobs: {', '.join(keys)}"] if keys else []),  # the first to be cut
    ]
    facts = {**_facts(cause, source), "keys": keys}
    return _message(change, headline + grown, lines, now, facts, kind=kind)


def _counts(cause: Cause, grown: str) -> list[str]:
    """Return how many died since when, and of which handlers."""
    dead = f"{jobs_text(cause.jobs)} dead, {cause.recent:,} in the last 10 minutes{grown}"
    times = f"Since {moment(cause.since)}, last {moment(cause.last)}"
    others = " and others" if len(cause.handlers) > _HANDLERS else ""
    return [
        f"{dead}; {cause.deaths:,} died of it in all.",
        f"{times}; first seen {moment(cause.first)}; category {cause.category}.",
        f"Handlers: {', '.join(cause.handlers[:_HANDLERS])}{others}",
    ]


def _facts(cause: Cause, source: Source) -> dict[str, object]:
    """Return the same for machines."""
    return {
        "group": cause.subject,
        "cause": cause.title,
        "jobs": cause.jobs,
        "recent": cause.recent,
        "deaths": cause.deaths,
        "since": cause.since,
        "first_seen": cause.first,
        "last": cause.last,
        "category": cause.category,
        "handlers": list(cause.handlers),
        "command": source.command(f"redrive group {cause.subject}"),
        **source.facts(cause.subject),
    }


def _new_keys(jobs: Sequence[Job], before: LastAlert | None) -> list[str]:
    """Return the keys of the jobs that died since the last message."""
    since = before.at if before is not None else float("-inf")
    keys = [job.key for job in jobs if job.key and (job.died_at or job.updated) >= since]
    return [harmless(key, KEY) for key in keys]


def _of_end(change: Change, now: float, source: Source) -> Message:
    before = change.before or LastAlert(state=change.state, since=now, at=now)
    lasted = words(max(0.0, now - before.since))
    by = f" (resolved by {inert(change.by)})" if change.by else ""
    if change.state == "resolved":
        title = f"no dead jobs left: {before.title}{by}"
        command = source.command(f"redrive group {change.subject}")
        lines = [f"It lasted {lasted}.", f"Look: {command}", *source.lines(change.subject)]
        facts = {"group": change.subject, "cause": before.title, **source.facts(change.subject)}
        return _message(change, title, lines, now, facts)
    lines = [f"It lasted {lasted}.", *source.lines()]
    return _message(change, f"no longer: {before.title}", lines, now, source.facts())


def _message(
    change: Change,
    title: str,
    lines: Sequence[str],
    now: float,
    facts: Mapping[str, object],
    *,
    kind: str = "",
) -> Message:
    return Message.of(
        title,
        lines,
        head=f"[{_HEADS[change.state]}] {change.subject}: ",
        type=kind or f"redrive_{change.state}",
        state=change.state,
        subject=change.subject,
        at=now,
        facts=facts,
    )


def folded(changes: Sequence[Change], now: float, source: Source) -> Message:
    """Return one message for many changes."""
    ordered = sorted(changes, key=lambda change: -getattr(change.about, "jobs", 0))
    lines = [
        f"{_HEADS[change.state]} {change.subject}: {_short(change)}" for change in ordered[:_LISTED]
    ]
    if len(changes) > _LISTED:
        lines.append(f"… and {len(changes) - _LISTED:,} more")
    command = source.command("redrive groups --new")
    lines += [f"Look: {command}", *source.lines()]
    title = f"{len(changes):,} changes at once"
    subjects = [change.subject for change in ordered]
    facts = {"subjects": subjects, "command": command, **source.facts()}
    many = {"type": "redrive_many", "state": "many", "subject": "many"}
    return Message.of(title, lines, **many, at=now, facts=facts)


def _short(change: Change) -> str:
    about = change.about
    title = about.title if about else change.before.title if change.before else ""
    jobs = f" ({jobs_text(about.jobs)})" if isinstance(about, Cause) else ""
    return f"{inert(title)[:100]}{jobs}"


def plain(title: str, text: str, now: float, *, state: str = "test") -> Message:
    """Return a message about Redrive itself."""
    kind = f"redrive_{state}"
    return Message.of(title, [text], type=kind, state=state, subject="redrive", at=now)


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
    payload = payload_value(job.payload)
    values |= {_PAYLOAD + name: value_at(payload, name) for name in fields}
    return _PLACE.sub(lambda match: inert(str(values.get(match[1], ""))), template)


def payload_value(payload: str) -> object:
    """Return a payload as a value; None if it is not JSON."""
    try:
        return cast("object", json.loads(payload))
    except (ValueError, RecursionError):  # somebody else's file said so
        return None


def value_at(value: object, path: str) -> object:
    """Return the value at a dotted path; lists and objects are left out."""
    for name in path.split("."):
        value = cast("dict[str, object]", value).get(name, "") if isinstance(value, dict) else ""
    return "" if value is None or isinstance(value, dict | list) else value


def _grown(cause: Cause, before: LastAlert | None) -> str:
    if before is None:
        return ""
    return f" (+{max(0, cause.jobs - before.jobs):,} since {moment(before.at)})"


def jobs_text(number: int) -> str:
    """Return a number of jobs in words."""
    return "1 job" if number == 1 else f"{number:,} jobs"


def moment(at: float) -> str:
    """Return a time as short text."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # beyond the year 9999: somebody's file said so
        return "an unknown time"
