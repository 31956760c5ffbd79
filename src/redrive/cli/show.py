"""Everything about one job."""

from __future__ import annotations

import json
import shlex
from typing import Any

import click

from redrive.cli import views
from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import USAGE, Stop
from redrive.cli._filters import is_group
from redrive.cli.output import Block, Document, Facts, Field, Line, Part, Table, View, fact
from redrive.desk.desk import Desk
from redrive.desk.documents import payload_of, whole_document
from redrive.errors import JobNotFound, UsageError
from redrive.jobs.job import Job, State
from redrive.payloads.escaping import inert


@command(
    "show",
    "redrive show 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive show 01J9ZQ4B --json",
    "redrive show 01J9ZQ4B --payload > payload.json",
)
@click.argument("job_id", metavar="ID")
@option("--payload", "Only the payload, masked.", name="only_payload")
@click.pass_obj
def show(cli: Cli, job_id: str, *, only_payload: bool) -> None:
    """Show everything about a job; the unique beginning of its id is enough."""
    with cli.reading() as desk:
        job = _named(desk, job_id)
        now, actions = desk.store.now(), desk.log.on_job(job)
        # The store's own URL, not what was typed: it holds no password.
        retry = _retry_line(job, desk.store.url if cli.store else None)
    if only_payload:
        payload = payload_of(job.payload)
        cli.show_raw(View(payload, [Line(line) for line in _json_text(payload).splitlines()]))
        return
    data = {**whole_document(job, actions), "retry": retry}
    # The view ends with the retry line already.
    cli.show(View(data, _parts(job, data, now), now=now), then="" if retry else "redrive list")


def _named(desk: Desk, word: str) -> Job:
    try:
        return desk.jobs.get(word)
    except (JobNotFound, UsageError):
        if not is_group(word):
            raise
    msg = f"{word} is a group of jobs; show takes one job"
    raise Stop("usage", msg, hint=f"redrive list {word}", exits=USAGE)


def _parts(job: Job, data: dict[str, Any], now: float) -> list[Part]:
    due = [Field("due", _due_title(job, now), "due")] if job.state is State.PENDING else []
    attempts: list[Document] = data["history"]
    failed: Document = next((attempt for attempt in attempts if attempt["error"]), {"number": 0})
    # People see how often an operator retried a job only where one did.
    once = not any(attempt["life"] for attempt in attempts)
    shown = [
        f._replace(plain_only=f.plain_only or (once and f.key == "life")) for f in views.ATTEMPTS
    ]
    title = f"Traceback of attempt {failed.get('number')}"
    original = "" if job.original is None else _json_text(data["original_payload"])
    parts: list[Part] = [
        Facts([*views.JOB, *due, *views.JOB_MORE], data, sparse=True),
        Table(shown, attempts, "Attempts, newest first", "attempt"),
        Table(views.JOB_ACTIONS, data["actions"], "Actions, newest first", "action"),
        Block(title, str(failed.get("traceback") or ""), "traceback"),
        Block("Payload", _json_text(data["payload"]), "payload"),
        Block("Payload before it was edited", original, "original"),
    ]
    return [*parts, Facts([fact("retry with", data["retry"])])] if data["retry"] else parts


def _due_title(job: Job, now: float) -> str:
    if job.due <= now:
        return "due since"
    return "next retry" if job.failure else "due"


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _retry_line(job: Job, store: str | None) -> str:
    """Return the command that retries this job, ready to paste, if that is possible."""
    if job.state not in {State.PENDING, State.DEAD, State.RESOLVED}:
        return ""
    words = ["redrive", "retry", inert(job.id)]
    return shlex.join([*words, "--store", inert(store)] if store else words)
