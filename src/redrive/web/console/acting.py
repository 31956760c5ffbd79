"""What people do on pages: the plan of an action and what became of its jobs, and editing a payload.

Nothing is saved that was not shown as a difference before. Somebody else's edit in between is shown
beside the text, which is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from shlex import quote
from typing import Annotated, Any, Literal, NamedTuple, cast
from urllib.parse import quote_plus

from msgspec import UNSET, Meta

from redrive.desk.edits import difference, is_unchanged
from redrive.desk.jobs import Editable
from redrive.desk.plan import Plan, Verb, left_document
from redrive.desk.shapes import Done
from redrive.errors import RedriveError, Refused, StoreError
from redrive.web import api
from redrive.web.call import Problem, problem_of
from redrive.web.console.pages import Data, job
from redrive.web.console.requests import Visit, back_of, body_of
from redrive.web.console.shown import coloured
from redrive.web.messages import Act, Why
from redrive.web.reads import LARGEST, checked

TYPED = 100  # a plan for more jobs is confirmed by typing their number
_ROOM = 20_000  # bytes of a form beside the payload
_AROUND = 3
_KINDS = {"+": "add", "-": "del", "@": "dim"}
_USUAL = {"canary": "3", "rate": "20/s", "ramp": "true", "stop_on": "5%"}


class EditForm(Why, kw_only=True):
    """A text for a payload, how often the job had been edited, and which text was shown as a difference."""

    payload: str = ""
    edits: Annotated[int, Meta(ge=0)]
    then: Literal["preview", "save", "retry"] = "preview"
    seen: Annotated[str, Meta(max_length=64)] = ""


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


def edit(visit: Visit) -> Data:
    """Return the payload of a job for an editor."""
    shown = visit.desk.jobs.editable(visit.path["job"])
    return _edit_data(shown, shown.payload)


def save(visit: Visit) -> Outcome:
    """Show what a text changes, or save it if that was shown."""
    fields = {n: v for n, v in (visit.form or {}).items() if v and n not in {"csrf", "back"}}
    form = checked(fields, EditForm, "form", strict=False)
    text = form.payload.replace("\r\n", "\n")
    jobs = visit.desk.jobs
    shown = jobs.editable(visit.path["job"])
    if shown.job.edits != form.edits:
        return _conflict(visit, form, text)
    try:
        after = jobs.preview_edit(shown.job.id, text, expected=form.edits, taker=jobs)
        if is_unchanged(text, shown.payload, shown.job.payload):
            raise Problem(400, "unchanged", visit.texts("edit.unchanged"))
        if form.then == "preview" or form.seen != _digest(text):
            lines = difference(shown.job.payload, after, around=_AROUND)[2:]
            more = {"lines": [(_KINDS.get(line[:1], ""), line) for line in lines]}
            return Outcome(
                visit, "edit.html", _edit_data(shown, text, form, seen=_digest(text), **more)
            )
        job_id, reason, actor = visit.path["job"], form.reason, visit.actor
        visit.desk.edit(job_id, text, expected=form.edits, reason=reason, actor=actor)
        if form.then == "retry":
            visit.desk.carry_out("retry", job_id, reason=reason, actor=actor)
        visit.shared.clear()
        notice = "edit" if form.then == "save" else "edit_retry"
        return Outcome(visit, to=f"/jobs/{job_id}", notice=notice)
    except (Problem, RedriveError) as error:
        if isinstance(error, StoreError):
            raise
        if isinstance(error, Refused) and jobs.get(shown.job.id).edits != form.edits:
            return _conflict(visit, form, text)
        problem = as_problem(error)
        data = _edit_data(shown, text, form, refused=problem.detail)
        return Outcome(visit, "edit.html", data, problem.status)


def _conflict(visit: Visit, form: EditForm, text: str) -> Outcome:
    """Show the text of somebody else, who was first, beside the person's own."""
    theirs = visit.desk.jobs.editable(visit.path["job"])
    done = visit.desk.log.actions(limit=1, verb="edit", target=theirs.job.id)
    by = done[0] if done else None
    data = _edit_data(theirs, text, form, theirs=coloured(theirs.payload), by=by)
    return Outcome(visit, "edit.html", data, 409)


def _edit_data(shown: Editable, text: str, form: EditForm | None = None, **more: Any) -> Data:
    job = shown.job
    return {
        "here": "jobs",
        "line": f"redrive edit {job.id}",
        "job": job,
        "text": text,
        "rows": min(max(text.count("\n") + 3, 12), 40),
        "fits": len(quote_plus(shown.payload)) + _ROOM < LARGEST,
        "reason": form.reason if form else "",
        "lines": None,
        "seen": "",
        "theirs": None,
        "by": None,
        "refused": "",
        **more,
    }


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def as_problem(error: Problem | RedriveError) -> Problem:
    """Return an error as a problem with a status."""
    return error if isinstance(error, Problem) else problem_of(error)
