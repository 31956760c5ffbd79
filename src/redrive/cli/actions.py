"""Acting: resolve, discard and reopen, always on exactly the jobs that were previewed.

`retry` is made of the same parts; see there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import click

from redrive.cli._command import command
from redrive.cli._errors import CONFLICT, FAILED, NOTHING, PARTLY, USAGE, Stop
from redrive.cli._face import Face, same_line
from redrive.cli._filters import Selection, explained, selection_of, unquoted, with_filters
from redrive.cli.output import Cell, Facts, Line, Part, Table, View, When, columns
from redrive.desk import plans
from redrive.desk.desk import Desk
from redrive.desk.documents import error_line
from redrive.desk.plans import Left, Plan
from redrive.desk.selection import USUAL, Filters
from redrive.desk.selectors import no_job
from redrive.jobs.transitions import Verb

TYPED = 100
"""Above so many jobs the number must be typed."""
NAMED = 5
"""How many missing jobs are named."""

Function = Callable[..., None]

_DONE = {
    "retry": "retried",
    "resolve": "resolved",
    "discard": "discarded",
    "reopen": "reopened",
}


def acting(function: Function) -> Function:
    """Add the selectors, the filters and the options of every action to a command."""
    options: list[Callable[[Function], Function]] = [
        with_filters,
        click.option("--all", "everything", is_flag=True, help="All the jobs it is meant for."),
        click.option("--reason", default="", metavar="TEXT", help="Why; kept with the act."),
        click.option("--dry-run", is_flag=True, help="Only show what would be done."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.pass_obj,
    ]
    for option in reversed(options):
        function = option(function)
    return function


@command(
    "resolve",
    "redrive resolve 01J9ZQ4B7V5X2C8D3E6F1G0H4K --reason 'paid by hand'",
    "redrive resolve G7 --yes",
    "redrive resolve --handler 'mail.*' --age '>7d' --dry-run",
)
@acting
def resolve(face: Face, **said: Any) -> None:
    """Close jobs: the matter is settled another way.

    Groups, filters and --all mean dead jobs unless --state says otherwise. A group without filters
    is marked as well: when the cause kills again, that is a regression. `reopen` undoes it.
    """
    _act(face, "resolve", said)


@command(
    "discard",
    "redrive discard 01J9ZQ4B7V5X2C8D3E6F1G0H4K --reason 'a test order'",
    "redrive discard G7 --reason 'tenant is gone' --dry-run",
    "redrive list --tag test --ids | redrive discard - --reason 'test data' --yes",
)
@acting
def discard(face: Face, **said: Any) -> None:
    """Discard jobs permanently; needs a reason.

    Groups, filters and --all mean dead jobs unless --state says otherwise. `reopen` undoes it.
    """
    if not said["reason"].strip():
        raise click.UsageError("discard needs --reason: those who come after want to know why")
    _act(face, "discard", said)


@command(
    "reopen",
    "redrive reopen 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive reopen G7 --reason 'it is back'",
    "redrive reopen --age '<1h' --dry-run",
)
@acting
def reopen(face: Face, **said: Any) -> None:
    """Make resolved or discarded jobs dead letters again."""
    _act(face, "reopen", said)


def _act(face: Face, verb: Verb, said: dict[str, Any]) -> None:
    """Freeze, preview, ask, do, report."""
    selection = chosen(verb, said)
    with face.acting(read_only=said["dry_run"]) as desk:
        seen = desk.store.now()  # what dies while a person is asked is no part of it
        with explained(selection):
            plan = plan_of(desk, verb, selection)
        if plan.is_void:
            raise nothing(plan, selection)
        if said["dry_run"]:
            then = same_line(without="--dry-run") if plan.eligible else ""
            face.show(View(plan_document(plan), preview(plan)), then=then)
            return
        if not plan.eligible:
            report(face, plan, 0, plan.ineligible)
            raise click.exceptions.Exit(CONFLICT)
        if not (said["yes"] or plan.is_single):
            ask(face, plan)
        try:
            carry_out(face, desk, plan, said["reason"])
        except click.exceptions.Exit as stop:
            if stop.exit_code == PARTLY:
                _mark(face, desk, plan, said["reason"], seen)
            raise
        _mark(face, desk, plan, said["reason"], seen)


def _mark(face: Face, desk: Desk, plan: Plan, reason: str, seen: float) -> None:
    """Mark the causes all of whose jobs were closed or opened: what dies of them then is back."""
    if plan.verb not in {"resolve", "reopen"} or plan.wanted.filters or plan.wanted.terms:
        return
    for number in plan.wanted.groups:
        mark(face, desk, number, resolved=plan.verb == "resolve", reason=reason, at=seen)


def mark(face: Face, desk: Desk, group: int, *, resolved: bool, reason: str, at: float) -> None:
    """Mark a cause as resolved or open, and say so."""
    desk.groups.mark(group, resolved=resolved, reason=reason, at=at)
    face.say(f"G{group} is marked as {'resolved' if resolved else 'open'}")


def nothing(plan: Plan, selection: Selection) -> Stop:
    """Return the error that no job matches, and which word was meant."""
    missing = [one for one, _ in plan.ineligible]
    said = unquoted(selection)
    if not missing:
        hint = said or "without --state only dead jobs are meant (by retry: pending ones too)"
        return Stop("nothing_matched", "nothing matched", hint=hint, exits=NOTHING)
    text = no_job(missing[0])
    if len(missing) > 1:
        names = ", ".join(repr(one) for one in missing[:NAMED])
        more = " …" if len(missing) > NAMED else ""
        text = f"none of these {len(missing)} jobs is there: {names}{more}"
    return Stop("nothing_matched", said or text, exits=NOTHING)


def plan_of(desk: Desk, verb: Verb, selection: Selection, *, as_run: bool = False) -> Plan:
    """Freeze the jobs of a selection."""
    filters = selection.filters or Filters()
    return plans.make(desk, verb, selection.words, filters, asked=selection.asked, as_run=as_run)


def carry_out(face: Face, desk: Desk, plan: Plan, reason: str) -> None:
    """Do it to what is still as it was previewed, and report."""
    same, changed = plans.recheck(desk, plan)
    ids = [job.id for job in same]
    moved = desk.jobs.move(plan.verb, ids, asked=plan.asked, reason=reason) if ids else None
    done = len(moved.done) if moved else 0
    skipped = [*plan.ineligible, *changed, *(moved.skipped if moved else [])]
    report(face, plan, done, skipped)
    if not done:
        raise click.exceptions.Exit(CONFLICT)
    if done < len(plan.eligible):
        raise click.exceptions.Exit(PARTLY)


def chosen(verb: Verb, said: dict[str, Any]) -> Selection:
    """Return the selection of an action; none at all is refused."""
    selection = selection_of(said, USUAL[verb])
    if said["everything"]:
        if not selection.is_empty:
            raise click.UsageError("give --all or a selection, not both")
        return Selection(filters=Filters(state=USUAL[verb]), asked="--all")
    if selection.is_empty:
        states = " and ".join(USUAL[verb])
        msg = f"say which jobs: ids, a group such as G7, filters, or --all for all {states} jobs"
        raise click.UsageError(msg)
    return selection


def ask(face: Face, plan: Plan) -> None:
    """Ask a person, once they have seen the plan; without a terminal there is nobody to ask."""
    number = len(plan.eligible)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        msg = f"{plan.verb} would take {number} jobs and there is no terminal to ask on"
        raise Stop("needs_yes", msg, hint="add --yes, or look first with --dry-run", exits=USAGE)
    face.preview(View(None, preview(plan)))
    if number > TYPED:
        said = click.prompt(
            f"Type {number} to {plan.verb} them", err=True, default="", show_default=False
        )
        agreed = said.strip().replace(",", "") == str(number)
    else:
        agreed = click.confirm(f"{plan.verb.capitalize()} {count_words(number)}?", err=True)
    if not agreed:
        raise Stop("declined", "nothing was changed", exits=FAILED)


def preview(plan: Plan) -> list[Part]:
    """Show what would be taken, and what not and why."""
    number = len(plan.eligible)
    facts: list[tuple[str, Cell]] = [("would take", number), ("matched", plan.matched)]
    if plan.oldest is not None:
        facts.append(("oldest", When(plan.oldest)))
    parts: list[Part] = [*(Line(text, "warn") for text in plan.waits), Facts(facts)]
    if number:
        split: list[list[Cell]] = [[name, jobs] for name, jobs in plan.handlers.most_common()]
        parts.append(Table(columns("handler", "jobs:number"), split, "By handler", "handler"))
        heads = columns("id:id", "state:word", "handler", "error")
        rows: list[list[Cell]] = [
            [job.id, job.state, job.handler, error_line(job.failure)] for job in plan.samples
        ]
        title = "The jobs" if number == len(rows) else f"{len(rows)} of the {number} jobs"
        parts.append(Table(heads, rows, title, "sample"))
    return parts + skipped_parts(plan.ineligible, "Cannot be taken")


def report(face: Face, plan: Plan, done: int, skipped: Left) -> None:
    """Show what was done."""
    word = _DONE[plan.verb]
    data = {
        "verb": plan.verb,
        "matched": plan.matched,
        "done": done,
        "skipped": [{"id": one, "why": why} for one, why in skipped],
    }
    parts: list[Part] = [
        Line(f"{word} {count_words(done)}", "good" if done else "warn"),
        Facts([("matched", plan.matched), ("done", done), ("skipped", len(skipped))]),
        *skipped_parts(skipped, "Skipped"),
    ]
    then = "redrive failed" if plan.verb == "retry" else "redrive dlq"
    face.show(View(data, parts), then=then if done else "")


def skipped_parts(skipped: Left, title: str) -> list[Part]:
    """Return why jobs are left out: each of a few, the reasons of many."""
    if not skipped:
        return []
    if len(skipped) > TYPED:
        rows: list[list[Cell]] = [
            [jobs, why] for why, jobs in Counter(why for _, why in skipped).most_common()
        ]
        return [Table(columns("jobs:number", "why"), rows, title, "left")]
    return [Table(columns("id:id", "why"), [list(pair) for pair in skipped], title, "left")]


def plan_document(plan: Plan) -> dict[str, object]:
    """Return the plan for machines."""
    return {
        **plan.document(),
        "dry_run": True,
        "ineligible": [{"id": one, "why": why} for one, why in plan.ineligible],
    }


def count_words(number: int) -> str:
    """Return a number of jobs as text."""
    return "1 job" if number == 1 else f"{number:,} jobs"
