"""Causes: what jobs died of, how it goes on, and what people said about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from redrive.cli._command import command
from redrive.cli._face import Face
from redrive.cli._filters import selection_of, with_filters
from redrive.cli.output import Cell, Facts, Line, Part, Table, Trend, View, When, columns
from redrive.desk.desk import Desk
from redrive.desk.documents import (
    Seen,
    error_line,
    job_document,
    scope_document,
    seen_document,
    with_trends,
)
from redrive.desk.jobs import Scope
from redrive.desk.shared_facts import newest_of, shared_facts
from redrive.jobs.clock import iso
from redrive.jobs.durations import seconds
from redrive.jobs.job import Group, Job

SAMPLES = 5
_ALL = 100_000


@command(
    "groups",
    "redrive groups",
    "redrive groups --new --sort growth",
    "redrive groups 'handler:mail.* state:pending,dead' --json",
)
@with_filters
@click.option("--new", is_flag=True, help="Only first seen lately (see --since), or back again.")
@click.option("--since", default="24h", show_default=True, metavar="TIME", help="What --new means.")
@click.option(
    "--sort",
    default="count",
    show_default=True,
    type=click.Choice(["count", "growth", "age"]),
    help="Most jobs, most deaths in the last hour, or longest known first.",
)
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000))
@click.pass_obj
def groups(face: Face, /, limit: int, *, new: bool, since: str, sort: str, **said: Any) -> None:
    """Show what jobs died of, the commonest cause first."""
    selection = selection_of(said)
    recent = seconds(since, name="--since")
    if selection.ids:
        raise click.UsageError("groups takes filters or groups such as G7, no ids")
    with face.reading() as desk:
        every = new or sort != "count"
        found, scope = desk.groups.page(
            *selection.words,
            limit=_ALL if every else limit,
            **(selection.filters or {}),
        )
        rows = with_trends(desk, found)
    rows = [row for row in rows if row.is_new(recent)] if new else rows
    if sort == "growth":
        rows.sort(key=lambda row: (-row.last_hour, row.group.number))
    elif sort == "age":
        rows.sort(key=lambda row: (row.group.first_seen or 0.0, row.group.number))
    _show(face, rows[:limit], limit, scope)


def _show(face: Face, rows: list[Seen], limit: int, scope: Scope | None) -> None:
    parts: list[Part] = [table(rows)] if rows else [Line("No groups.")]
    page = {"limit": limit, "count": len(rows), "scope": scope_document(scope)}
    then = f"redrive group {rows[0].group.name}" if rows else "redrive status"
    face.show(View([seen_document(row) for row in rows], parts, page), then=then)
    face.say_scope(scope)


def table(rows: Sequence[Seen], title: str = "", tag: str = "") -> Table:
    """Return a table of causes."""
    heads = columns(
        "group:id", "jobs:number", "cause", "category:word", "handlers", "first:time", "last:time",
        "last hour:number", "last day:word", "status:word", "note",
    )  # fmt: skip
    if not any(row.group.record.note for row in rows):
        heads[-1] = columns("note:text:extra")[0]
    cells: list[list[Cell]] = [
        [
            row.group.name,
            row.group.jobs,
            row.group.title,
            row.group.category,
            ", ".join(row.group.handlers),
            When(row.group.first_seen, row.now),
            When(row.group.last_seen, row.now),
            row.last_hour,
            Trend(row.trend),
            row.group.record.status,
            row.group.record.note or None,
        ]
        for row in rows
    ]
    return Table(heads, cells, title, tag)


@command(
    "group",
    "redrive group G7",
    "redrive group G7 note 'the provider knows, ticket 4711'",
    "redrive group G7 resolve --reason 'fixed in 1.8.3'",
)
@click.argument("name", metavar="G7")
@click.argument("action", required=False, type=click.Choice(["note", "resolve", "reopen"]))
@click.argument("text", required=False)
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the act.")
@click.option("--dry-run", is_flag=True, help="Only show what would be resolved or reopened.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_context
def group(
    ctx: click.Context,
    name: str,
    action: str | None,
    text: str | None,
    reason: str,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show a cause: how it goes on, what its jobs share, what was said about it.

    `note` writes something down for those who come after (an empty text removes it). `resolve` closes
    its dead jobs and marks it: when the cause kills again, that is a regression. `reopen` undoes it.
    """
    face: Face = ctx.obj
    if (action == "note") != (text is not None):
        raise click.UsageError("a text belongs to note, and to nothing else: group G7 note 'TEXT'")
    if action == "note":
        with face.acting() as desk:
            desk.groups.mark(desk.groups.get(name), note=text)
            face.show(_view(desk, desk.groups.get(name)), then=f"redrive group {name}")
    elif action is None:
        with face.reading() as desk:
            face.show(
                _view(desk, desk.groups.get(name)), then=f"redrive retry {name} --canary 3 --wait"
            )
    else:
        _turn(ctx, name, action, {"reason": reason, "dry_run": dry_run, "yes": yes})


