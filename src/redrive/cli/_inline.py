"""Retrying in this process, job by job: `redrive retry --inline`."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from typing import Any

import click

from redrive.app import Redrive
from redrive.cli import actions, views
from redrive.cli._cli import Cli
from redrive.cli._errors import CONFLICT, PARTLY, STOPPED
from redrive.cli._filters import explained
from redrive.cli._load import load_app, program_name
from redrive.cli.output import Facts, Line, Part, Table, View, fields, plural
from redrive.desk import plans
from redrive.desk.documents import job_document
from redrive.desk.plans import Plan
from redrive.desk.selection import Selection
from redrive.jobs.job import Job, State
from redrive.runs import rules
from redrive.runs.run_records import Spec


def run_here(cli: Cli, selection: Selection, spec: Spec, options: dict[str, Any]) -> None:
    """Plan, ask, run each job here, oldest first, and report the result."""
    if spec.canary or spec.rate or options["wait"] or options["name"]:
        raise click.UsageError("--inline runs job by job: only --stop-on goes with it")
    name = program_name(cli, options["app_name"])
    if not name:
        msg = 'name your program: --app shop.jobs:app, or in redrive.toml: app = "shop.jobs:app"'
        raise click.UsageError(msg)
    # The output of handlers must not get into the document.
    aside = redirect_stdout(sys.stderr) if cli.json else nullcontext()
    with load_app(cli, name) as app:
        with explained(selection):
            plan = actions.plan_of(app.desk, "retry", selection, as_run=True)
        if plan.is_void:
            raise actions.nothing(plan, selection)
        if options["dry_run"]:
            cli.show(View(actions.plan_document(plan), actions.preview(plan)))
            return
        if not plan.eligible:
            actions.report(cli, plan, 0, plan.ineligible)
            raise click.exceptions.Exit(CONFLICT)
        if not (options["yes"] or plan.is_single):
            actions.ask(cli, plan)
        with aside:
            same, _ = plans.recheck(app.desk, plan)
            done, why = _run(app, same, spec, options["reason"])
    _report(cli, plan, done, why)


def _run(app: Redrive, jobs: list[Job], spec: Spec, reason: str) -> tuple[list[Job], str]:
    """Run the jobs until too many have failed; return them as they are now, and why it stopped."""
    done: list[Job] = []
    failed = 0
    for job_id in sorted(job.id for job in jobs):
        if why := rules.too_many(spec.stop_on, failed, len(done)):
            return done, why
        job = app.retry_here(job_id, reason=reason)
        if job is not None:
            done.append(job)
            failed += job.state is not State.COMPLETED
    return done, ""


def _report(cli: Cli, plan: Plan, done: list[Job], why: str) -> None:
    failed = [job for job in done if job.state is not State.COMPLETED]
    data = {
        "matched": plan.matched,
        "succeeded": len(done) - len(failed),
        "failed_again": len(failed),
        "dead": sum(job.state is State.DEAD for job in done),
        "left": plan.matched - len(done),
        "stopped": why or None,
        "ids": [job.id for job in failed],
    }
    text = f"stopped: {why}" if why else f"ran {plural(len(done), 'job')} here"
    rows = [job_document(job) for job in failed]
    parts: list[Part] = [
        Line(text, "bad" if why else "warn" if failed else "good"),
        Facts(fields("matched succeeded failed_again dead left"), data),
        Table([f for f in views.SAMPLES if f.key != "handler"], rows, "Failed again", "failed"),
    ]
    then = f"redrive show {failed[0].id}" if failed else "redrive status"
    cli.show(View(data, parts), then=then)
    if why or failed:
        raise click.exceptions.Exit(STOPPED if why else PARTLY)
