"""Retrying: one job at once, several as a run that workers drive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from redrive.cli import actions, views
from redrive.cli._cli import Cli, same_line
from redrive.cli._command import app_option, command, option
from redrive.cli._errors import CONFLICT, PARTLY, Stop
from redrive.cli._filters import explained
from redrive.cli._follow import follow
from redrive.cli.output import Facts, Line, Part, View, fact, plural
from redrive.desk import plans, waits
from redrive.desk.desk import Desk
from redrive.desk.documents import spec_document
from redrive.desk.plans import Left, Plan
from redrive.runs import rules
from redrive.runs.run_records import Run, Spec

_OF_SPECS = ("canary", "rate", "ramp", "stop_on")  # options that say how a run is driven
_OF_RUNS = (*_OF_SPECS, "name", "wait")  # options that turn a retry into a run


@command(
    "retry",
    "redrive retry 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive retry G7 --canary 3 --rate 20/s --ramp --stop-on 5% --wait",
    "redrive retry 'handler:billing.* age:<2h' --reason 'the API is back' --dry-run",
    "redrive retry 01J9ZQ4B7V5X2C8D3E6F1G0H4K --inline --app shop.jobs:app",
)
@option(
    "--canary N", "Retry so many jobs first; the others follow if these succeed.", click.IntRange(1)
)
@option("--rate RATE", "At most so many jobs: 20/s, 30/m.")
@option("--ramp", "Start at a tenth of the rate and double it every 10 s.")
@option("--stop-on LIMIT", "Stop when so many have failed again: 10% or 25.")
@option("--name TEXT", "A name for the run, such as a ticket.")
@option("--wait", "Follow the run to its end; Ctrl-C detaches.")
@option("--no-attach", "Exit 4 if a run has these jobs already.")
@option("--inline", "Run the jobs in this process, one by one.")
@app_option("With --inline: the program that has the handlers.")
@actions.acting
def retry(cli: Cli, **options: Any) -> None:
    """Retry jobs: one job, named by its id, at once; several jobs as a run.

    Dead jobs get a fresh set of attempts, pending jobs become due now. Groups, filters and --all mean
    pending and dead jobs unless a state is named. Workers drive a run, so you can close the terminal;
    repeating the command attaches to the same run. With --wait the exit code is 6 if some jobs failed
    again and 7 if the run was stopped.
    """
    spec = rules.spec_of(
        canary=options["canary"] or 0,
        rate=options["rate"],
        ramp=options["ramp"],
        stop_on=options["stop_on"] or "",
    )
    selection = actions.chosen("retry", options)
    if options["inline"]:
        from redrive.cli._inline import run_here  # noqa: PLC0415 - few want it

        run_here(cli, selection, spec, options)
        return
    if options["app_name"]:
        raise click.UsageError("--app belongs to --inline")
    as_run = len(selection.ids) != 1 or any(options[name] for name in _OF_RUNS)
    with cli.acting(read_only=options["dry_run"]) as desk:
        if not options["dry_run"]:
            desk.runs.close_abandoned()
        with explained(selection):
            plan = actions.plan_of(desk, "retry", selection, as_run=as_run)
        if plan.is_void:
            raise actions.nothing(plan, selection)
        plan.spec = spec if as_run else None
        if plan.eligible:
            plan.waits = waits.of_lanes(desk, plan.lanes)
        if options["dry_run"]:
            then = same_line(without="--dry-run") if plan.eligible else ""
            cli.show(View(actions.plan_document(plan), actions.preview(plan)), then=then)
        elif not as_run and plan.eligible:
            actions.carry_out(cli, desk, plan, options["reason"])
            _say_waits(cli, plan.waits)
        else:
            _start(cli, desk, plan, spec, options)


def _start(cli: Cli, desk: Desk, plan: Plan, spec: Spec, options: dict[str, Any]) -> None:
    live = _live_run(desk, plan)
    if live is not None:
        _check_options(live, spec, options)
        _attach(cli, desk, live, options, others=len(plan.eligible))
        return
    if not plan.eligible:
        actions.report(cli, plan, 0, plan.ineligible)
        raise click.exceptions.Exit(CONFLICT)
    if not options["yes"]:
        actions.ask(cli, plan)
    same, changed = plans.recheck(desk, plan)
    left = [*plan.ineligible, *changed]
    run = desk.runs.freeze(
        same,
        spec,
        asked=plan.asked,
        name=options["name"] or "",
        reason=options["reason"],
        skipped=left,
    )
    if options["wait"]:
        cli.say(f"{run.id} retries {plural(run.total, 'job')}")
        follow(cli, desk, run)
    _started(cli, desk, plan, run, left)


def _live_run(desk: Desk, plan: Plan) -> Run | None:
    """Return the live run that has these jobs already: the same selection, or all of the jobs.

    With ids on standard input the selection is the same text for other jobs.
    """
    asked = plan.asked
    for number, _ in plan.runs.most_common():
        run = desk.runs.get(number)
        if not plan.eligible or (run.asked == asked and "-" not in asked.split()):
            return run
    return None


def _check_options(run: Run, spec: Spec, options: dict[str, Any]) -> None:
    """Refuse options that the live run with these jobs does not have: attaching changes nothing."""
    wanted, has = spec_document(spec), spec_document(run.spec)
    other = [name for name in _OF_SPECS if options[name] and wanted[name] != has[name]]
    if not other:
        return
    words = ", ".join(
        f"--{name.replace('_', '-')}" + ("" if name == "ramp" else f" {options[name]}")
        for name in other
    )
    settings = views.settings_of(has) or "no canary, no rate and no stop rule"
    msg = f"{run.id} has these jobs already, with {settings}; not applied: {words}"
    steps = f"redrive run {run.id} cancel, then retry again"
    hint = f"redrive run {run.id} rate {options['rate']}" if other == ["rate"] else steps
    raise Stop("attached", msg, hint=hint, exits=CONFLICT)


def _attach(cli: Cli, desk: Desk, run: Run, options: dict[str, Any], *, others: int) -> None:
    from redrive.cli import runs as shown  # noqa: PLC0415 - few commands need it

    if options["no_attach"] or run.phase == "cancelled":
        msg = f"{run.id} has these jobs already; it is {run.phase}"
        raise Stop("attached", msg, hint=f"redrive run {run.id}", exits=CONFLICT)
    cli.say(f"{run.id} has these jobs already: attached")
    if others:
        cli.say(f"not part of it: {plural(others, 'newer job')}; retry them after the run")
    if options["wait"]:
        follow(cli, desk, run)
    cli.show(shown.view_of(desk, run), then=f"redrive run {run.id} --watch")


def _started(cli: Cli, desk: Desk, plan: Plan, run: Run, skipped: Left) -> None:
    """Show what was started, and what it waits for."""
    left = sum(run.skipped.values())
    data = {
        "verb": "retry",
        "run": run.id,
        "matched": plan.matched,
        "done": run.total,
        "waits": waits.of_run(desk, run),
        "skipped": [{"id": job_id, "why": why} for job_id, why in skipped],
    }
    parts: list[Part] = [
        Line(f"{run.id} retries {plural(run.total, 'job')}", "good"),
        Facts([fact("matched", plan.matched), fact("taken", run.total), fact("skipped", left)]),
        actions.skipped_table(skipped, "Skipped"),
    ]
    cli.show(View(data, parts), then=f"redrive run {run.id} --watch")
    _say_waits(cli, waits.of_run(desk, run))
    if run.total < len(plan.eligible):
        raise click.exceptions.Exit(PARTLY)


def _say_waits(cli: Cli, texts: Iterable[str]) -> None:
    """Print why retried jobs wait, in text output."""
    for text in () if cli.json else texts:
        cli.say(f"note: {text}")
