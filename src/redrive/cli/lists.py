"""Looking: the dead letters, what failed, lists, causes, and what people did."""

from __future__ import annotations

from typing import Any

import click

from redrive.cli._command import command
from redrive.cli._face import Face
from redrive.cli._filters import Selection, explained, selection_of, unquoted, with_filters
from redrive.cli.output import Cell, Line, Part, Span, Table, View, When, columns, numbered
from redrive.desk.desk import Desk
from redrive.desk.documents import (
    action_document,
    category_of,
    error_line,
    group_name,
    job_document,
    scope_document,
)
from redrive.desk.jobs import Count, Page
from redrive.jobs.job import HOPELESS, Act, Category, Job

_SHORT = columns(
    "#:number",
    "id:id",
    "time:time",
    "handler",
    "error",
    "category:word",
    "attempts:number",
    "group:id",
)
_LIST = columns(
    "id:id",
    "state:word",
    "handler",
    "changed:time",
    "error",
    "category:word",
    "attempts:number",
    "group:id",
    "lane:text:extra",
    "created:time:extra",
    "due:time:extra",
    "reason:word:extra",
    "tags:text:extra",
    "key:text:extra",
)
LIMIT = 20
_PAGE = 1000
_limit = click.option(
    "--limit", default=LIMIT, show_default=True, type=click.IntRange(1, 10_000), metavar="N"
)
_cursor = click.option("--cursor", metavar="CURSOR", help="Go on where a page ended.")


def attempts_of(job: Job) -> str:
    """Return the attempts made and allowed, as text."""
    return f"{job.attempts}/{job.max_attempts or '?'}"


@command(
    "dlq",
    "redrive dlq",
    "redrive dlq --limit 100 --plain",
    "redrive dlq --json | jq -r '.data[].id'",
)
@_limit
@_cursor
@click.pass_obj
def dlq(face: Face, limit: int, cursor: str | None) -> None:
    """Show the dead letters, newest first."""
    with face.reading() as desk:
        page = desk.jobs.find(state="dead", by_change=True, limit=limit, cursor=cursor)
        view = _short(page, limit, desk.store.now(), "Dead letter queue is empty!")
    _show(face, view, page)


@command(
    "failed",
    "redrive failed",
    "redrive failed --limit 5",
    "redrive failed --json",
)
@_limit
@_cursor
@click.pass_obj
def failed(face: Face, limit: int, cursor: str | None) -> None:
    """Show the jobs that failed and wait for their next try, newest first."""
    with face.reading() as desk:
        page = desk.jobs.find(
            state="pending", failed=True, by_change=True, limit=limit, cursor=cursor
        )
        view = _short(page, limit, desk.store.now(), "No failed jobs!")
    _show(face, view, page)


@command(
    "retry-candidates",
    "redrive retry-candidates",
    "redrive retry-candidates --limit 100 --plain",
    "redrive retry-candidates --json | jq -r '.data[].id'",
)
@_limit
@_cursor
@click.pass_obj
def retry_candidates(face: Face, limit: int, cursor: str | None) -> None:
    """Show the dead letters that another try may help: not for auth, invalid input or for good."""
    hopeful = ",".join(kind for kind in Category if kind not in HOPELESS)
    with face.reading() as desk:
        words = f"state:dead category:{hopeful}"
        page = desk.jobs.find(words, by_change=True, limit=limit, cursor=cursor)
        view = _short(page, limit, desk.store.now(), "No retry candidates!")
    _show(face, view, page)


@command(
    "metrics",
    "redrive metrics",
    "redrive metrics --json",
    "redrive metrics --plain | grep ^redrive_jobs",
)
@click.pass_obj
def metrics(face: Face) -> None:
    """Show the counts of jobs by state, lane and category, one a line."""
    with face.reading() as desk:
        counts, now = desk.jobs.counts(), desk.store.now()
    counts.sort(key=lambda one: (one.state, one.lane, one.category or ""))
    rows: list[list[Cell]] = [
        ["redrive_jobs", one.state, one.lane, one.category, one.jobs, _age(one, now)]
        for one in counts
    ]
    heads = columns("metric", "state:word", "lane", "category:word", "jobs:number", "oldest:number")
    data = [
        {
            "state": one.state,
            "lane": one.lane,
            "category": one.category,
            "jobs": one.jobs,
            "oldest_seconds": _age(one, now).seconds,
        }
        for one in counts
    ]
    face.show(View(data, [Table(heads, rows)]), then="redrive status")


def _age(count: Count, now: float) -> Span:
    """Return for how long the oldest has been due, or finished."""
    return Span(None if count.oldest is None else max(0.0, now - count.oldest))


