"""The commands that change jobs: retry, resolve, discard, reopen and purge.

Each makes a plan, shows it, asks, and carries it out on the jobs that have not changed since.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stdout
from typing import Any

import click

from redrive.app import Redrive
from redrive.cli import views
from redrive.cli._cli import Cli, same_line
from redrive.cli._command import app_option, command, option, reason_option, yes_option
from redrive.cli._confirm import TYPED, confirm, confirm_number, need_terminal
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, STOPPED, Stop
from redrive.cli._filters import chosen, explained, with_selectors
from redrive.cli._load import load_app, program_name
from redrive.cli.output import Facts, Line, Part, Table, View, fact, fields, plural
from redrive.cli.runs import follow, view_of
from redrive.desk import shapes
from redrive.desk.desk import Desk
from redrive.desk.documents import job_document, spec_document
from redrive.desk.jobs import check_reason
from redrive.desk.plan import Order, Plan, Verb
from redrive.desk.search import USUAL, Selection
from redrive.jobs.job import Job, State
from redrive.runs import rules
from redrive.runs.run_records import Run, Spec

Function = Callable[..., None]

_DONE: Mapping[Verb, str] = {
    "retry": "retried",
    "resolve": "resolved",
    "discard": "discarded",
    "reopen": "reopened",
    "purge": "removed",
}
_HANDLERS = fields("handler jobs:number")
_SKIPPED = fields("id:id why:prose")
_REASONS = fields("jobs:number why:prose")
_OF_SPECS = ("canary", "rate", "ramp", "stop_on")  # options that say how a run is driven
_OF_RUNS = (*_OF_SPECS, "name", "wait")  # options that turn a retry into a run


def _acting(function: Function) -> Function:
    """Add the selectors and the options of every action to a command."""
    decorators: list[Callable[[Function], Function]] = [
        with_selectors,
        reason_option,
        option("--dry-run", "Only show what would be done."),
        yes_option,
        click.pass_obj,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


_all_option = option("--all", "All jobs that the command applies to.", name="everything")


@command(
    "resolve",
    "redrive resolve 01J9ZQ4B7V5X2C8D3E6F1G0H4K --reason 'paid by hand'",
    "redrive resolve G7 --yes",
    "redrive resolve 'handler:mail.* age:>7d' --dry-run",
)
@_all_option
@_acting
def resolve(cli: Cli, **options: Any) -> None:
    """Close jobs that were settled another way.

    Groups, filters and --all mean dead jobs unless a state is named. A group without filters is
    marked as well: if its cause comes back, the group is regressed. `reopen` undoes it.
    """
    act(cli, "resolve", options)


@command(
    "discard",
    "redrive discard 01J9ZQ4B7V5X2C8D3E6F1G0H4K --reason 'a test order'",
    "redrive discard G7 --reason 'tenant is gone' --dry-run",
    "redrive list tag:test --ids | redrive discard - --reason 'test data' --yes",
)
@_all_option
@_acting
def discard(cli: Cli, **options: Any) -> None:
    """Discard jobs permanently; needs a reason.

    Groups, filters and --all mean dead jobs unless a state is named. `reopen` undoes it.
    """
    act(cli, "discard", options)


@command(
    "reopen",
    "redrive reopen 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive reopen G7 --reason 'it is back'",
    "redrive reopen 'age:<1h' --dry-run",
)
@_all_option
@_acting
def reopen(cli: Cli, **options: Any) -> None:
    """Make resolved or discarded jobs dead letters again."""
    act(cli, "reopen", options)


@command(
    "purge",
    "redrive purge 'state:resolved age:>30d' --dry-run",
    "redrive purge 'G7 state:dead'",
    "redrive purge state:completed --yes",
)
@_acting
def purge(cli: Cli, **options: Any) -> None:
    """Remove completed, resolved or dead jobs permanently. It cannot be undone.

    Pending and running jobs are never removed, nor jobs of a run that has not ended. Workers remove
    finished jobs by themselves, as old as their policies say.
    """
    act(cli, "purge", {**options, "everything": False})


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
@_all_option
@_acting
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
    if options["inline"]:
        _run_here(cli, spec, options)
    elif options["app_name"]:
        raise click.UsageError("--app belongs to --inline")
    else:
        act(cli, "retry", options, spec)


def act(cli: Cli, verb: Verb, options: dict[str, Any], spec: Spec | None = None) -> None:
    """Plan, show, ask, carry out, report."""
    selection = _selection(verb, options)
    is_single = len(selection.ids) == 1
    if is_single and not any(options.get(name) for name in _OF_RUNS):
        spec = None
    with cli.acting(read_only=options["dry_run"]) as desk:
        if spec and not options["dry_run"]:
            desk.runs.close_abandoned()
        plan = _planned(desk, verb, selection, as_run=spec is not None)
        if options["dry_run"]:
            data = {**plan.document(), **(spec_document(spec) if spec else {})}
            then = same_line(without="--dry-run") if plan.ids else ""
            cli.show(View(data, _preview(plan, spec)), then=then)
            return
        if spec and (live := _live_run(desk, plan)):
            _attach(cli, desk, live, spec, options, others=len(plan.ids))
            return
        if plan.ids and not options["yes"] and (spec or verb == "purge" or not is_single):
            ask(cli, plan, spec)
        order = Order(as_of=plan.as_of, confirm=len(plan.ids), reason=options["reason"])
        if spec:
            order |= Order(spec=spec, name=options["name"] or "")
        done = desk.carry_out(verb, selection, **order)
        if done["run"] and done["done"] and options["wait"]:
            run = desk.runs.get(done["run"])
            cli.say(f"{run.id} retries {plural(run.total, 'job')}")
            follow(cli, desk, run)
        _report(cli, plan, done)


def _selection(verb: Verb, options: dict[str, Any]) -> Selection:
    """Return the selection of an action; none at all is refused."""
    check_reason(verb, options["reason"])
    usual = USUAL[verb]
    selection = chosen(options["selectors"], usual)
    everything = options.get("everything", False)
    if everything and not selection.is_empty:
        raise click.UsageError("use --all or a selection, not both")
    if everything:
        return Selection(asked="--all").usual(usual)
    if selection.is_empty:
        also = "" if verb == "purge" else f", or --all for all {' and '.join(usual)} jobs"
        msg = f"name the jobs: ids, a group such as G7, or filters such as state:dead{also}"
        raise click.UsageError(msg)
    return selection


def _planned(desk: Desk, verb: Verb, selection: Selection, *, as_run: bool = False) -> Plan:
    with explained(selection.ids):
        plan = desk.plan(verb, selection, as_run=as_run)
    if not plan.matched:
        states = {"retry": "dead and pending", "reopen": "resolved"}.get(verb, "dead")
        hint = "" if verb == "purge" else f"unless a state is named only {states} jobs are selected"
        raise Stop("nothing_matched", "nothing matched", hint=hint, exits=NOTHING)
    return plan


def ask(cli: Cli, plan: Plan, spec: Spec | None) -> None:
    """Show the plan and ask a person to confirm it."""
    number, verb = len(plan.ids), plan.verb
    need_terminal(f"{verb} of {plural(number, 'job')}")
    cli.preview(View(None, _preview(plan, spec)))
    if verb == "purge":
        confirm_number(number, "remove them permanently")
    elif number > TYPED:
        confirm_number(number, f"{verb} them")
    else:
        confirm(f"{verb.capitalize()} {plural(number, 'job')}?")


def _preview(plan: Plan, spec: Spec | None) -> list[Part]:
    """Show which jobs would be taken, and which not and why."""
    data, number = plan.document(), len(plan.ids)
    title = f"{len(plan.samples)} of the {plural(number, 'job')}"
    states = ", ".join(f"{jobs} {state}" for state, jobs in data["states"].items())
    facts = [fact("would take", number), fact("matched", plan.matched), fact("states", states)]
    facts += fields("oldest:time") if plan.oldest is not None else []
    if spec and (settings := views.settings_of(spec_document(spec))):
        facts.append(fact("settings", settings))
    split = [{"handler": handler, "jobs": jobs} for handler, jobs in data["handlers"].items()]
    return [
        *(Line(text, "warn") for text in plan.waits),
        Facts(facts, data),
        Table(_HANDLERS, split, "By handler", "handler"),
        Table(
            views.SAMPLES,
            data["samples"],
            "The jobs" if number == len(plan.samples) else title,
            "sample",
        ),
        _left_table(data["ineligible"], "Not eligible"),
    ]


def _report(cli: Cli, plan: Plan, done: shapes.Done) -> None:
    """Show what was done."""
    number, verb, run = done["done"], plan.verb, done["run"]
    text = f"{_DONE[verb]} {plural(number, 'job')}"
    if run:
        text = f"{run} retries {plural(number, 'job')}" if number else f"{run} has these jobs"
    parts: list[Part] = [
        Line(text, "good" if number else "warn"),
        *(
            Line(f"G{group} is marked as {_DONE[verb]}", "")
            for group in plan.whole_groups
            if number
        ),
        Facts(fields("matched done skipped.total=skipped:number"), done),
        _left_table(done["skipped"], "Skipped"),
    ]
    then = {"retry": f"redrive show {plan.ids[0]}", "purge": "redrive log"}.get(verb, "redrive dlq")
    cli.show(
        View(done, parts), then=f"redrive run {run} --watch" if run else then if number else ""
    )
    for wait in () if cli.json else done["waits"]:
        cli.say(f"note: {wait}")
    if number < done["planned"]:
        raise click.exceptions.Exit(PARTLY if number else CONFLICT)


def _left_table(left: shapes.LeftOut, title: str) -> Table:
    """Return why jobs are left out: job by job where they are few, else counted by reason."""
    if left["total"] <= min(len(left["samples"]), TYPED):
        return Table(_SKIPPED, left["samples"], title, "left")
    rows = [{"jobs": jobs, "why": why} for why, jobs in left["reasons"].items()]
    return Table(_REASONS, rows, title, "left")


def _live_run(desk: Desk, plan: Plan) -> Run | None:
    """Return the live run that has these jobs already: the same selection, or all of the jobs.

    With ids on standard input the selection is the same text for other jobs.
    """
    for number, _ in plan.runs.most_common():
        run = desk.runs.get(number)
        if not plan.ids or (run.asked == plan.asked and "-" not in plan.asked.split()):
            return run
    return None


def _attach(
    cli: Cli, desk: Desk, run: Run, spec: Spec, options: dict[str, Any], *, others: int
) -> None:
    """Show the run that has these jobs already; options that it does not have are refused."""
    wanted, has = spec_document(spec), spec_document(run.spec)
    other = [name for name in _OF_SPECS if options[name] and wanted[name] != has[name]]
    if other:
        words = ", ".join(
            f"--{name.replace('_', '-')}" + ("" if name == "ramp" else f" {options[name]}")
            for name in other
        )
        settings = views.settings_of(has) or "no canary, no rate and no stop rule"
        msg = f"{run.id} has these jobs already, with {settings}; not applied: {words}"
        steps = f"redrive run {run.id} cancel, then retry again"
        hint = f"redrive run {run.id} rate {options['rate']}" if other == ["rate"] else steps
        raise Stop("attached", msg, hint=hint, exits=CONFLICT)
    if options["no_attach"] or run.phase == "cancelled":
        msg = f"{run.id} has these jobs already; it is {run.phase}"
        raise Stop("attached", msg, hint=f"redrive run {run.id}", exits=CONFLICT)
    cli.say(f"{run.id} has these jobs already: attached")
    if others:
        cli.say(f"not part of it: {plural(others, 'newer job')}; retry them after the run")
    if options["wait"]:
        follow(cli, desk, run)
    cli.show(view_of(desk, run), then=f"redrive run {run.id} --watch")


def _run_here(cli: Cli, spec: Spec, options: dict[str, Any]) -> None:
    """Plan, ask, run each job in this process, oldest first, and report the result."""
    if spec.canary or spec.rate or options["wait"] or options["name"]:
        raise click.UsageError("--inline runs job by job: only --stop-on goes with it")
    selection = _selection("retry", options)
    name = program_name(cli, options["app_name"])
    if not name:
        msg = 'name your program: --app shop.jobs:app, or in redrive.toml: app = "shop.jobs:app"'
        raise click.UsageError(msg)
    # The output of handlers must not get into the document.
    aside = redirect_stdout(sys.stderr) if cli.json else nullcontext()
    with load_app(cli, name) as app:
        plan = _planned(app.desk, "retry", selection, as_run=True)
        if options["dry_run"]:
            cli.show(View(plan.document(), _preview(plan, None)))
            return
        if plan.ids and not (options["yes"] or len(selection.ids) == 1):
            ask(cli, plan, None)
        same = app.desk.plan("retry", selection, as_of=plan.as_of, as_run=True)
        if not same.ids:
            raise Stop("refused", same.refusal, exits=CONFLICT)
        with aside:
            done, why = _one_by_one(app, same.ids, spec, options["reason"])
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
    cli.show(View(data, parts), then=f"redrive show {failed[0].id}" if failed else "redrive status")
    if why or failed:
        raise click.exceptions.Exit(STOPPED if why else PARTLY)


def _one_by_one(app: Redrive, ids: list[str], spec: Spec, reason: str) -> tuple[list[Job], str]:
    """Run the jobs until too many have failed; return them as they are now, and why it stopped."""
    done: list[Job] = []
    for job_id in sorted(ids):
        failed = sum(job.state is not State.COMPLETED for job in done)
        if why := rules.too_many(spec.stop_on, failed, len(done)):
            return done, why
        if (job := app.retry_here(job_id, reason=reason)) is not None:
            done.append(job)
    return done, ""
