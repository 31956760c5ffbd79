"""What each route does: a checked call goes in, a document comes out; all through the app's verbs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from redrive.desk.documents import (
    action_document,
    job_document,
    pause_document,
    run_document,
    scope_document,
    seen_document,
    whole_document,
    with_trends,
)
from redrive.errors import BadPayload, KeyConflict, Refused
from redrive.jobs.job import Action, Group, Job
from redrive.jobs.transitions import Verb
from redrive.payloads import editing, strict_json
from redrive.payloads.masked_jobs import masked, secrets_of
from redrive.payloads.masking import mask_json, mask_text
from redrive.registry import check_key
from redrive.submission import Options, check_tags
from redrive.web.call import Call, Document, Problem, Reply
from redrive.web.health import UNAVAILABLE

PAGE = 50
"""How many of a thing a page has unless the caller says."""


def health(call: Call) -> Document | Reply:
    """Report if the store answers, and to those who may read how things stand."""
    if not call.known:
        return {"status": "ok"} if call.health.answers() else Reply(UNAVAILABLE, 503)
    return call.health.standing() or Reply(UNAVAILABLE, 503)


def alive(_: Call) -> Document:
    """Report that the process answers; nothing else is asked."""
    return {"status": "ok"}


def ready(call: Call) -> Document | Reply:
    """Report if the store takes writes."""
    return {"status": "ok"} if call.health.is_ready() else Reply(UNAVAILABLE, 503)


def metrics(call: Call) -> Reply:
    """Return the metrics as Prometheus reads them."""
    try:
        from redrive import metrics as made  # noqa: PLC0415 - it and its extra, for those who ask

        return Reply(made.text(call.app.desk), 200, "text/plain; version=0.0.4; charset=utf-8")
    except ImportError as error:
        msg = "metrics need an extra: pip install 'redrive[metrics]'"
        raise Problem(404, "no_metrics", msg) from error


def submit(call: Call) -> Document:
    """Keep a call of a handler for a worker; the same key is the same job."""
    entry = call.app.submitter.registry.need(call.body["handler"])
    limit = call.app.submitter.settings.payload_limit
    payload = strict_json.compact(_payload(call, lambda said: said), max_bytes=limit)
    call.app.desk.jobs.check_payload(entry.name, payload)
    options = Options(
        delay=float(call.body.get("delay", 0.0)),
        key=check_key(call.body.get("key")),
        tags=check_tags(call.body.get("tags", ())),
        attempts=call.body.get("attempts"),
    )
    try:
        job = call.app.submitter.submit(entry, payload, options)
    except KeyConflict:
        if (known := _same_as_seen(call, entry.name, payload)) is None:
            raise
        job = known
    if job.is_new:
        act = Action(actor=call.actor, verb="submit", target=job.id, done=1)
        call.app.desk.log.record(act)
    return {**job_document(masked(job)), "new": job.is_new}


def _same_as_seen(call: Call, handler: str, payload: str) -> Job | None:
    """Return the job of the key, if it differs from this payload in masked values only.

    To refuse it, and to take the same payload, would tell whether a secret was guessed right.
    """
    for found in call.app.desk.jobs.find(key=call.body["key"], limit=1).jobs:
        first = found.payload if found.original is None else found.original
        if found.handler == handler and strict_json.same(mask_json(first), mask_json(payload)):
            return replace(found, is_new=False)
    return None


def _payload(call: Call, restore: Callable[[str], str]) -> str:
    """Return the payload that was sent, numbers as they were written, hidden values put back."""
    try:
        return restore(editing.written(editing.parsed(call.text)["payload"]))
    except RecursionError as error:
        msg = "the payload is nested too deeply"
        raise BadPayload(msg) from error


def jobs(call: Call) -> Document:
    """Return a page of jobs, newest first."""
    words = [call.query["q"]] if call.query.get("q", "").strip() else []
    page = call.app.desk.jobs.find(
        *words,
        limit=call.query.get("limit", PAGE),
        cursor=call.query.get("cursor"),
        by_change=call.query.get("order") == "changed",
        reveal=False,
    )
    return {
        "jobs": [job_document(job) for job in page.jobs],
        "cursor": page.cursor,
        "scope": scope_document(page.scope),
    }


def job(call: Call) -> Document:
    """Return one job with its payload and its attempts, newest first."""
    return _whole(call.app.desk.jobs.get(call.path["job"]))


def _whole(job: Job) -> Document:
    """Return everything about a job; what is secret in its payload is a mark, numbers keep their text.

    Sent back with a mark in it, the hidden value stays as it was.
    """
    return whole_document(masked(job), partial(_shown, secrets_of(job)))


def _shown(secrets: Sequence[str], payload: str) -> object:
    try:
        return editing.parsed(editing.hide(payload, secrets).text)
    except (BadPayload, ValueError, RecursionError):
        return mask_text(payload, secrets)  # a file edited by hand


def action(verb: Verb) -> Callable[[Call], Document]:
    """Make the function that does an action to one job."""

    def do(call: Call) -> Document:
        found = call.app.desk.jobs.get(call.path["job"])
        reason = call.body.get("reason", "")
        moved = call.app.desk.jobs.move(
            verb, [found.id], asked=found.id, reason=reason, actor=call.actor
        )
        if moved.skipped:
            one, why = moved.skipped[0]
            msg = f"{one} {why}"
            raise Refused(msg)
        return job_document(masked(moved.done[0]))

    return do


def edit(call: Call) -> Document:
    """Replace a job's payload; marks for masked values in it stand for what they stood for."""
    found = call.app.desk.jobs.get(call.path["job"])
    edited = call.app.desk.edit(
        found.id,
        _payload(call, editing.hide(found.payload, secrets_of(found, first=True)).restore),
        expected=call.body["edits"],
        reason=call.body.get("reason", ""),
        actor=call.actor,
    )
    return _whole(replace(edited, history=found.history))