@command(
    "list",
    "redrive list 'handler:billing.* error:Timeout* age:>2h'",
    "redrive list G7 'payload.customer.id:42 -tag:test'",
    "redrive list --state dead --ids | redrive resolve - --yes",
)
@with_filters
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help=f"[default: {LIMIT}; with --ids all]",
)
@_cursor
@click.option("--ids", "only_ids", is_flag=True, help="Only the ids, one a line, of all jobs.")
@click.pass_obj
def list_(
    face: Face, /, limit: int | None, cursor: str | None, *, only_ids: bool, **said: Any
) -> None:
    """List jobs, newest first; every word and filter given must hold.

    SELECTOR: ids, groups (G7), runs (R12), - for ids on standard input, and words such as
    state:dead handler:mail.* lane: category: error:Timeout* status:503 age:>2h attempts:>=5
    release:<1.8 tag: key: payload.customer.id:42 "free text". A comma separates alternatives, a minus
    before a word turns it round; one that starts with a minus comes after --.
    """
    selection = selection_of(said)
    with face.reading() as desk, explained(selection):
        if only_ids and limit is None:
            ids = _all_ids(desk, selection, cursor)
            page = Page([], None)
        else:
            page = _found(desk, selection, limit or LIMIT, cursor)
            ids = [job.id for job in page.jobs]
        now = desk.store.now()
    if only_ids:
        where = {"limit": limit, "count": len(ids), "cursor": page.cursor}
        view = View(ids, [Line(one) for one in ids], where)
    else:
        view = _listed(page, limit or LIMIT, now)
    _show(face, view, page)
    if not ids and (hint := unquoted(selection)):
        face.say(f"hint: {hint}")


@command(
    "log",
    "redrive log",
    "redrive log --actor ada --since 2d",
    "redrive log --run R12 --json",
)
@_limit
@click.option("--before", type=int, metavar="NUMBER", help="Only acts before this number.")
@click.option("--actor", metavar="NAME", help="Only what this person did.")
@click.option("--verb", metavar="VERB", help="Only retry, resolve, discard, edit, pause …")
@click.option("--since", metavar="TIME", help="Not longer ago: 2h, 7d.")
@click.option("--run", metavar="R12", help="Only what a run did, with its single steps.")
@click.pass_obj
def log(face: Face, /, limit: int, before: int | None, **asked: Any) -> None:
    """Show what people did: who, what, to which jobs, when and why."""
    with face.reading() as desk:
        acts = desk.log.actions(limit=limit, before=before, **asked)
        now = desk.store.now()
    heads = columns(
        "number:number",
        "time:time",
        "actor",
        "verb:word",
        "target",
        "run:id",
        "done:number",
        "skipped:number",
        "reason",
    )
    rows: list[list[Cell]] = [
        [
            a.number,
            When(a.at, now),
            a.actor,
            a.verb,
            a.target,
            _run_of(a),
            a.done,
            a.skipped,
            a.reason,
        ]
        for a in acts
    ]
    parts: list[Part] = (
        [Table(heads, rows)]
        if rows
        else [Line("Nobody did that." if any(asked.values()) else "Nobody did anything yet.")]
    )
    more = acts[-1].number if len(acts) == limit else None
    face.show(
        View([action_document(act) for act in acts], parts, {"limit": limit, "before": more}),
        then=f"redrive log --before {more}" if more else "",
    )


def _run_of(act: Act) -> str | None:
    run = act.detail.get("run")
    return run if isinstance(run, str) else None


def _found(desk: Desk, selection: Selection, limit: int, cursor: str | None) -> Page:
    """Find a page: of the selection with a cursor, or exactly the jobs that were named."""
    page = desk.jobs.find(*selection.words, limit=limit, cursor=cursor, **(selection.filters or {}))
    if selection.ids and len(page.jobs) > limit:
        msg = f"{len(page.jobs)} jobs are meant; give --limit {len(page.jobs)} to see them all"
        raise click.UsageError(msg)
    return page


def _all_ids(desk: Desk, selection: Selection, cursor: str | None) -> list[str]:
    """Return the ids of all that is meant, however many, without keeping the jobs."""
    if cursor is None:
        return list(desk.jobs.ids(*selection.words, **(selection.filters or {})))
    ids: list[str] = []
    while cursor is not None:
        page = _found(desk, selection, _PAGE, cursor)
        ids += [job.id for job in page.jobs]
        cursor = page.cursor
    return ids


def _show(face: Face, view: View, page: Page) -> None:
    """Show a page of jobs, and say on standard error where it goes on."""
    first = page.jobs[0].id if page.jobs else ""
    face.show(view, then=f"redrive show {first}" if first else "redrive status")
    face.say_scope(page.scope)
    if page.cursor and not face.json:
        face.say(f"there are more: add --cursor {page.cursor}")


def _page(page: Page, limit: int) -> dict[str, object]:
    return {
        "limit": limit,
        "count": len(page.jobs),
        "cursor": page.cursor,
        "scope": scope_document(page.scope),
    }


def _short(page: Page, limit: int, now: float, empty: str) -> View:
    rows: list[list[Cell]] = [
        [
            job.id,
            When(job.updated, now),
            job.handler,
            error_line(job.failure),
            category_of(job),
            attempts_of(job),
            group_name(job.group),
        ]
        for job in page.jobs
    ]
    parts: list[Part] = [Table(_SHORT, numbered(rows))] if rows else [Line(empty, "good")]
    return View([job_document(job) for job in page.jobs], parts, _page(page, limit))


def _listed(page: Page, limit: int, now: float) -> View:
    rows: list[list[Cell]] = [
        [
            job.id,
            job.state,
            job.handler,
            When(job.updated, now),
            error_line(job.failure),
            category_of(job),
            attempts_of(job),
            group_name(job.group),
            job.lane,
            When(job.created),
            When(job.due),
            job.reason,
            " ".join(job.tags),
            job.key,
        ]
        for job in page.jobs
    ]
    parts: list[Part] = [Table(_LIST, rows)] if rows else [Line("No jobs.")]
    return View([job_document(job) for job in page.jobs], parts, _page(page, limit))
