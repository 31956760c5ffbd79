"""Retrying in this process, job by job, for those who want to see what happens."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from typing import Any, cast

import click

from redrive.app import Redrive
from redrive.cli import actions
from redrive.cli._errors import CONFLICT, PARTLY, STOPPED
from redrive.cli._face import Face
from redrive.cli._filters import Selection, explained
from redrive.cli._load import load_app, program_name
from redrive.cli.output import Cell, Facts, Line, Part, Table, View, columns
from redrive.desk import plans
from redrive.desk.documents import error_line
from redrive.desk.plans import Plan
from redrive.errors import RetryLater, Skip
from redrive.jobs.job import Job, State
from redrive.payloads.escaping import inert
from redrive.payloads.masking import error_text
from redrive.registry import Entry
from redrive.runs import rules
from redrive.runs.run_records import Spec


def run_here(face: Face, selection: Selection, spec: Spec, said: dict[str, Any]) -> None:
    """Plan, ask, and then run each job here, oldest first; always tells what came of it."""
    if spec.canary or spec.rate or said["wait"] or said["name"]:
        raise click.UsageError("--inline runs job by job: only --stop-on goes with it")
    name = program_name(face, said["app_name"])
    if not name:
        msg = 'name your program: --app shop.jobs:app, or in redrive.toml: app = "shop.jobs:app"'
        raise click.UsageError(msg)
    # What handlers print must not get into the document.
    aside = redirect_stdout(sys.stderr) if face.json else nullcontext()
    with load_app(face, name) as app:
        with explained(selection):
            plan = actions.plan_of(app.desk, "retry", selection, as_run=True)
        if plan.is_void:
            raise actions.nothing(plan, selection)
        if said["dry_run"]:
            face.show(View(actions.plan_document(plan), actions.preview(plan)))
            return
        if not plan.eligible:
            actions.report(face, plan, 0, plan.ineligible)
            raise click.exceptions.Exit(CONFLICT)
        if not (said["yes"] or plan.is_single):
            actions.ask(face, plan)
        if said["debug"]:
            app.submitter.registry.wrap(_debugged)
        with aside:
            same, _ = plans.recheck(app.desk, plan)
            done, why = _run(app, same, spec, said["reason"])
    _report(face, plan, done, why)


def _run(app: Redrive, jobs: list[Job], spec: Spec, reason: str) -> tuple[list[Job], str]:
    """Run the jobs until one failure too many; gives them as they are now, and why it stopped."""
    done: list[Job] = []
    failed = 0
    for one in sorted(job.id for job in jobs):
        if why := rules.too_many(spec.stop_on, failed, len(done)):
            return done, why
        job = app.retry_here(one, reason=reason)
        if job is not None:
            done.append(job)
            failed += job.state is not State.COMPLETED
    return done, ""


def _report(face: Face, plan: Plan, done: list[Job], why: str) -> None:
    failed = [job for job in done if job.state is not State.COMPLETED]
    states = Counter(job.state for job in done)
    facts: list[tuple[str, Cell]] = [
        ("matched", plan.matched),
        ("succeeded", states[State.COMPLETED]),
        ("failed again", len(failed)),
        ("dead", states[State.DEAD]),
        ("left", plan.matched - len(done)),
    ]
    said = f"stopped: {why}" if why else f"ran {actions.count_words(len(done))} here"
    parts: list[Part] = [Line(said, "bad" if why else "warn" if failed else "good"), Facts(facts)]
    if failed:
        rows: list[list[Cell]] = [[job.id, job.state, error_line(job.failure)] for job in failed]
        heads = columns("id:id", "state:word", "error")
        parts.append(Table(heads, rows, "Failed again", "failed"))
    data = {name.replace(" ", "_"): value for name, value in facts}
    shown = {**data, "stopped": why or None, "ids": [job.id for job in failed]}
    then = f"redrive show {failed[0].id}" if failed else "redrive status"
    face.show(View(shown, parts), then=then)
    if why or failed:
        raise click.exceptions.Exit(STOPPED if why else PARTLY)


def _debugged(entry: Entry) -> Entry:
    """Have a handler that fails looked at where it failed; it runs in this very process."""
    function = entry.function

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            _look(error)
            raise

    @functools.wraps(function)
    async def acall(*args: object, **kwargs: object) -> object:
        try:
            return await cast("Callable[..., Awaitable[object]]", function)(*args, **kwargs)
        except Exception as error:
            _look(error)
            raise

    chosen = acall if entry.is_async else call
    return replace(entry, function=chosen, isolation="thread", timeout=None)


def _look(error: Exception) -> None:
    if isinstance(error, Skip | RetryLater) or error.__traceback__ is None:
        return
    import pdb  # noqa: PLC0415, T100 - it was asked for

    own = error.__traceback__.tb_next or error.__traceback__  # not our frame, the handler's
    sys.stderr.write(inert(f"{type(error).__name__}: {error_text(error)}") + "\n")
    pdb.post_mortem(own)