def groups(call: Call) -> Document:
    """Return the groups of dead jobs, or of those that are selected, the largest first."""
    words = [call.query["q"]] if call.query.get("q", "").strip() else []
    found, scope = call.app.desk.groups.page(
        *words, limit=call.query.get("limit", PAGE), reveal=False
    )
    return {
        "groups": [seen_document(one) for one in with_trends(call.app.desk, found)],
        "scope": scope_document(scope),
    }


def group(call: Call) -> Document:
    """Return one group, its recent deaths, and what people noted about it."""
    return _seen(call, call.app.desk.groups.get(call.path["group"]))


def mark(call: Call) -> Document:
    """Mark a cause as resolved, so that it is back if it kills again; or as open."""
    return _marked(call, resolved=call.body["resolved"])


def note(call: Call) -> Document:
    """Write a note about a cause for those who come after; an empty one removes it."""
    return _marked(call, note=call.body["note"])


def _marked(call: Call, *, resolved: bool | None = None, note: str | None = None) -> Document:
    found = call.app.desk.groups.get(call.path["group"])
    reason = call.body.get("reason", "")
    record = call.app.desk.groups.mark(
        found, resolved=resolved, note=note, reason=reason, actor=call.actor
    )
    return _seen(call, replace(found, record=record))


def _seen(call: Call, group: Group) -> Document:
    return seen_document(with_trends(call.app.desk, [group])[0])


def plan(call: Call) -> Document:
    """Freeze the jobs that an action would take; nothing is changed."""
    verb = cast("Verb", call.body["verb"])
    return call.plans.make(call.app.desk, verb, call.body["q"]).document()


def carry_out(call: Call) -> Document:
    """Do what a plan says, to exactly its jobs; a retry becomes a run."""
    return call.plans.carry_out(call.app.desk, call.path["plan"], call.actor, dict(call.body))


def pauses(call: Call) -> Document:
    """Return the lanes that are paused."""
    return {"pauses": [pause_document(one) for one in call.app.desk.lanes.pauses()]}


def pause(call: Call) -> Document:
    """Pause a lane, until it is resumed or for a while."""
    call.app.desk.lanes.pause(
        call.body["lane"],
        reason=call.body.get("reason", ""),
        duration=call.body.get("seconds"),
        actor=call.actor,
    )
    return pauses(call)


def resume(call: Call) -> Document:
    """Let a paused lane go on."""
    reason = call.body.get("reason", "")
    call.app.desk.lanes.resume(call.path["lane"], reason=reason, actor=call.actor)
    return pauses(call)


def runs(call: Call) -> Document:
    """Return the bulk retries that are remembered, newest first."""
    return {
        "runs": [
            run_document(run)
            for run in call.app.desk.runs.recent()[: call.query.get("limit", PAGE)]
        ]
    }


def run(call: Call) -> Document:
    """Return the progress of a bulk retry."""
    return run_document(call.app.desk.runs.get(call.path["run"]))


def pause_run(call: Call) -> Document:
    """Let nothing more of a run go; what is let go already goes on."""
    reason = call.body.get("reason", "")
    return run_document(call.app.desk.runs.pause(call.path["run"], reason=reason, actor=call.actor))


def resume_run(call: Call) -> Document:
    """Let a paused run go on."""
    reason = call.body.get("reason", "")
    return run_document(
        call.app.desk.runs.resume(call.path["run"], reason=reason, actor=call.actor)
    )


def cancel_run(call: Call) -> Document:
    """End a run: what still waits for it stays as it was."""
    reason = call.body.get("reason", "")
    return run_document(
        call.app.desk.runs.cancel(call.path["run"], reason=reason, actor=call.actor)
    )


def acts(call: Call) -> Document:
    """Return what people did, newest first."""
    found = call.app.desk.log.actions(
        limit=call.query.get("limit", PAGE),
        before=call.query.get("before"),
        run=call.query.get("run"),
    )
    return {"acts": [action_document(act) for act in found]}
