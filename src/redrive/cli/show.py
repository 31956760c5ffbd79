"""Everything about one job."""

from __future__ import annotations

import shlex

import click

from redrive._inert import inert
from redrive.cli._command import command
from redrive.cli._errors import USAGE, Stop
from redrive.cli._face import Face
from redrive.cli._filters import is_group
from redrive.cli.documents import (
    attempt_document,
    category_of,
    error_line,
    group_name,
    job_document,
    payload_of,
    payload_text,
    secrets_of,
)
from redrive.cli.output import Block, Cell, Column, Facts, Part, Span, Table, View, When, columns
from redrive.cli.output.plain import iso
from redrive.errors import JobNotFound, UsageError
from redrive.job import Attempt, Failure, Job, State
from redrive.looking import Looking
from redrive.redact import mask_text


@command(
    "show",
    "redrive show 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive show 01J9ZQ4B --plain",
    "redrive detail 01J9ZQ4B --json",
)
@click.argument("job_id", metavar="ID")
@click.pass_obj
def show(face: Face, job_id: str) -> None:
    """Show everything about a job; the unique beginning of its id is enough."""
    with face.looking() as app:
        job = _masked(_named(app, job_id))
        now = app.store.now()
        # The store's own URL, not what was typed: it holds no password.
        retry = _retry_line(job, app.store.url if face.store else None)
    data = {
        **job_document(job),
        "payload": payload_of(job.payload),
        "original_payload": None if job.original is None else payload_of(job.original),
        "spent": dict(job.spent),
        "folded": job.folded,
        "origin": payload_of_origin(job),
        "resolution": _resolution(job),
        "history": [attempt_document(attempt) for attempt in reversed(job.history)],
        "retry": retry,
    }
    # The view ends with the retry line already.
    face.show(View(data, _parts(job, now, retry)), then="" if retry else "redrive list")


def _named(app: Looking, word: str) -> Job:
    try:
        return app.get(word)
    except (JobNotFound, UsageError):
        if not is_group(word):
            raise
    msg = f"{word} is a group of jobs; show takes one job"
    raise Stop("usage", msg, hint=f"redrive list {word}", exits=USAGE)


def _parts(job: Job, now: float, retry: str) -> list[Part]:
    parts: list[Part] = [Facts(_facts(job, now))]
    failed = [attempt for attempt in reversed(job.history) if attempt.failure]
    if job.history:
        heads = _attempt_columns(job)
        parts.append(Table(heads, _attempt_rows(job, now), "Attempts, newest first", "attempt"))
    if failed and failed[0].failure and failed[0].failure.traceback:
        title = f"Traceback of attempt {failed[0].number}"
        parts.append(Block(title, failed[0].failure.traceback, "traceback"))
    parts.append(Block("Payload", payload_text(job.payload), "payload"))
    if job.original is not None:
        parts.append(Block("Payload before it was edited", payload_text(job.original), "original"))
    if retry:
        parts.append(Facts([("retry with", retry)]))
    return parts


def _attempt_columns(job: Job) -> list[Column]:
    """Give the columns; people see how often it was driven again only where it was."""
    again = any(attempt.life for attempt in job.history)
    return columns(
        "number:number",
        "driven again:number" if again else "driven again:number:extra",
        "started:time",
        "took:number",
        "outcome:word",
        "category:word",
        "error",
        "why",
        "worker:text:extra",
        "provider:text:extra",
    )


def _attempt_rows(job: Job, now: float) -> list[list[Cell]]:
    return [
        [
            attempt.number,
            attempt.life,
            When(attempt.started, now),
            Span(attempt.duration),
            attempt.outcome,
            attempt.failure.category if attempt.failure else None,
            error_line(attempt.failure),
            attempt.failure.why if attempt.failure else None,
            attempt.worker,
            attempt.provider,
        ]
        for attempt in reversed(job.history)
    ]


def _facts(job: Job, now: float) -> list[tuple[str, Cell]]:
    """Give what is known, the important first; what is not there is left out."""
    always: list[tuple[str, Cell]] = [
        ("id", job.id),
        ("state", f"{job.state} ({job.reason})" if job.reason else job.state.value),
        ("handler", job.handler),
        ("lane", job.lane),
        ("attempts", f"{job.attempts}/{job.limit or '?'}"),
        ("created", When(job.created, now)),
        ("changed", When(job.updated, now)),
    ]
    failure = job.failure
    sometimes: list[tuple[str, Cell]] = [
        (_due_name(job, now), When(job.due, now) if job.state is State.PENDING else None),
        ("finished", When(job.finished, now) if job.finished is not None else None),
        ("detail", job.detail),
        ("error", error_line(failure)),
        ("category", category_of(job)),
        ("why", failure.why if failure else None),
        ("status", failure.status if failure else None),
        ("code", failure.code if failure else None),
        ("request id", failure.request_id if failure else None),
        ("group", group_name(job.group)),
        ("cause", failure.title if failure else None),
        ("first failed", When(job.first_failed, now) if job.first_failed is not None else None),
        ("key", job.key),
        ("tags", " ".join(job.tags)),
        ("release", job.release),
        ("run", job.run),
        ("failures so far", ", ".join(f"{name} {number}" for name, number in job.spent.items())),
        ("crashes", job.crashes),
        ("driven again", _times(job.redrives)),
        ("edited", _times(job.edits)),
        ("attempts not kept", job.folded),
        ("resolved by", _resolved_by(job)),
        ("origin", _origin_words(job)),
    ]
    return always + [(name, value) for name, value in sometimes if value not in {None, "", 0}]


def _due_name(job: Job, now: float) -> str:
    if job.due <= now:
        return "due since"
    return "next retry" if job.failure else "due"


def _times(number: int) -> str | None:
    if not number:
        return None
    return "once" if number == 1 else f"{number} times"


def _resolved_by(job: Job) -> str | None:
    done = job.resolution
    if done is None:
        return None
    return f"{done.actor} at {iso(done.at)}{f': {done.reason}' if done.reason else ''}"


def _resolution(job: Job) -> dict[str, object] | None:
    done = job.resolution
    if done is None:
        return None
    return {"actor": done.actor, "reason": done.reason, "at": iso(done.at), "was": done.was}


def payload_of_origin(job: Job) -> object:
    """Give where an imported job came from, masked like a payload."""
    import json  # noqa: PLC0415

    return None if job.origin is None else payload_of(json.dumps(dict(job.origin), default=str))


def _origin_words(job: Job) -> str | None:
    import json  # noqa: PLC0415

    found = payload_of_origin(job)
    return None if found is None else json.dumps(found, ensure_ascii=False)


def _masked(job: Job) -> Job:
    """Hide the payload's secrets in the errors too, whoever stored them."""
    from dataclasses import replace  # noqa: PLC0415

    secrets = secrets_of(job)

    def failure(found: Failure | None) -> Failure | None:
        if found is None:
            return None
        return replace(
            found,
            message=mask_text(found.message, secrets),
            traceback=mask_text(found.traceback, secrets),
            why=mask_text(found.why, secrets),
            title=mask_text(found.title, secrets),
        )

    def attempt(found: Attempt) -> Attempt:
        return replace(found, failure=failure(found.failure))

    history = tuple(attempt(found) for found in job.history)
    return replace(job, failure=failure(job.failure), history=history)


def _retry_line(job: Job, store: str | None) -> str:
    """Give the line that drives this job again, ready to paste, if that is possible."""
    if job.state not in {State.PENDING, State.DEAD, State.RESOLVED}:
        return ""
    words = ["redrive", "retry", inert(job.id)]
    return shlex.join([*words, "--store", inert(store)] if store else words)
