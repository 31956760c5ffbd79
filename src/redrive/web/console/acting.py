"""Retry, resolve, discard and reopen on pages: the plan of an action, and what became of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from shlex import quote
from typing import NamedTuple, cast

from msgspec import UNSET

from redrive.desk.plan import Plan, Verb, left_document
from redrive.desk.shapes import Done
from redrive.errors import RedriveError, StoreError
from redrive.web import api
from redrive.web.call import Problem, problem_of
from redrive.web.console.pages import Data, job
from redrive.web.console.requests import Visit, back_of, body_of
from redrive.web.messages import Act
from redrive.web.reads import checked

TYPED = 100  # a plan for more jobs is confirmed by typing their number
_USUAL = {"canary": "3", "rate": "20/s", "ramp": "true", "stop_on": "5%"}


class Outcome(NamedTuple):
    """What is shown next: a page, or the page at an address with a notice of what was done."""

    visit: Visit
    template: str = ""
    data: Data | None = None
    status: int = 200
    to: str = ""
    notice: str = ""
    job: str = ""


def plan(visit: Visit) -> Outcome:
    """Show what an action would do, and the form that carries it out."""
    body = _body(visit)
    found = visit.desk.plan(body.verb, body.q, as_run=body.verb == "retry")
    return _plan_page(visit, found, body.q)


def act(visit: Visit) -> Outcome:
    """Do it to one job at once, or to the jobs of a plan; show the page again if it is refused."""
    body, form, back = None, visit.form or {}, back_of(visit.form or {})
    try:
        body = _body(visit)
        done = cast("Done", api.act(visit, body))
    except (Problem, RedriveError) as error:
        problem, q, as_of = as_problem(error), form.get("q"), form.get("as_of")
        again = replace(visit, error=problem.detail)
        if not isinstance(error, StoreError) and q and as_of:
            verb = cast("Verb", form.get("verb", ""))
            found = visit.desk.plan(verb, q, as_of=as_of, as_run=verb == "retry")
            return _plan_page(again, found, q, status=problem.status)
        if body is not None and problem.code == "bad_request":
            again = replace(again, path={"job": body.q}).at("/jobs/{job}")
            return Outcome(again, "job.html", job(again), problem.status)
        raise
    visit.shared.clear()
    if body.as_of is UNSET:
        return Outcome(visit, to=back, notice=body.verb, job=body.q)
    if done["run"] and done["done"]:
        return Outcome(visit, to=f"/runs/{done['run']}", notice="run_started")
    line = f"redrive {body.verb} {quote(done['asked'])}"
    data = {"here": "jobs", "line": line, "done": done}
    return Outcome(replace(visit, address=back), "done.html", data)


def _body(visit: Visit) -> Act:
    fields = {name: text for name, text in (visit.form or {}).items() if name != "dry_run"}
    if not fields.get("q"):
        raise Problem(400, "bad_request", visit.texts("pick.nothing"))
    return checked(body_of(fields, Act, {}), Act, "form", strict=False)


def _plan_page(visit: Visit, found: Plan, q: str, status: int = 200) -> Outcome:
    number = len(found.ids)
    data = {
        "here": "runs" if found.verb == "retry" else "jobs",
        "line": f"redrive {found.verb} {quote(found.asked)}",
        "plan": found,
        "n": number,
        "q": q,
        "left_out": left_document(found.left),
        "typed": number > TYPED or found.verb == "discard",
        "form": visit.form if visit.error else _USUAL,
        "once": _already_done(visit, found.handlers),
    }
    return Outcome(replace(visit, address=back_of(visit.form or {})), "plan.html", data, status)


def _already_done(visit: Visit, handlers: Mapping[str, int]) -> dict[str, bool | None]:
    """Return which handlers are asked if a job was already done; None for one that is not known here."""
    registry = visit.app.submitter.registry
    known = {name: registry.get(name) for name in handlers}
    return {name: None if e is None else e.already_done is not None for name, e in known.items()}


def as_problem(error: Problem | RedriveError) -> Problem:
    """Return an error as a problem with a status."""
    return error if isinstance(error, Problem) else problem_of(error)
