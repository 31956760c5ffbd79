"""Looking after the store: making it, checking it, cleaning it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from redrive.cli._command import command
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli._face import Face, same_line
from redrive.cli._load import load_app, program_name
from redrive.cli.output import Cell, Facts, Line, Part, Table, View, columns
from redrive.desk.desk import Desk
from redrive.errors import StoreForeign, StoreMissing, StoreOutdated
from redrive.jobs.durations import seconds
from redrive.policies.policy import Keep
from redrive.registry import check_name

if TYPE_CHECKING:
    from redrive.stores.report import Report


@command(
    "init",
    "redrive init",
    "redrive init --store jsonl:dlq.jsonl",
    "redrive init --store postgresql://db/jobs --view summarize_job_queue --handler summarize",
)
@click.option("--view", metavar="NAME", help="Also show a handler's jobs as a table (PostgreSQL).")
@click.option("--handler", metavar="NAME", help="Whose jobs the view shows.")
@click.pass_obj
def init(face: Face, view: str | None, handler: str | None) -> None:
    """Make the store, for yourself only (mode 600); one that is there stays as it is.

    With --view the jobs of one handler can be read with SELECT, and a dead letter is retried by
    UPDATE … SET status = 'pending'. Run it again to update a view made by an older Redrive.
    """
    wanted = _wanted_view(face, view, handler)
    try:
        with face.opened() as app:
            shown = _made(face, app.desk, wanted, created=False)
    except StoreMissing:
        with face.opened(create=True) as app:
            shown = _made(face, app.desk, wanted, created=True)
    face.show(shown, then="redrive status")


def _wanted_view(face: Face, view: str | None, handler: str | None) -> tuple[str, str] | None:
    """Return the view that is asked for; what cannot be made is refused before a store is."""
    if view is None and handler is None:
        return None
    if view is None or handler is None:
        raise click.UsageError("--view and --handler go together: a view shows one handler's jobs")
    if not face.config.store.startswith(("postgresql:", "postgres:")):
        msg = "--view needs a store in PostgreSQL"
        raise Stop("no_view", msg, hint="redrive init --store postgresql://…", exits=USAGE)
    return view, check_name(handler)


def _made(face: Face, desk: Desk, wanted: tuple[str, str] | None, *, created: bool) -> View:
    url, durability = desk.store.url, desk.store.durability
    said = "made a store" if created else "there is a store already"
    data: dict[str, object] = {"store": url, "durability": durability, "created": created}
    parts: list[Part] = [
        Line(f"{said} at {url}", "good" if created else ""),
        Facts([("store", url), ("durability", durability), ("named by", face.config.source)]),
    ]
    if wanted:
        make: Callable[[str, str], str] = getattr(desk.store, "make_view")  # noqa: B009 - its own
        name, handler = make(*wanted), wanted[1]
        jobs = desk.jobs.find(handler=handler, limit=1).jobs
        parts.append(
            Line(f"the view {name} shows the jobs of {handler}{'' if jobs else ' (none yet)'}")
        )
        data["view"] = {"name": name, "handler": handler}
    return View(data, parts)


@command("verify", "redrive verify", "redrive verify --json", "redrive verify --repair")
@click.option("--repair", is_flag=True, help="Move damaged lines of a JSON Lines store aside.")
@click.pass_obj
def verify(face: Face, *, repair: bool) -> None:
    """Look at everything that is stored and say what is wrong; exit 1 if something is."""
    with face.acting(read_only=not repair) as desk:
        steps = _repair(desk) if repair else []
        report = desk.store.verify()
    then = "redrive status" if report.ok or repair else "redrive verify --repair"
    face.show(_report_view(report, steps), then=then)
    if not report.ok:
        raise click.exceptions.Exit(FAILED)


def _repair(desk: Desk) -> list[str]:
    mend: Callable[[], list[str]] | None = getattr(desk.store, "repair", None)
    if mend is None:
        msg = f"{desk.store.url} has no repair of its own"
        hint = "restore a backup; `redrive verify` says what is wrong"
        raise Stop("no_repair", msg, hint=hint, exits=USAGE)
    return mend() or ["there was nothing to repair"]


def _report_view(report: Report, steps: list[str]) -> View:
    data = {
        "repaired": steps,
        "ok": report.ok,
        "jobs": report.jobs,
        "facts": dict(report.facts),
        "problems": [
            {"where": p.where, "what": p.what, "remedy": p.remedy} for p in report.problems
        ],
    }
    number = len(report.problems)
    sound = f"{report.jobs:,} jobs looked at, all sound"
    parts: list[Part] = [
        *(Line(step, "warn") for step in steps),
        Line(f"{number} problems found", "bad") if number else Line(sound, "good"),
        Facts([("jobs", report.jobs), *report.facts.items()]),
    ]
    if number:
        rows = [[p.where, p.what, p.remedy] for p in report.problems]
        parts.append(Table(columns("where", "what", "remedy"), rows, "Problems", "problem"))
    return View(data, parts)


@command("migrate", "redrive migrate", "redrive migrate --json", "redrive migrate --store jobs.db")
@click.pass_obj
def migrate(face: Face) -> None:
    """Bring a store that an older Redrive made up to this version; one that is stays as it is."""
    old = False
    try:
        with face.reading():
            pass
    except (StoreForeign, StoreOutdated):
        old = True  # if a newer Redrive wrote it, the next line says so
    url, steps = face.migrate()
    said = f"{url} is now of this version" if old or steps else f"{url} is up to date"
    data = {"store": url, "migrated": old or bool(steps)}
    face.show(View(data, [Line(said, "good")]), then="redrive doctor")


@command(
    "cleanup",
    "redrive cleanup shop.jobs:app",
    "redrive cleanup --completed 24h --resolved 7d",
    "redrive cleanup --dead 90d --dry-run",
)
@click.argument("app_name", metavar="[MODULE:APP]", required=False)
@click.option("--completed", metavar="AGE", help="Remove completed jobs older than this.")
@click.option("--resolved", metavar="AGE", help="Remove resolved jobs older than this.")
@click.option("--dead", metavar="AGE", help="Remove dead letters older than this.")
@click.option("--dry-run", is_flag=True, help="Only count (with ages).")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_obj
def cleanup(
    face: Face, /, app_name: str | None, *, dry_run: bool, yes: bool, **ages: str | None
) -> None:
    """Remove finished jobs that are older than their policies keep them.

    The policies are in your program, so name it; or say the ages outright.
    """
    spans = {state: seconds(age, name=f"--{state}") for state, age in ages.items() if age}
    name = app_name if spans else program_name(face, app_name)
    if name and spans:
        raise click.UsageError("give a program or ages, not both")
    if name and dry_run:
        raise click.UsageError("--dry-run counts by ages: give --completed, --resolved or --dead")
    if not name and not spans:
        msg = "name your program (module:app), whose policies say how long jobs are kept, or ages"
        raise click.UsageError(msg)
    if name:
        with load_app(face, name) as app:
            _show_removed(face, app.cleanup())
        return
    with face.opened(read_only=dry_run, keep=_keep(spans)) as app:
        old = [app.desk.jobs.ids(state=state, older_than=age) for state, age in spans.items()]
        number = sum(1 for jobs in old for _ in jobs)
        if dry_run:
            data = {"dry_run": True, "would_remove": number}
            face.show(
                View(data, [Facts([("would remove", number)])]), then=same_line(without="--dry-run")
            )
            return
        if number and not yes:
            _ask(number)
        _show_removed(face, app.cleanup())


def _keep(spans: dict[str, float]) -> Keep:
    return Keep(spans.get("completed"), spans.get("resolved"), spans.get("dead"))


def _ask(number: int) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        msg = f"{number} jobs would be removed for good and there is no terminal to ask on"
        raise Stop("needs_yes", msg, hint="add --yes, or look first with --dry-run", exits=USAGE)
    if not click.confirm(f"Remove {number} jobs for good?", err=True):
        raise Stop("declined", "nothing was changed", exits=FAILED)


def _show_removed(face: Face, number: int) -> None:
    rows: list[tuple[str, Cell]] = [("removed", number)]
    face.show(View({"removed": number}, [Facts(rows)]), then="redrive status")
