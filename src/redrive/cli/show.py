"""Everything about one job."""

from __future__ import annotations

import shlex
from dataclasses import replace

import click

from redrive.cli._command import command
from redrive.cli._errors import NOTHING, USAGE, Stop
from redrive.cli._face import Face
from redrive.cli._filters import is_group
from redrive.cli.output import (
    Block,
    Cell,
    Column,
    Facts,
    Line,
    Part,
    Span,
    Table,
    View,
    When,
    columns,
)
from redrive.desk.desk import Desk
from redrive.desk.documents import (
    attempt_document,
    category_of,
    error_line,
    group_name,
    payload_of,
    payload_text,
    run_name,
    whole_document,
)
from redrive.errors import JobNotFound, UsageError
from redrive.jobs.clock import iso
from redrive.jobs.job import Job, State
from redrive.payloads.escaping import inert


@command(
    "show",
    "redrive show 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive show 01J9ZQ4B --attempt 2 --plain",
    "redrive show 01J9ZQ4B --repro --app shop.jobs:app > repro.py",
)
@click.argument("job_id", metavar="ID")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only this one, in full.")
@click.option("--payload", "only_payload", is_flag=True, help="Only the payload, masked.")
@click.option("--repro", "wants_repro", is_flag=True, help="A program that calls the handler here.")
@click.option("--app", metavar="MODULE:APP", help="For --repro: the program with the handler.")
@click.pass_obj
def show(
    face: Face,
    job_id: str,
    attempt: int | None,
    app: str | None,
    *,
    only_payload: bool,
    wants_repro: bool,
) -> None:
    """Show everything about a job; the unique beginning of its id is enough."""
    with face.reading() as desk:
        job = _named(desk, job_id)
        now = desk.store.now()
        # The store's own URL, not what was typed: it holds no password.
        retry = _retry_line(job, desk.store.url if face.store else None)
    if wants_repro:
        from redrive.cli._repro import repro  # noqa: PLC0415

        text = repro(job, app or face.config.app)
        face.show_raw(View({"id": job.id, "repro": text}, [Line(one) for one in text.splitlines()]))
    elif only_payload:
        lines = [Line(one) for one in payload_text(job.payload).splitlines()]
        face.show_raw(View(payload_of(job.payload), lines))
    elif attempt is not None:
        face.show(_one_attempt(job, attempt, now), then=f"redrive show {job.id}")
    else:
        # The view ends with the retry line already.
        then = "" if retry else "redrive list"
        face.show(View({**whole_document(job), "retry": retry}, _parts(job, now, retry)), then=then)


def _one_attempt(job: Job, number: int, now: float) -> View:
    """Show one attempt; where a number came again after a retry by a person, the newest is meant."""
    found = [one for one in reversed(job.history) if one.number == number]
    if not found:
        numbers = ", ".join(str(one.number) for one in reversed(job.history)) or "none"
        msg = f"job {job.id} has no attempt {number}; kept are: {numbers}"
        raise Stop("nothing_matched", msg, exits=NOTHING)
    only = replace(job, history=(found[0],))
    heads, (row,) = _attempt_columns(only), _attempt_rows(only, now)
    facts = [(head.name, cell) for head, cell in zip(heads, row, strict=True) if cell is not None]
    parts: list[Part] = [Facts([("id", job.id), *facts])]
    failure = found[0].failure
    if failure and failure.traceback:
        parts.append(Block("Traceback", failure.traceback, "traceback"))
    return View({"id": job.id, **attempt_document(found[0])}, parts)


def _named(desk: Desk, word: str) -> Job:
    try:
        return desk.jobs.get(word)
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
    """Return the columns; people see how often it was driven again only where it was."""
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
    """Return what is known, the important first; what is not there is left out."""
    always: list[tuple[str, Cell]] = [
        ("id", job.id),
        ("state", f"{job.state} ({job.reason})" if job.reason else job.state.value),
        ("handler", job.handler),
        ("lane", job.lane),
        ("attempts", f"{job.attempts}/{job.max_attempts or '?'}"),
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
        ("run", run_name(job.run)),
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


def _origin_words(job: Job) -> str | None:
    import json  # noqa: PLC0415

    return None if job.origin is None else json.dumps(dict(job.origin), ensure_ascii=False)


def _retry_line(job: Job, store: str | None) -> str:
    """Return the command that retries this job, ready to paste, if that is possible."""
    if job.state not in {State.PENDING, State.DEAD, State.RESOLVED}:
        return ""
    words = ["redrive", "retry", inert(job.id)]
    return shlex.join([*words, "--store", inert(store)] if store else words)
