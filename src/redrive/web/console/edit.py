"""Editing a payload on a page: the text with marks for secrets, what it changes, and saving it.

Nothing is saved that was not shown as a difference before. Somebody else's edit in between is shown
beside the text, which is kept.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote_plus

from msgspec import Meta

from redrive.desk.edits import difference, is_unchanged
from redrive.desk.jobs import Editable
from redrive.errors import RedriveError, Refused, StoreError
from redrive.web import messages
from redrive.web.call import Problem, problem_of
from redrive.web.console.requests import Visit
from redrive.web.console.shown import coloured
from redrive.web.reads import LARGEST, checked

_ROOM = 20_000  # bytes of a form beside the payload
_AROUND = 3
_KINDS = {"+": "add", "-": "del", "@": "dim"}


class EditForm(messages.Why, kw_only=True):
    """A text for a payload, how often the job had been edited, and which text was shown as a difference."""

    payload: str = ""
    edits: Annotated[int, Meta(ge=0)]
    then: Literal["preview", "save", "retry"] = "preview"
    seen: Annotated[str, Meta(max_length=64)] = ""


class Outcome(NamedTuple):
    """What is shown next: the notice of a saved text, or the page again."""

    notice: str
    data: dict[str, Any]
    status: int = 200


def edit(visit: Visit) -> dict[str, Any]:
    """Return the payload of a job for an editor."""
    shown = visit.desk.jobs.editable(visit.path["job"])
    return _data(shown, shown.payload)


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
            return Outcome("", _data(shown, text, form, seen=_digest(text), **more))
        return _saved(visit, form, text)
    except Refused as error:
        if jobs.get(shown.job.id).edits != form.edits:
            return _conflict(visit, form, text)
        return _refused(shown, text, form, error)
    except StoreError:
        raise
    except (Problem, RedriveError) as error:
        return _refused(shown, text, form, error)


def _saved(visit: Visit, form: EditForm, text: str) -> Outcome:
    visit.desk.edit(
        visit.path["job"], text, expected=form.edits, reason=form.reason, actor=visit.actor
    )
    if form.then == "save":
        return Outcome("edit", {})
    visit.desk.carry_out("retry", visit.path["job"], reason=form.reason, actor=visit.actor)
    return Outcome("edit_retry", {})


def _conflict(visit: Visit, form: EditForm, text: str) -> Outcome:
    """Show the text of somebody else, who was first, beside the person's own."""
    theirs = visit.desk.jobs.editable(visit.path["job"])
    done = visit.desk.log.actions(limit=1, verb="edit", target=theirs.job.id)
    data = _data(theirs, text, form, theirs=coloured(theirs.payload), by=done[0] if done else None)
    return Outcome("", data, 409)


def _refused(shown: Editable, text: str, form: EditForm, error: Problem | RedriveError) -> Outcome:
    problem = error if isinstance(error, Problem) else problem_of(error)
    return Outcome("", _data(shown, text, form, refused=problem.detail), problem.status)


def _data(shown: Editable, text: str, form: EditForm | None = None, **more: Any) -> dict[str, Any]:
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
