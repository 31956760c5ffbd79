"""The store itself: creating, checking and cleaning it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli.output import Facts, Field, Line, Part, Table, View, fields, plural
from redrive.desk.desk import Desk
from redrive.errors import StoreMissing
from redrive.registry import check_name

if TYPE_CHECKING:
    from redrive.stores.report import Report


@command(
    "init",
    "redrive init",
    "redrive init --store jsonl:dlq.jsonl",
    "redrive init --view public.job_queue --handler summarize --column article_id=payload.article_id",
)
@option(
    "--view [SCHEMA.]NAME",
    "Also create an SQL view of a handler's jobs (PostgreSQL); without a schema in the store's.",
)
@option("--handler NAME", "Whose jobs the view shows.")
@option(
    "--column NAME=payload.FIELD",
    "A column of the view with a value of the payload as text; `payload` is all of it. Repeatable.",
    name="columns",
    multiple=True,
)
@click.pass_obj
def init(cli: Cli, view: str | None, handler: str | None, columns: tuple[str, ...]) -> None:
    """Create the store, readable by you alone (mode 600); an existing store stays as it is.

    With --view the jobs of one handler can be read with SELECT, and a dead letter is retried by
    UPDATE … SET status = 'pending'. Put the view into `public`, or another schema of your search_path,
    to use its name alone. Without --column a view that
    exists keeps its columns. Payload columns are not masked.
    """
    wanted = _wanted_view(cli, view, handler, columns)
    try:
        with cli.opened() as app:
            shown = _made(cli, app.desk, wanted, created=False)
    except StoreMissing:
        with cli.opened(create=True) as app:
            shown = _made(cli, app.desk, wanted, created=True)
    cli.show(shown, then="redrive status")


_Wanted = tuple[str, str, list[str] | None]
"""A view, its handler, and its columns; None keeps those that it has."""


def _wanted_view(
    cli: Cli, view: str | None, handler: str | None, columns: tuple[str, ...]
) -> _Wanted | None:
    """Return the view that is asked for; refuse an impossible one before a store is created."""
    if view is None and handler is None and not columns:
        return None
    if view is None or handler is None:
        raise click.UsageError("--view and --handler go together: a view shows one handler's jobs")
    if not cli.config.store.startswith(("postgresql:", "postgres:")):
        msg = "--view needs a store in PostgreSQL"
        raise Stop("no_view", msg, hint="redrive init --store postgresql://…", exits=USAGE)
    return view, check_name(handler), list(columns) or None


def _made(cli: Cli, desk: Desk, wanted: _Wanted | None, *, created: bool) -> View:
    url, source = desk.store.url, cli.config.source
    text = f"created a store at {url}" if created else f"a store exists already at {url}"
    data: dict[str, object] = {
        "store": url,
        "durability": desk.store.durability,
        "created": created,
        "source": source,
    }
    parts: list[Part] = [
        Line(text, "good" if created else ""),
        Facts(fields("store durability source=set_by"), data),
    ]
    if wanted:
        make: Callable[..., str] = getattr(desk.store, "make_view")  # noqa: B009 - its own
        name, handler = make(*wanted), wanted[1]
        jobs = desk.jobs.find(handler=handler, limit=1).jobs
        none = "" if jobs else " (none yet)"
        parts.append(Line(f"the view {name} shows the jobs of {handler}{none}"))
        data["view"] = {"name": name, "handler": handler}
    return View(data, parts)


@command("verify", "redrive verify", "redrive verify --json", "redrive verify --repair")
@option("--repair", "Move damaged lines of a JSON Lines store to another file.")
@click.pass_obj
def verify(cli: Cli, *, repair: bool) -> None:
    """Read everything that is stored and list what is damaged; exit 1 if something is."""
    with cli.acting(read_only=not repair) as desk:
        steps = _repair(desk) if repair else []
        report = desk.store.verify()
        can_repair = not (report.ok or repair) and hasattr(desk.store, "repair")
    then = "redrive verify --repair" if can_repair else "redrive status"
    cli.show(_report_view(report, steps), then=then)
    if not report.ok:
        raise click.exceptions.Exit(FAILED)


def _repair(desk: Desk) -> list[str]:
    mend: Callable[[], list[str]] | None = getattr(desk.store, "repair", None)
    if mend is None:
        msg = f"{desk.store.url} cannot be repaired: only JSON Lines stores can"
        hint = "restore a backup; `redrive verify` lists what is damaged"
        raise Stop("no_repair", msg, hint=hint, exits=USAGE)
    return mend() or ["there was nothing to repair"]


def _report_view(report: Report, steps: list[str]) -> View:
    problems = [{"where": p.where, "what": p.what, "remedy": p.remedy} for p in report.problems]
    data = {
        "repaired": steps,
        "ok": report.ok,
        "jobs": report.jobs,
        "facts": dict(report.facts),
        "problems": problems,
    }
    number = len(report.problems)
    sound = f"{plural(report.jobs, 'job')} checked, no damage"
    parts: list[Part] = [
        *(Line(step, "warn") for step in steps),
        Line(f"{plural(number, 'problem')} found", "bad") if number else Line(sound, "good"),
        Facts(
            [Field("jobs", "jobs"), *(Field(f"facts.{name}", name) for name in report.facts)], data
        ),
        Table(fields("where:id what:prose remedy:prose"), problems, "Problems", "problem"),
    ]
    return View(data, parts)
