"""The state of the store, on one screen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from time import monotonic, sleep
from typing import Any

import click

from redrive.cli import views
from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import USAGE
from redrive.cli.output import Facts, Line, Panel, Part, Table, View, fields, rows_of
from redrive.desk.desk import Desk
from redrive.desk.documents import run_document, seen_document
from redrive.desk.status import Change, Status, status_of
from redrive.errors import StoreError
from redrive.jobs.clock import iso
from redrive.jobs.job import State

EVERY, SHARE = 2.0, 25.0
"""Seconds between two looks of --watch; one look may take 1/25 of the time."""
_FACTS = fields(
    """failed=Failed:warn dead_letter_queue=Dead_letter_queue:bad
    retry_candidates=Retry_candidates:warn died_last_10_minutes=Died_in_10_min
    died_last_hour=Died_in_1_h deaths_last_day=Deaths_in_24_h:trend
    oldest_due_seconds=Oldest_due:span oldest_dead_seconds=Oldest_dead:span workers=Workers:count
    last_pass=Last_pass:time store=Store durability=Durability"""
)
_STATES = fields("state:word jobs:number")
_CATEGORIES = fields(
    "category:category failed:number dead:number", category=lambda row: row["category"] or "none"
)
_CHANGES = fields("what:word subject:id since:time detail:main")
_RETRYING = fields("handler jobs:number since:time")
_PAUSES = fields("lane:id by seconds_left=left:span reason:prose")


@command("status", "redrive status", "redrive status --watch", "redrive status -q --exit-code")
@option("--watch", "Refresh every two seconds until Ctrl-C.", name="watches")
@option("--exit-code", "Exit with 2 on INCIDENT, for a monitor or cron.", name="has_code")
@click.pass_obj
def status(cli: Cli, *, watches: bool, has_code: bool) -> None:
    """Show if there is an incident and why, what changed in the last hour, and the numbers.

    INCIDENT: 10 jobs or more died of one cause in ten minutes, or jobs have been due for more than
    ten minutes in a lane that is not paused. DEGRADED: anything else that needs a person.
    """
    with cli.reading() as desk:
        now = status_of(desk)
        if watches:
            _watch(cli, desk, _view(now))
            return
    if now.groups:
        then = f"redrive group {now.groups[0].group.name}"
    elif now.failed:
        then = "redrive failed"
    else:
        then = "redrive list state:pending" if now.overdue() else "redrive list"
    cli.show(_view(now), then=then)
    if has_code and now.verdict().level == "INCIDENT":
        raise click.exceptions.Exit(USAGE)


def _watch(cli: Cli, desk: Desk, view: View) -> None:
    """Show the status again and again until Ctrl-C; a store that does not answer ends nothing."""
    took = 0.0
    with suppress(KeyboardInterrupt), cli.screen() as draw:
        while True:
            draw(view)
            sleep(max(EVERY, SHARE * took))
            began = monotonic()
            try:
                view = _view(status_of(desk))
            except StoreError as error:
                view = View({"error": str(error)}, [Line(f"no answer: {error}", "bad")])
            took = monotonic() - began


def _view(now: Status) -> View:
    data = _document(now)
    return View(data, _parts(now, data), now=now.now)


def _parts(at: Status, data: dict[str, Any]) -> list[Part]:
    states, because = data["states"], data["unserved_because"]
    unserved = [{"lane": lane, "why": because.get(lane)} for lane in data["unserved"]]
    lanes = fields("lane:id why:prose" if because else "lane:id")
    verdict, reasons = at.verdict(), at.reasons()
    sentence = f"{verdict.level}: {verdict.why}"
    parts: list[Part] = [Panel(sentence, views.TONES[verdict.level], f"Redrive status: {at.url}")]
    parts += [Line(reason.why, views.TONES[reason.level]) for reason in reasons[1:]]
    parts += [
        Table(_CHANGES, data["changes"], "Changed in the last hour", "changed"),
        Table(_RETRYING, data["retrying"], "Retrying for over an hour", "retrying"),
        Facts(_FACTS, data),
        Table(_STATES, rows_of(("state", states), ("jobs", states.values())), "Jobs", "state"),
        Table(_CATEGORIES, data["categories"], "By category", "category"),
        Table(views.GROUPS, data["groups"], "Top causes of death", "group"),
        Table(views.RUNS, data["runs"], "Runs", "run"),
        Table(views.WORKERS, data["workers"], "Workers", "worker"),
        Table(_PAUSES, data["pauses"], "Paused lanes", "pause"),
        Table(lanes, unserved, "Lanes that no worker serves", "unserved"),
    ]
    if at.durability == "relaxed":
        parts.append(Line("durability is relaxed: a power cut may lose acknowledged work", "warn"))
    return parts


def _document(at: Status) -> dict[str, Any]:
    dead = at.total(State.DEAD)
    verdict = at.verdict()
    return {
        "verdict": verdict.level,
        "why": verdict.why,
        "reasons": [reason.why for reason in at.reasons()],
        "changes": [_change_document(change) for change in at.changes()],
        "retrying": [
            {"handler": handler, "jobs": jobs, "since": iso(since)}
            for handler, (jobs, since) in sorted(at.retrying.items())
        ],
        "healthy": verdict.level == "OK",
        "failed": at.failed,
        "dead_letter_queue": dead,
        "retry_candidates": at.candidates,
        "states": {state.value: at.total(state) for state in State},
        "categories": [
            {"category": name, "failed": failed, "dead": died}
            for name, failed, died in at.categories()
        ],
        "groups": [seen_document(row) for row in at.groups],
        "died_last_10_minutes": at.minutes[-1],
        "died_last_hour": sum(at.minutes),
        "deaths_last_day": {"span_seconds": 3600, "numbers": at.day},
        "runs": [run_document(run) for run in at.runs],
        "overdue": [
            {**asdict(late), "due": iso(late.due), "seconds": at.now - late.due}
            for late in at.overdue()
        ],
        "oldest_due": iso(at.oldest(State.PENDING)),
        "oldest_dead": iso(at.oldest(State.DEAD)),
        **at.document(),
    }


def _change_document(change: Change) -> dict[str, Any]:
    since = iso(change.since)
    return {"what": change.kind, "subject": change.subject, "since": since, "detail": change.detail}
