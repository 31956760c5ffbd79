"""The pages: what each of them shows beside its parts, and the command that shows the same."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta

from redrive.desk import kept_plans
from redrive.desk.documents import scope_document
from redrive.desk.status import Status
from redrive.jobs.job import Job, State
from redrive.web.console.activity import Activity, activity
from redrive.web.console.edit import edit
from redrive.web.console.parts import Data, GroupList
from redrive.web.console.shown import coloured, traces
from redrive.web.console.visit import Visit
from redrive.web.messages import JobSearch, Request

TYPED = 100  # a plan for more jobs is confirmed by typing their number
LONGEST = 50_000  # characters of a payload that are shown
_TABS = ("", "state:dead", "state:pending", "state:running", "state:completed", "state:resolved")


class GroupView(Request, kw_only=True):
    """How a group is shown: `whole` does not wait for a script to fetch the rest."""

    whole: bool = False


class SystemView(Request, kw_only=True):
    """What is shown beside the lanes: the form that pauses one."""

    pause: Annotated[str, Meta(max_length=128)] = ""


class Page(NamedTuple):
    """A page: its address, the function that reads it, and the type of its query."""

    path: str
    does: Callable[[Visit], Data]
    query: type[Request] = Request
    searches: bool = False
    right: str = "read"

    @property
    def template(self) -> str:
        """The file that shows it."""
        return f"{self.does.__name__}.html"


def overview(_: Visit) -> Data:
    """Return the page that tells if anything is wrong, how much, and if it grows."""
    return {"here": "overview", "line": "redrive status"}


def groups(visit: Visit) -> Data:
    """Return the list of groups."""
    query: GroupList = visit.query
    sort = {"jobs": "count"}.get(query.sort, query.sort)
    new = " --new" if query.status == "new" else ""
    return {
        "here": "groups",
        "line": f"redrive groups --sort {sort}{new}",
        "choice": {"status": query.status, "sort": query.sort, "q": query.q},
    }


def group(visit: Visit) -> Data:
    """Return the page of one group: why, since when, and what its jobs share."""
    number = int(visit.path["group"].lstrip("Gg"))
    known = visit.desk.groups.records([number])
    record = known[number] if number in known else visit.desk.groups.get(number).record
    return {
        "here": "groups",
        "line": f"redrive group G{number}",
        "name": f"G{number}",
        "note": record.note,
        "whole": visit.query.whole,
    }


def jobs(visit: Visit) -> Data:
    """Return the jobs that match."""
    query: JobSearch = visit.query
    page = visit.desk.jobs.find(
        *query.words,
        limit=query.limit,
        cursor=None if query.cursor is UNSET else query.cursor,
        by_change=query.order == "changed",
    )
    now: Status | None = visit.shared.last("status")  # counting takes longer than finding
    counts = {f"state:{state.value}": now.total(state) for state in State} if now else {}
    return {
        "here": "jobs",
        "line": f"redrive list {quote(query.q)}" if query.q.strip() else "redrive list",
        "q": query.q,
        "order": query.order,
        "page": page,
        "scope": scope_document(page.scope),
        "tabs": [(tab, counts.get(tab)) for tab in _TABS],
    }


def job(visit: Visit, *, reveal: bool = False) -> Data:
    """Return what happened to one job."""
    found, payload, original = visit.desk.jobs.editable(
        visit.path["job"], reveal=reveal, actor=visit.actor
    )
    attempts = list(reversed(found.history))
    return {
        "here": "jobs",
        "line": f"redrive show {found.id}",
        "job": found,
        "payload": coloured(payload[:LONGEST].rstrip()),
        "original": None if original is None else coloured(original[:LONGEST].rstrip()),
        "cut": max(0, len(payload) - LONGEST),
        "revealed": reveal,
        "attempts": attempts,
        "traces": [traces(a.failure.traceback) if a.failure else [] for a in attempts],
        "verbs": verbs(found),
        "can_edit": found.state not in {State.RUNNING, State.COMPLETED},
        "actions": visit.desk.log.on_job(found),
    }


def verbs(job: Job) -> list[str]:
    """Return what a person can do to a job now."""
    match job.state:
        case State.DEAD | State.PENDING:
            return ["retry", "resolve", "discard"]
        case State.RESOLVED:
            return ["reopen", "retry"]
        case _:
            return []


def plan(visit: Visit) -> Data:
    """Return what a plan would do, and the form that carries it out."""
    found = kept_plans.get(visit.desk, visit.path["plan"])
    form = {"canary": "3", "rate": "20/s", "ramp": "true", "stop_on": "5%"}
    return {
        "here": "runs" if found.verb == "retry" else "jobs",
        "line": f"redrive {found.verb} {quote(found.asked)}",
        "plan": found,
        "samples": kept_plans.samples_of(visit.desk, found),
        "waits": kept_plans.waits_of(visit.desk, found),
        "left": max(0.0, found.expires - visit.desk.store.now()),
        "result": kept_plans.result_of(visit.desk, found),
        "typed": found.eligible > TYPED or found.verb == "discard",
        "form": form if visit.form is None else visit.form,
        "once": _already_done(visit, found.handlers),
    }


def _already_done(visit: Visit, handlers: dict[str, int]) -> dict[str, bool | None]:
    """Return which handlers are asked if a job was already done; None for one that is not known here."""
    registry = visit.app.submitter.registry
    known = {name: registry.get(name) for name in handlers}
    return {name: None if e is None else e.already_done is not None for name, e in known.items()}


def runs(_: Visit) -> Data:
    """Return the list of runs."""
    return {"here": "runs", "line": "redrive run"}


def run(visit: Visit) -> Data:
    """Return the page of one run."""
    found = visit.desk.runs.get(visit.path["run"])
    return {"here": "runs", "line": f"redrive run {found.id} --watch", "run": found}


def system(visit: Visit) -> Data:
    """Return the lanes, workers and store, and the form that pauses a lane."""
    return {"here": "system", "line": "redrive doctor", "lane": visit.query.pause}


PAGES: tuple[Page, ...] = (
    Page("/", overview),
    Page("/groups", groups, GroupList),
    Page("/groups/{group}", group, GroupView),
    Page("/jobs", jobs, JobSearch, searches=True),
    Page("/jobs/{job}", job),
    Page("/jobs/{job}/edit", edit, right="act"),
    Page("/plans/{plan}", plan),
    Page("/runs", runs),
    Page("/runs/{run}", run),
    Page("/activity", activity, Activity),
    Page("/system", system, SystemView),
)
