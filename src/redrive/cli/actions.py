"""The actions resolve, discard and reopen, on exactly the jobs that the preview showed.

`retry` uses the same functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import click

from redrive.cli import views
from redrive.cli._cli import Cli, same_line
from redrive.cli._command import command, option, reason_option, yes_option
from redrive.cli._confirm import TYPED, confirm, confirm_number, need_terminal
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, Stop
from redrive.cli._filters import explained, selection_of, unquoted, with_filters
from redrive.cli.output import Facts, Line, Part, Table, View, fact, fields, plural
from redrive.desk import plans
from redrive.desk.desk import Desk
from redrive.desk.documents import job_document, spec_document
from redrive.desk.plans import Left, Plan
from redrive.desk.selection import USUAL, Filters, Selection
from redrive.desk.selectors import no_job
from redrive.jobs.transitions import Verb

NAMED = 5  # how many missing jobs are named

Function = Callable[..., None]

_DONE = {"retry": "retried", "resolve": "resolved", "discard": "discarded", "reopen": "reopened"}
_HANDLERS = fields("handler jobs:number")
_SKIPPED = fields("id:id why:prose")
_REASONS = fields("jobs:number why:prose")


def acting(function: Function) -> Function:
    """Add the selectors, the filters and the options of every action to a command."""
    decorators: list[Callable[[Function], Function]] = [
        with_filters,
        option("--all", "All jobs that the command applies to.", name="everything"),
        reason_option,
        option("--dry-run", "Only show what would be done."),
        yes_option,
        click.pass_obj,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


@command(
    "resolve",
    "redrive resolve 01J9ZQ4B7V5X2C8D3E6F1G0H4K --reason 'paid by hand'",
    "redrive resolve G7 --yes",
    "redrive resolve --handler 'mail.*' --age '>7d' --dry-run",
)
@acting
def resolve(cli: Cli, **options: Any) -> None:
    """Close jobs that were settled another way.

    Groups, filters and --all mean dead jobs unless --state is given. A group without filters is
    marked as well: if its cause comes back, the group is regressed. `reopen` undoes it.
    """
    _act(cli, "resolve", options)


@command(
    "discard",
    "redrive discard 01J9ZQ4B7V5X2C8D3E6F1G0H4K --reason 'a test order'",
    "redrive discard G7 --reason 'tenant is gone' --dry-run",
    "redrive list --tag test --ids | redrive discard - --reason 'test data' --yes",
)
@acting
def discard(cli: Cli, **options: Any) -> None:
    """Discard jobs permanently; needs a reason.

    Groups, filters and --all mean dead jobs unless --state is given. `reopen` undoes it.
    """
    if not options["reason"].strip():
        raise click.UsageError("discard needs --reason TEXT, which is kept in the audit log")
    _act(cli, "discard", options)


@command(
    "reopen",
    "redrive reopen 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive reopen G7 --reason 'it is back'",
    "redrive reopen --age '<1h' --dry-run",
)
@acting
def reopen(cli: Cli, **options: Any) -> None:
    """Make resolved or discarded jobs dead letters again."""
    _act(cli, "reopen", options)


def _act(cli: Cli, verb: Verb, options: dict[str, Any]) -> None:
    """Freeze, preview, ask, do, report."""
    selection = chosen(verb, options)
    with cli.acting(read_only=options["dry_run"]) as desk:
        seen = desk.store.now()  # jobs that die while a person is asked are not included
        with explained(selection):
            plan = plan_of(desk, verb, selection)
        if plan.is_void:
            raise nothing(plan, selection)
        if options["dry_run"]:
            then = same_line(without="--dry-run") if plan.eligible else ""
            cli.show(View(plan_document(plan), preview(plan)), then=then)
            return
        if not plan.eligible:
            report(cli, plan, 0, plan.ineligible)
            raise click.exceptions.Exit(CONFLICT)
        if not (options["yes"] or plan.is_single):
            ask(cli, plan)
        try:
            carry_out(cli, desk, plan, options["reason"])
        except click.exceptions.Exit as stop:
            if stop.exit_code == PARTLY:
                _mark(cli, desk, plan, options["reason"], seen)
            raise
        _mark(cli, desk, plan, options["reason"], seen)


def _mark(cli: Cli, desk: Desk, plan: Plan, reason: str, seen: float) -> None:
    """Mark the groups whose jobs were all closed or reopened."""
    for number in plan.whole_groups:
        mark(cli, desk, number, resolved=plan.verb == "resolve", reason=reason, at=seen)


def mark(cli: Cli, desk: Desk, group: int, *, resolved: bool, reason: str, at: float) -> None:
    """Mark a group as resolved or open, and print that."""
    desk.groups.mark(group, resolved=resolved, reason=reason, at=at)
    cli.say(f"G{group} is marked as {'resolved' if resolved else 'open'}")


def nothing(plan: Plan, selection: Selection) -> Stop:
    """Return the error that no job matches, with the ids that are unknown."""
    missing = [job_id for job_id, _ in plan.ineligible]
    hint = unquoted(selection)
    if not missing:
        states = {"retry": "dead and pending", "reopen": "resolved"}.get(plan.verb, "dead")
        hint = hint or f"without --state only {states} jobs are selected"
        return Stop("nothing_matched", "nothing matched", hint=hint, exits=NOTHING)
    text = no_job(missing[0])
    if len(missing) > 1:
        names = ", ".join(repr(job_id) for job_id in missing[:NAMED])
        more = " …" if len(missing) > NAMED else ""
        text = f"none of these {len(missing)} jobs exists: {names}{more}"
    return Stop("nothing_matched", hint or text, exits=NOTHING)


def plan_of(desk: Desk, verb: Verb, selection: Selection, *, as_run: bool = False) -> Plan:
    """Freeze the jobs of a selection."""
    return plans.make(desk, verb, [selection], asked=selection.asked, as_run=as_run)


def carry_out(cli: Cli, desk: Desk, plan: Plan, reason: str) -> None:
    """Do it to what is still as it was previewed, and report."""
    same, changed = plans.recheck(desk, plan)
    ids = [job.id for job in same]
    moved = desk.jobs.move(plan.verb, ids, asked=plan.asked, reason=reason) if ids else None
    done = len(moved.done) if moved else 0
    skipped = [*plan.ineligible, *changed, *(moved.skipped if moved else [])]
    report(cli, plan, done, skipped)
    if not done:
        raise click.exceptions.Exit(CONFLICT)
    if done < len(plan.eligible):
        raise click.exceptions.Exit(PARTLY)


def chosen(verb: Verb, options: dict[str, Any]) -> Selection:
    """Return the selection of an action; none at all is refused."""
    selection = selection_of(options, USUAL[verb])
    if options["everything"]:
        if not selection.is_empty:
            raise click.UsageError("use --all or a selection, not both")
        return Selection(filters=Filters(state=USUAL[verb]), asked="--all")
    if selection.is_empty:
        states = " and ".join(USUAL[verb])
        msg = f"name the jobs: ids, a group such as G7, filters, or --all for all {states} jobs"
        raise click.UsageError(msg)
    return selection


def ask(cli: Cli, plan: Plan) -> None:
    """Show the plan and ask a person to confirm it."""
    number = len(plan.eligible)
    need_terminal(f"{plan.verb} of {plural(number, 'job')}")
    cli.preview(View(None, preview(plan)))
    if number > TYPED:
        confirm_number(number, f"{plan.verb} them")
    else:
        confirm(f"{plan.verb.capitalize()} {plural(number, 'job')}?")


def preview(plan: Plan) -> list[Part]:
    """Show which jobs would be taken, and which not and why."""
    data, number = plan_document(plan), len(plan.eligible)
    samples = [job_document(job) for job in plan.samples]
    every = number == len(samples)
    title = "The jobs" if every else f"{len(samples)} of the {plural(number, 'job')}"
    by_handler = plan.handlers.most_common()
    facts = [fact("would take", number), fact("matched", plan.matched)]
    facts += fields("oldest:time") if plan.oldest is not None else []
    if plan.spec and (settings := views.settings_of(spec_document(plan.spec))):
        facts.append(fact("settings", settings))
    split = [{"handler": handler, "jobs": jobs} for handler, jobs in by_handler]
    return [
        *(Line(text, "warn") for text in plan.waits),
        Facts(facts, data),
        Table(_HANDLERS, split, "By handler", "handler"),
        Table(views.SAMPLES, samples, title, "sample"),
        skipped_table(plan.ineligible, "Not eligible"),
    ]


def report(cli: Cli, plan: Plan, done: int, skipped: Left) -> None:
    """Show what was done."""
    data = {
        "verb": plan.verb,
        "matched": plan.matched,
        "done": done,
        "skipped": [{"id": job_id, "why": why} for job_id, why in skipped],
    }
    parts: list[Part] = [
        Line(f"{_DONE[plan.verb]} {plural(done, 'job')}", "good" if done else "warn"),
        Facts(fields("matched done skipped:count"), data),
        skipped_table(skipped, "Skipped"),
    ]
    then = (
        f"redrive show {next(iter(plan.eligible), '')}" if plan.verb == "retry" else "redrive dlq"
    )
    cli.show(View(data, parts), then=then if done else "")


def skipped_table(skipped: Left, title: str) -> Table:
    """Return why jobs are left out: job by job where they are few, else counted by reason."""
    if len(skipped) > TYPED:
        reasons = Counter(why for _, why in skipped).most_common()
        rows = [{"jobs": jobs, "why": why} for why, jobs in reasons]
        return Table(_REASONS, rows, title, "left")
    return Table(_SKIPPED, [{"id": job_id, "why": why} for job_id, why in skipped], title, "left")


def plan_document(plan: Plan) -> dict[str, object]:
    """Return the plan for machines."""
    skipped = [{"id": job_id, "why": why} for job_id, why in plan.ineligible]
    document = {**plan.document(), "dry_run": True, "ineligible": skipped}
    return {**document, **spec_document(plan.spec)} if plan.spec else document
