"""The texts of alerts, safe to show everywhere: what comes from jobs is masked and made inert.

Of a payload nothing gets into a message but what the program's own function (`Text`) takes from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redrive.alerts.rules import Change, Condition, LastAlert
from redrive.jobs.durations import words
from redrive.jobs.job import Group, Job
from redrive.jobs.logger import log
from redrive.payloads import strict_json
from redrive.payloads.masking import inert, mask_text

Text = Callable[[Group | None, Job], "str | Mapping[str, object] | None"]
"""Words an alert by a dead job, masked, and its group (None for an alert about that job alone).

It returns the headline, or the whole JSON body for webhooks, of which `text` or `message` is the headline
elsewhere; or None for the usual words.
"""

LONGEST = 2000  # characters of a message, at most
TITLE = 200
_KEY = 60
_HANDLERS = 5  # how many handlers a text names
_LISTED = 10  # how many changes a message about many names
_HEADS = {
    "new": "NEW", "growing": "GROWING", "regressed": "BACK AGAIN", "resolved": "RESOLVED",
    "paused": "PAUSED", "unserved": "UNSERVED", "silent": "WORKER SILENT",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent, the same for every channel."""

    state: str
    subject: str
    title: str
    text: str
    """All of it, the title first."""
    at: float
    body: Mapping[str, object] | None = None
    """What a webhook posts; None is the text."""

    @classmethod
    def of(cls, title: str, lines: Sequence[str], **fields: Any) -> Message:
        """Write a message of a title and lines, both made harmless."""
        text = harmless("\n".join([title, *lines]), LONGEST, keep_newlines=True)
        return cls(title=harmless(title, TITLE), text=text, **fields)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Message:
        """Make a message of what a job carries."""
        return cls(**{name: value[name] for name in cls.__annotations__ if name in value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a message comes from: the store, and what the program said about itself."""

    store: str
    service: str = ""
    base_url: str = ""

    def command(self, text: str) -> str:
        """Return a command that means this store, wherever it is pasted."""
        shared = text and not self.store.startswith("memory:")
        return f"{text} --store {shlex.quote(self.store)}" if shared else text

    def lines(self, subject: str = "") -> list[str]:
        """Return the last lines of a message."""
        service = f"Service: {self.service}; store: " if self.service else "Store: "
        place = f"/groups/{subject}" if subject else ""
        link = [f"Link: {self.base_url.rstrip('/')}{place}"] if self.base_url else []
        return [service + self.store, *link]


def of_change(
    change: Change, now: float, source: Source, newest: Sequence[Job] = (), text: Text | None = None
) -> Message:
    """Return the message for a change; `newest` are the group's newest dead jobs, the last one first."""
    about, before, body = change.about, change.before, None
    if isinstance(about, Group):
        title, body, lines = _of_group(change, about, source, newest, text)
    elif isinstance(about, Condition):
        title = about.title[:300]
        lines = [f"Since {moment(about.since)}.", f"Look: {source.command(about.command)}"]
        lines += source.lines()
    else:
        last = before or LastAlert(state=change.state, since=now, at=now)
        by = f" (resolved by {change.by})" if change.by else ""
        title = f"no dead jobs left: {last.title}{by}"
        look = source.command(f"redrive group {change.subject}")
        lines = [f"It lasted {words(max(0.0, now - last.since))}.", f"Look: {look}"]
        lines += source.lines(change.subject)
    title = f"[{_HEADS[change.state]}] {change.subject}: {title}"
    return Message.of(title, lines, state=change.state, subject=change.subject, at=now, body=body)


_Words = tuple[str, Mapping[str, object] | None, list[str]]
"""The headline, the body for webhooks, and the other lines."""


def _of_group(
    change: Change, group: Group, source: Source, newest: Sequence[Job], text: Text | None
) -> _Words:
    job, record, before = next(iter(newest), None), group.record, change.before
    said, body = _said(text, group, job) if job else ("", None)
    grown = ""
    if change.state == "growing" and before is not None:
        grown = f" (+{max(0, group.jobs - before.jobs):,} since {moment(before.at)})"
    title = inert(group.title)[:TITLE]
    told = before.at if before is not None else float("-inf")
    keys = [j.key for j in newest if j.key and (j.died_at or j.updated) >= told]
    first = record.first_seen or record.last_seen or 0.0
    dead = f"{jobs_text(group.jobs)} dead, {change.recent:,} in the last 10 minutes{grown}"
    times = f"Since {moment(record.since or first)}, last {moment(record.last_seen or first)}"
    others = " and others" if len(group.handlers) > _HANDLERS else ""
    lines = [
        *([f"Cause: {title}"] if said else []),
        f"{dead}; {record.deaths:,} died of it in all.",
        f"{times}; first seen {moment(first)}; category {group.category or 'unknown'}.",
        f"Handlers: {', '.join(group.handlers[:_HANDLERS])}{others}",
        *([f"Newest: {inert(job.failure.message)[:300]}"] if job and job.failure else []),
        f"Look: {source.command(f'redrive group {group.name}')}",
        f"After the fix: {source.command(f'redrive retry {group.name} --canary 3 --wait')}",
        *source.lines(group.name),
    ]
    if keys:  # the first to be cut
        lines.append(f"Keys of new jobs: {', '.join(harmless(key, _KEY) for key in keys)}")
    return (said or f"{title} ({jobs_text(group.jobs)})") + grown, body, lines


def of_job(job: Job, at: float, source: Source, text: Text | None = None) -> Message:
    """Return the message about one dead letter."""
    said, body = _said(text, None, job)
    failure = job.failure
    error = inert(failure.message if failure else job.detail)[:300]
    category = f"; category {failure.category}" if failure else ""
    lines = [
        f"Job: {harmless(job.key or job.id, _KEY)}; {job.handler}; attempts {job.attempts}{category}",
        f"Error: {error}",
        f"Look: {source.command(f'redrive show {job.id}')}",
        f"After the fix: {source.command(f'redrive retry {job.id}')}",
        *source.lines(f"G{job.group}" if job.group else ""),
    ]
    title = f"[DEAD] {said or f'{job.handler} died: {error[:TITLE]}'}"
    return Message.of(title, lines, state="died", subject=job.id, at=at, body=body)


def _said(text: Text | None, group: Group | None, job: Job) -> tuple[str, Mapping[str, Any] | None]:
    """Return the headline and the body that the program's function makes; without one neither."""
    try:
        said = text(group, job) if text is not None else None
        if said is None or isinstance(said, str):
            return said or "", None
        body = dict(said)
        strict_json.dumps(body)
    except Exception:
        log.exception(
            "the text function of alerts failed for job %s; sending the usual text", job.id
        )
        return "", None
    return next((v for v in map(body.get, ("text", "message")) if isinstance(v, str)), ""), body


def folded(changes: Sequence[Change], now: float, source: Source) -> Message:
    """Return one message for many changes."""
    ordered = sorted(changes, key=lambda change: -getattr(change.about, "jobs", 0))
    lines: list[str] = []
    for change in ordered[:_LISTED]:
        about = change.about or change.before
        jobs = f" ({jobs_text(about.jobs)})" if isinstance(about, Group) else ""
        title = inert(about.title)[:100] if about else ""
        lines.append(f"{_HEADS[change.state]} {change.subject}: {title}{jobs}")
    if len(changes) > _LISTED:
        lines.append(f"… and {len(changes) - _LISTED:,} more")
    lines += [f"Look: {source.command('redrive groups --new')}", *source.lines()]
    lines.append(f"All: {', '.join(change.subject for change in ordered)}")  # the first to be cut
    return Message.of(
        f"{len(changes):,} changes at once", lines, state="many", subject="many", at=now
    )


def of_test(now: float) -> Message:
    """Return a message that tells only that a channel works."""
    text = "If you can read this, alerts of Redrive reach you here."
    title = "A test of Redrive's alerts"
    return Message.of(title, [text], state="test", subject="redrive", at=now)


def harmless(text: str, limit: int, *, keep_newlines: bool = False) -> str:
    """Mask what looks secret, show what could drive a terminal, then cut."""
    clean = inert(mask_text(text[: 10 * limit]), keep_newlines=keep_newlines)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def jobs_text(number: int) -> str:
    """Return a number of jobs in words."""
    return "1 job" if number == 1 else f"{number:,} jobs"


def moment(at: float) -> str:
    """Return a time as short text."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # out of range for datetime
        return "an unknown time"