def _turn(ctx: click.Context, name: str, action: str, options: dict[str, Any]) -> None:
    """Resolve or reopen a group's jobs by the rules of every bulk act, which marks the group too."""
    from redrive.cli import actions  # noqa: PLC0415 - looking does not need it

    face: Face = ctx.obj
    with face.reading() as desk:
        found = desk.groups.get(name)
        state = "dead" if action == "resolve" else "resolved"
        some = desk.jobs.find(found, state=state, limit=1).jobs
        seen, resolved = desk.store.now(), action == "resolve"
    if some:
        ctx.invoke(
            actions.resolve if resolved else actions.reopen, selectors=(found.name,), **options
        )
    elif not options["dry_run"]:
        with face.acting() as desk:
            actions.mark(
                face, desk, found.number, resolved=resolved, reason=options["reason"], at=seen
            )


def _view(desk: Desk, found: Group) -> View:
    (seen,) = with_trends(desk, [found])
    jobs = newest_of(desk, found)
    newest, looked, facts = jobs[:SAMPLES], len(jobs), shared_facts(jobs)
    data = {
        **seen_document(seen),
        "shared": [{"fact": name, "value": value, "share": share} for name, value, share in facts],
        "shared_of": looked,
        "newest": [job_document(job) for job in newest],
    }
    parts: list[Part] = [Facts(_facts(seen))]
    if facts:
        title = f"Shared by the {looked:,} newest of {found.jobs:,} jobs"
        rows: list[list[Cell]] = [[f"{share:.0%}", name, value] for name, value, share in facts]
        parts.append(Table(columns("share:number", "what:word", "value"), rows, title, "shared"))
    if newest:
        parts.append(_newest(newest, seen.now))
    return View(data, parts)


def _facts(seen: Seen) -> list[tuple[str, Cell]]:
    record, found = seen.group.record, seen.group
    always: list[tuple[str, Cell]] = [
        ("group", found.name),
        ("cause", found.title),
        ("status", record.status),
        ("dead jobs", found.jobs),
        ("died in the last hour", seen.last_hour),
        ("last day", Trend(seen.trend)),
        ("first seen", When(found.first_seen, seen.now)),
        ("last seen", When(found.last_seen, seen.now)),
        ("category", found.category),
        ("handlers", ", ".join(found.handlers)),
    ]
    if record.resolved is not None:
        why = f": {record.reason}" if record.reason else ""
        always.append(("resolved by", f"{record.resolved_by} at {iso(record.resolved)}{why}"))
    if record.note:
        always.append(("note", f"{record.note} ({record.noted_by}, {iso(record.noted)})"))
    return always


def _newest(jobs: list[Job], now: float) -> Table:
    rows: list[list[Cell]] = [
        [job.id, When(job.updated, now), job.handler, error_line(job.failure)] for job in jobs
    ]
    return Table(columns("id:id", "died:time", "handler", "error"), rows, "Newest", "newest")
