"""Retrying: one job at once, more than one as a run that workers drive and anybody can follow."""

from __future__ import annotations

from typing import Any

import click

from redrive.cli import actions
from redrive.cli._command import command
from redrive.cli._errors import CONFLICT, PARTLY, Stop
from redrive.cli._face import Face, same_line
from redrive.cli._filters import Selection, explained
from redrive.cli._follow import follow
from redrive.cli.output import Facts, Line, Part, View
from redrive.desk import plans, waits
from redrive.desk.desk import Desk
from redrive.desk.plans import Left, Plan
from redrive.runs import rules
from redrive.runs.run_records import Run, Spec

_OF_RUNS = ("canary", "rate", "ramp", "stop_on", "name", "wait")
"""Options that only a run can obey."""


@command(
    "retry",
    "redrive retry 01J9ZQ4B7V5X2C8D3E6F1G0H4K",
    "redrive retry G7 --canary 3 --rate 20/s --ramp --stop-on 5% --wait",
    "redrive retry 'handler:billing.* age:<2h' --reason 'the API is back' --dry-run",
    "redrive retry 01J9ZQ4B7V5X2C8D3E6F1G0H4K --inline --pdb --app shop.jobs:app",
)
@click.option("--canary", type=click.IntRange(1), metavar="N", help="Try so many jobs first.")
@click.option("--rate", metavar="RATE", help="At most so many: 20/s, 30/m.")
@click.option("--ramp", is_flag=True, help="Begin at a tenth of the rate, double every 10 s.")
@click.option("--stop-on", metavar="LIMIT", help="Stop when 10% or 25 have failed again.")
@click.option("--name", metavar="TEXT", help="A name for the run, such as a ticket.")
@click.option("--wait", is_flag=True, help="Follow the run to its end; Ctrl-C detaches.")
@click.option("--no-attach", is_flag=True, help="Exit 4 if a run has these jobs already.")
@click.option("--inline", is_flag=True, help="Run the jobs in this process, one by one.")
@click.option("--pdb", "debug", is_flag=True, help="With --inline: debug a handler that fails.")
@click.option("--app", "app_name", metavar="MODULE:APP", help="With --inline: whose handlers.")
@actions.acting
def retry(face: Face, **said: Any) -> None:
    """Drive jobs again: one that is named by its id at once, more than one as a run.

    Dead ones start a fresh life, pending ones become due. Groups, filters and --all mean pending
    and dead jobs unless a state is named. Workers drive a run, so closing the terminal changes
    nothing; repeating the command attaches to it. With --wait the exit code is 6 if some failed
    again and 7 if the run was stopped.
    """
    spec = rules.spec_of(
        canary=said["canary"] or 0,
        rate=said["rate"],
        ramp=said["ramp"],
        stop_on=said["stop_on"] or "",
    )
    selection = actions.chosen("retry", said)
    if said["inline"]:
        from redrive.cli._inline import run_here  # noqa: PLC0415 - few want it

        run_here(face, selection, spec, said)
        return
    if said["debug"] or said["app_name"]:
        raise click.UsageError("--pdb and --app belong to --inline")
    as_run = not _names_one(selection) or any(said[name] for name in _OF_RUNS)
    with face.acting(read_only=said["dry_run"]) as desk:
        if not said["dry_run"]:
            desk.runs.close_abandoned()
        with explained(selection):
            plan = actions.plan_of(desk, "retry", selection, as_run=as_run)
        if plan.is_void:
            raise actions.nothing(plan, selection)
        if plan.eligible:
            plan.waits = waits.of_lanes(desk, plan.lanes)
        if said["dry_run"]:
            then = same_line(without="--dry-run") if plan.eligible else ""
            face.show(View(actions.plan_document(plan), actions.preview(plan)), then=then)
        elif not as_run and plan.eligible:
            actions.carry_out(face, desk, plan, said["reason"])
        else:
            _drive(face, desk, plan, spec, said)


def _names_one(selection: Selection) -> bool:
    return len(selection.ids) == 1 and not selection.groups and not selection.filters


def _drive(face: Face, desk: Desk, plan: Plan, spec: Spec, said: dict[str, Any]) -> None:
    live = _live_run(desk, plan)
    if live is not None:
        _attach(face, desk, live, said, others=len(plan.eligible))
        return
    if not plan.eligible:
        actions.report(face, plan, 0, plan.ineligible)
        raise click.exceptions.Exit(CONFLICT)
    if not said["yes"]:
        actions.ask(face, plan)
    same, changed = plans.recheck(desk, plan)
    left = [*plan.ineligible, *changed]
    run = desk.runs.freeze(
        same,
        spec,
        asked=plan.asked,
        name=said["name"] or "",
        reason=said["reason"],
        skipped=left,
    )
    if said["wait"]:
        face.say(f"{run.id} drives {actions.count_words(run.total)}")
        follow(face, desk, run)
    _started(face, desk, plan, run, left)


def _live_run(desk: Desk, plan: Plan) -> Run | None:
    """Return the live run that has these jobs already: asked for in the same words, or with all of them.

    Ids on standard input are other ones each time, in the same words.
    """
    asked = plan.asked
    for number, _ in plan.runs.most_common():
        run = desk.runs.get(number)
        if not plan.eligible or (run.asked == asked and "-" not in asked.split()):
            return run
    return None


def _attach(face: Face, desk: Desk, run: Run, said: dict[str, Any], *, others: int) -> None:
    from redrive.cli import runs as shown  # noqa: PLC0415 - few commands need it

    if said["no_attach"] or run.phase == "cancelled":
        msg = f"{run.id} has these jobs already; it is {run.phase}"
        raise Stop("attached", msg, hint=f"redrive run {run.id}", exits=CONFLICT)
    face.say(f"{run.id} has these jobs already: attached")
    if others:
        face.say(
            f"not part of it: {actions.count_words(others)} that came since; retry them once it ends"
        )
    if said["wait"]:
        follow(face, desk, run)
    face.show(shown.view_of(desk, run), then=f"redrive run {run.id} --watch")


def _started(face: Face, desk: Desk, plan: Plan, run: Run, skipped: Left) -> None:
    """Show what was started, and what it waits for."""
    left = sum(run.skipped.values())
    data = {
        "verb": "retry",
        "run": run.id,
        "matched": plan.matched,
        "done": run.total,
        "waits": waits.of_run(desk, run),
        "skipped": [{"id": one, "why": why} for one, why in skipped],
    }
    parts: list[Part] = [
        Line(f"{run.id} drives {actions.count_words(run.total)}", "good"),
        Facts([("matched", plan.matched), ("taken", run.total), ("skipped", left)]),
        *actions.skipped_parts(skipped, "Skipped"),
    ]
    face.show(View(data, parts), then=f"redrive run {run.id} --watch")
    for text in [] if face.json else waits.of_run(desk, run):
        face.say(f"note: {text}")
    if run.total < len(plan.eligible):
        raise click.exceptions.Exit(PARTLY)
