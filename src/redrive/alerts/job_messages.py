"""The texts of per-job alerts: one dead letter, or a digest of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from redrive.alerts.messages import (
    KEY,
    LONGEST,
    TITLE,
    Message,
    Source,
    Wording,
    filled,
    harmless,
    jobs_text,
    payload_value,
    value_at,
)
from redrive.alerts.rules import Cause
from redrive.jobs.job import Job
from redrive.payloads.masking import inert

DEAD_LETTER = "redrive_dead_letter"
"""The type of messages about single jobs whose handler has none of its own."""
_IN_TEXT = 25  # how many jobs the text of a digest names; its facts have more
_HANDLERS = 10


def label(job: Job) -> str:
    """Return the key of a job, or its id if it has none."""
    return harmless(job.key or job.id, KEY)


def of_job(job: Job, at: float, source: Source) -> Message:
    """Return the message about one dead letter: its error, and the listed fields of its payload."""
    title, facts = _headline(job, source.wording), _job_facts(job, source)
    data = cast("dict[str, object]", facts["data"])
    kind = source.wording.types.get(job.handler, DEAD_LETTER)
    lines = [
        f"Type: {kind}",
        f"Job: {label(job)}; {job.handler}; attempts {job.attempts}; category {facts['category']}",
        f"Error: {facts['error']}",
        *(f"{name}: {value}" for name, value in data.items()),
        f"Look: {facts['command']}",
        f"After the fix: {source.command(f'redrive retry {job.id}')}",
        *source.lines(_group(job)),
    ]
    facts = {"message": harmless(title, LONGEST), **facts}
    about = {"type": kind, "state": "died", "subject": job.id}
    return Message.of(title, lines, head="[DEAD] ", **about, at=at, facts=facts)


def _headline(job: Job, wording: Wording) -> str:
    template, failure = wording.templates.get(job.handler), job.failure
    if template is None:
        return f"{job.handler} died: {inert(failure.message if failure else job.detail)[:200]}"
    cause = Cause(
        number=job.group or 0,
        title=inert(failure.title if failure else "")[:200],
        jobs=1,
        category=failure.category.value if failure else "",
    )
    return filled(template, cause, job, wording.fields)


def _job_facts(job: Job, source: Source) -> dict[str, object]:
    """Return what machines get: of the payload only the listed fields that are there."""
    payload, failure = payload_value(job.payload), job.failure
    data = {name: value_at(payload, name) for name in source.wording.fields}
    shown = {name: value for name, value in data.items() if value != ""}
    return {
        "job": job.id,
        "key": label(job),
        "handler": job.handler,
        "attempts": job.attempts,
        "category": failure.category.value if failure else "",
        "error": harmless(failure.message if failure else job.detail, 300),
        "data": {n: harmless(v, TITLE) if isinstance(v, str) else v for n, v in shown.items()},
        "cause": _group(job),
        "command": source.command(f"redrive show {job.id}"),
        **source.facts(_group(job)),
    }


def _group(job: Job) -> str:
    return f"G{job.group}" if job.group else ""


def of_many(keys: Sequence[str], numbers: Mapping[str, int], at: float, source: Source) -> Message:
    """Return the digest of dead letters that have no message of their own."""
    total = sum(numbers.values())
    title = f"{jobs_text(total)} died: {', '.join(sorted(numbers))}"
    kinds = {source.wording.types.get(name, DEAD_LETTER) for name in numbers}
    kind = kinds.pop() if len(kinds) == 1 else DEAD_LETTER
    command = source.command("redrive dlq")
    named = keys[:_IN_TEXT]
    more = f" … and {total - len(named):,} more" if total > len(named) else ""
    most = sorted(numbers.items(), key=lambda item: -item[1])[:_HANDLERS]
    lines = [
        f"Type: {kind}",
        *(f"{name}: {jobs_text(number)}" for name, number in most),
        f"Look: {command}",
        *source.lines(),
        f"Keys: {', '.join(named)}{more}",
    ]
    facts = {"jobs": total, "keys": [*keys], "command": command, **source.facts()}
    about = {"type": kind, "state": "digest", "subject": "digest"}
    return Message.of(title, lines, head="[DEAD] ", **about, at=at, facts=facts)
