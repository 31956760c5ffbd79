"""Groups: what jobs died of, how often, what they share, and notes about it."""

from __future__ import annotations

from typing import Any

import click

from redrive.cli import views
from redrive.cli._cli import Cli
from redrive.cli._command import command, option, reason_option, yes_option
from redrive.cli._filters import chosen, with_selectors
from redrive.cli.output import Facts, Line, Part, Table, View, fields
from redrive.desk import lists
from redrive.desk.desk import Desk
from redrive.desk.documents import (
    scope_document,
    seen_document,
    shared_document,
    with_trends,
)
from redrive.desk.shared_facts import ATTEMPTS, FEWEST, SharedFacts, shared_facts
from redrive.jobs.durations import seconds
from redrive.jobs.job import Group

SAMPLES = 5
_ORDERS: dict[str, lists.Order] = {"count": "jobs", "growth": "growth", "age": "age"}
_ALL = 100_000
_SHARED = fields(
    "share=dead:number completed:number fact=what:word value",
    share=lambda shared: f"{shared['share']:.0%}",
    completed=lambda shared: None if shared["completed"] is None else f"{shared['completed']:.0%}",
)


@command(
    "groups",
    "redrive groups",
    "redrive groups --new --sort growth",
    "redrive groups 'handler:mail.* state:pending,dead' --json",
)
@with_selectors
@option("--new", "Only groups first seen lately (--since) or regressed.")
@option("--since TIME", "How old a new group may be.", default="24h")
@option(
    "--sort",
    "Most jobs, most deaths in the last hour, or first seen first.",
    ["count", "growth", "age"],
    default="count",
)
@option("--limit", kind=click.IntRange(1, 10_000), default=50)
@click.pass_obj
def groups(
    cli: Cli, selectors: tuple[str, ...], limit: int, *, new: bool, since: str, sort: str
) -> None:
    """Show what jobs died of, the most common cause first."""
    selection = chosen(selectors)
    recent = seconds(since, name="--since")
    with cli.reading() as desk:
        most = _ALL if new or sort != "count" else limit
        known, scope = desk.groups.page(selection, limit=most)
        rows = with_trends(desk, known)
        now = desk.store.now()
        rows = lists.of_status(desk, rows, "new" if new else "all", since=recent)
    rows = lists.in_order(rows, _ORDERS[sort])
    data = [seen_document(row) for row in rows[:limit]]
    parts: list[Part] = [Table(views.GROUPS, data) if data else Line("No groups.")]
    page = {"limit": limit, "count": len(data), "scope": scope_document(scope)}
    then = f"redrive group {rows[0].group.name}" if rows else "redrive status"
    cli.show(View(data, parts, page, now), then=then)
    cli.say_scope(scope)


@command(
    "group",
    "redrive group G7",
    "redrive group G7 note 'the provider knows, ticket 4711'",
    "redrive group G7 resolve --reason 'fixed in 1.8.3'",
)
@click.argument("name", metavar="G7")
@click.argument("action", required=False, type=click.Choice(["note", "resolve", "reopen"]))
@click.argument("text", required=False)
@reason_option
@option("--dry-run", "Only show what would be resolved or reopened.")
@yes_option
@click.pass_context
def group(
    ctx: click.Context, /, name: str, action: str | None, text: str | None, **options: Any
) -> None:
    """Show one group: its cause, how it grows, what its jobs share, and notes about it.

    `note` stores a text for colleagues (an empty text removes it). `resolve` closes the group's dead
    jobs and marks it: if the cause comes back, the group is regressed. `reopen` undoes that.
    """
    cli: Cli = ctx.obj
    if (action == "note") != (text is not None):
        problem = "note needs a text" if text is None else "only note takes a text"
        raise click.UsageError(f"{problem}: redrive group {name} note 'TEXT'")
    if action == "note":
        with cli.acting() as desk:
            desk.groups.mark(desk.groups.get(name), note=text)
            cli.show(_view(desk, desk.groups.get(name)), then=f"redrive group {name}")
    elif action is None:
        with cli.reading() as desk:
            known = desk.groups.get(name)
            retry = f"redrive retry {name} --canary 3 --wait"
            cli.show(_view(desk, known), then=retry if known.jobs else f"redrive list {name}")
    else:
        _move(ctx, name, action, options)


def _move(ctx: click.Context, name: str, action: str, options: dict[str, Any]) -> None:
    """Resolve or reopen a group's jobs as the commands do; without jobs only mark the group."""
    from redrive.cli import act  # noqa: PLC0415 - looking does not need it

    cli: Cli = ctx.obj
    with cli.reading() as desk:
        chosen = desk.groups.get(name)
        state = "dead" if action == "resolve" else "resolved"
        some = desk.jobs.find(chosen, state=state, limit=1).jobs
        seen, resolved = desk.store.now(), action == "resolve"
    if some:
        move = act.resolve if resolved else act.reopen
        ctx.invoke(move, selectors=(chosen.name,), **options)
    elif not options["dry_run"]:
        with cli.acting() as desk:
            desk.groups.mark(chosen, resolved=resolved, reason=options["reason"], at=seen)
            cli.say(f"{chosen.name} is marked as {'resolved' if resolved else 'open'}")


def _view(desk: Desk, group: Group) -> View:
    (seen,) = with_trends(desk, [group])
    facts = shared_facts(desk, group)
    shared = shared_document(facts, seen.now, newest=SAMPLES)
    data = {**seen_document(seen), **shared}
    messages = shared["messages"]
    sample = f"of the {len(facts.dead):,} newest of {group.jobs:,} dead jobs"
    parts: list[Part] = [
        Facts(views.GROUP, data),
        Facts(views.GROUP_MORE, data, sparse=True),
        *(
            [Table(views.MESSAGES, messages, f"Messages {sample}", "message")]
            if messages[1:]
            else []
        ),
        Table(_SHARED, shared["shared"], _compared(facts, group), "shared"),
        Table(views.NEWEST, shared["newest"], "Newest", "newest"),
    ]
    return View(data, parts, now=seen.now)


def _compared(facts: SharedFacts, group: Group) -> str:
    """Return which jobs were compared, as a title."""
    dead = f"the {len(facts.dead):,} newest of {group.jobs:,} dead jobs"
    if facts.completed < FEWEST:
        return f"Shared by {dead} (too few completed jobs to compare with)"
    sample = f"{facts.completed:,} completed ones; worker and release: {ATTEMPTS} of each"
    return f"More common among {dead} than among {sample}"
