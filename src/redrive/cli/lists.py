"""Lists: dead letters, failed jobs, any jobs, and the audit log."""

from __future__ import annotations

from typing import Any

import click

from redrive.cli import views
from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._filters import chosen, explained, with_selectors
from redrive.cli.output import Line, Part, Table, View
from redrive.desk.desk import Desk
from redrive.desk.jobs import Page
from redrive.desk.search import Selection

LIMIT = 20
_PAGE = 1000
_limit = option("--limit N", kind=click.IntRange(1, 10_000), default=LIMIT)
_cursor = option("--cursor CURSOR", "Continue where a page ended.")


@command(
    "dlq",
    "redrive dlq",
    "redrive dlq --limit 100 --plain",
    "redrive dlq --json | jq -r '.data[].id'",
)
@_limit
@_cursor
@click.pass_obj
def dlq(cli: Cli, limit: int, cursor: str | None) -> None:
    """Show the dead letters, newest first."""
    texts = ("Dead letter queue", "Dead letter queue is empty!")
    _newest(cli, limit, cursor, texts, state="dead")


@command("failed", "redrive failed", "redrive failed --limit 5", "redrive failed --json")
@_limit
@_cursor
@click.pass_obj
def failed(cli: Cli, limit: int, cursor: str | None) -> None:
    """Show jobs that failed and wait for their next attempt, newest first."""
    _newest(cli, limit, cursor, ("Failed jobs", "No failed jobs!"), state="pending", failed=True)


def _newest(cli: Cli, limit: int, cursor: str | None, texts: tuple[str, str], **kind: Any) -> None:
    """Show a page of jobs by their last change; `texts` are its title, and what an empty one says."""
    with cli.reading() as desk:
        page = desk.jobs.find(by_change=True, limit=limit, cursor=cursor, **kind)
        now = desk.store.now()
    title, empty = texts
    none = Line(empty, "good")
    _show(cli, views.jobs_view(page, limit, now, views.SHORT_JOBS, none, title=title), page)


@command(
    "list",
    "redrive list 'handler:billing.* error:Timeout* age:>2h'",
    "redrive list G7 'payload.customer.id:42 -tag:test'",
    "redrive list state:dead --ids | redrive resolve - --yes",
)
@with_selectors
@option("--limit N", f"[default: {LIMIT}; with --ids all]", click.IntRange(1, 10_000))
@_cursor
@option("--ids", "Only the ids, one a line, of all jobs.", name="only_ids")
@click.pass_obj
def list_(
    cli: Cli,
    selectors: tuple[str, ...],
    limit: int | None,
    cursor: str | None,
    *,
    only_ids: bool,
) -> None:
    """List jobs, newest first; a job must match every word.

    SELECTOR: ids, groups (G7), runs (R12), - for ids on standard input, and words such as
    state:dead handler:mail.* lane: category: error:Timeout* status:503 age:>2h attempts:>=5
    release:1.8.* tag: key: payload.customer.id:42 "free text". A comma separates alternatives, a minus
    before a word excludes what it matches; put such a word after --.
    """
    selection = chosen(selectors)
    with cli.reading() as desk, explained(selection.ids):
        if only_ids and limit is None:
            ids, page = _all_ids(desk, selection, cursor), Page([], None)
        else:
            page = _found(desk, selection, limit or LIMIT, cursor)
            ids = [job.id for job in page.jobs]
        now = desk.store.now()
    if only_ids:
        where = {"limit": limit, "count": len(ids), "cursor": page.cursor}
        view = View(ids, [Line(job_id) for job_id in ids], where)
    else:
        view = views.jobs_view(page, limit or LIMIT, now, views.JOBS, Line("No jobs."))
    _show(cli, view, page)


@command("log", "redrive log", "redrive log --actor ada --since 2d", "redrive log --run R12 --json")
@_limit
@option("--before A17", "Only actions before this one.")
@option("--actor NAME", "Only actions of this person.")
@option("--verb VERB", "Only retry, resolve, discard, edit, pause …")
@option("--since TIME", "Only actions of the last 2h, 7d …")
@option("--target G7", "Only actions on this job, group, run or lane.")
@option("--run R12", "Only the actions of a run, step by step.")
@click.pass_obj
def log(cli: Cli, /, limit: int, before: str | None, **options: Any) -> None:
    """Show the audit log: who did what to which jobs, when and why."""
    with cli.reading() as desk:
        actions = desk.log.actions(limit=limit, before=before, **options)
        now = desk.store.now()
    data = [views.logged(action) for action in actions]
    empty = "No action matches." if any(options.values()) else "No actions yet."
    parts: list[Part] = [Table(views.ACTIONS, data) if data else Line(empty)]
    more = actions[-1].name if len(actions) == limit else None
    then = f"redrive log --before {more}" if more else ""
    cli.show(View(data, parts, {"limit": limit, "before": more}, now), then=then)


def _found(desk: Desk, selection: Selection, limit: int, cursor: str | None) -> Page:
    """Return a page of the selection, or exactly the jobs that were named."""
    page = desk.jobs.find(selection, limit=limit, cursor=cursor)
    if selection.ids and len(page.jobs) > limit:
        msg = f"{len(page.jobs)} jobs are named; add --limit {len(page.jobs)} to see them all"
        raise click.UsageError(msg)
    return page


def _all_ids(desk: Desk, selection: Selection, cursor: str | None) -> list[str]:
    """Return the ids of all selected jobs, without keeping the jobs in memory."""
    if cursor is None:
        return list(desk.jobs.ids(selection))
    ids: list[str] = []
    while cursor is not None:
        page = _found(desk, selection, _PAGE, cursor)
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
    return ids


def _show(cli: Cli, view: View, page: Page) -> None:
    """Show a page of jobs, and print on standard error how to get the next one."""
    cli.show(view, then=f"redrive show {page.jobs[0].id}" if page.jobs else "redrive status")
    cli.say_scope(page.scope)
    if page.cursor and not cli.json:
        cli.say(f"there are more: add --cursor {page.cursor}")
