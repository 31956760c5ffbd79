"""What each route does, through the desk, and the table of routes: method and path, right, function.

A function's `query` or `body` is checked by its type, and its result is described by its type. The router,
the checks of requests, the OpenAPI document and the tests of who may do what all read the table, so a new
line in it is checked, described and tested without more code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import UnionType
from typing import Any, Literal, cast, get_args, get_type_hints

from msgspec import UNSET, to_builtins

from redrive.alerts import Alerts, listing
from redrive.desk import lists, search, shapes
from redrive.desk.documents import (
    action_document,
    job_document,
    pause_document,
    run_document,
    scope_document,
    seen_document,
    shared_document,
    whole_document,
    with_trends,
)
from redrive.desk.selectors import Filters
from redrive.desk.shared_facts import shared_facts
from redrive.desk.status import health_of
from redrive.desk.system import System, system_of
from redrive.errors import BadPayload, KeyConflict
from redrive.jobs.job import Action, Group
from redrive.payloads import editing, strict_json
from redrive.payloads.masking import mask_text
from redrive.registry import Entry, check_key, check_tags
from redrive.runs import rules
from redrive.runs.run_records import Run, Spec
from redrive.submission import Options
from redrive.web import messages
from redrive.web.call import Call, Document, Problem, Reply
from redrive.web.health import UNAVAILABLE
from redrive.web.messages import PATH, Request

_ALL, _NEWEST, _COUNTED, _SHOWN = 100_000, 5, 10_000, 300


def health(call: Call) -> messages.Standing | messages.Status | Reply:
    """Report if the store answers; with a token also counts, ages, workers and pauses."""
    if not call.known:
        return {"status": "ok"} if call.health.answers() else Reply(UNAVAILABLE, 503)
    return call.health.standing() or Reply(UNAVAILABLE, 503)


def alive(_: Call) -> messages.Status:
    """Report that the process answers; nothing else is asked."""
    return {"status": "ok"}


def ready(call: Call) -> messages.Status | Reply:
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


def submit(call: Call, body: messages.Submit) -> messages.Submitted:
    """Store a call of a handler for a worker; the same key is the same job."""
    entry = call.app.submitter.registry.need(body.handler)
    limit = call.app.submitter.settings.payload_limit
    payload = strict_json.compact(_payload(call), max_bytes=limit)
    call.app.desk.jobs.check_payload(entry.name, payload)
    key = check_key(None if body.key is UNSET else body.key)
    options = Options(
        delay=body.delay,
        key=key,
        tags=check_tags(body.tags),
        attempts=None if body.attempts is UNSET else body.attempts,
    )
    try:
        job = call.app.submitter.submit(entry, payload, options)
    except KeyConflict:
        desk = call.app.desk
        known = None if key is None else desk.jobs.same_as_masked(entry.name, key, payload)
        if known is None:
            raise
        job = known
    if job.is_new:
        act = Action(actor=call.actor, verb="submit", target=job.id, done=1)
        call.app.desk.log.record(act)
    return {**job_document(call.app.desk.jobs.get(job.id)), "new": job.is_new}


def _payload(call: Call) -> str:
    """Return the payload that was sent, numbers as they were written."""
    try:
        return editing.written(editing.parsed(call.text)["payload"])
    except RecursionError as error:
        raise BadPayload("the payload is nested too deeply") from error


def jobs(call: Call, query: messages.JobSearch) -> messages.Jobs:
    """Return a page of jobs, newest first."""
    page = call.app.desk.jobs.find(
        *query.words,
        limit=query.limit,
        cursor=None if query.cursor is UNSET else query.cursor,
        by_change=query.order == "changed",
    )
    return {
        "jobs": [job_document(job) for job in page.jobs],
        "cursor": page.cursor,
        "scope": scope_document(page.scope),
    }


def job(call: Call, query: messages.JobView) -> shapes.WholeJob:
    """Return one job with its payload, its attempts and the actions on it, newest first."""
    if query.reveal and not call.may_reveal:
        msg = "reveal=true needs a token with the right 'reveal'; leave it out, or use such a token"
        raise Problem(403, "not_allowed", msg)
    return _whole(call, reveal=query.reveal)


def _whole(call: Call, *, reveal: bool = False) -> shapes.WholeJob:
    """Return everything about a job; secrets in its payload are marks, numbers keep their text."""
    job, payload, original = call.app.desk.jobs.editable(
        call.path["job"], reveal=reveal, actor=call.actor
    )
    return {
        **whole_document(job, call.app.desk.log.on_job(job)),
        "payload": editing.value_of(payload),
        "original_payload": original and editing.value_of(original),
    }


def edit(call: Call, body: messages.Edit) -> shapes.WholeJob:
    """Replace a job's payload; marks in it keep the values that they hide."""
    call.app.desk.edit(
        call.path["job"], _payload(call), expected=body.edits, reason=body.reason, actor=call.actor
    )
    return _whole(call)


def groups(call: Call, query: messages.GroupSearch) -> messages.Groups:
    """Return the groups of dead jobs, or of those that are selected, the largest first."""
    desk = call.app.desk
    plain = query.status == "all" and query.sort == "jobs"
    groups, scope = desk.groups.page(*query.words, limit=query.limit if plain else _ALL)
    rows = lists.of_status(desk, with_trends(desk, groups), query.status)
    rows = lists.in_order(rows, query.sort)[: query.limit]
    return {"groups": [seen_document(seen) for seen in rows], "scope": scope_document(scope)}


def group(call: Call) -> shapes.WholeGroup:
    """Return one group, its recent deaths, what its newest dead jobs share, and what people noted."""
    desk = call.app.desk
    (seen,) = with_trends(desk, [desk.groups.get(call.path["group"])])
    facts = shared_facts(desk, seen.group)
    return {**seen_document(seen), **shared_document(facts, seen.now, newest=_NEWEST)}


def mark(call: Call, body: messages.Mark) -> shapes.Group:
    """Mark a group as resolved or open; a resolved group whose cause comes back is regressed."""
    return _marked(call, resolved=body.resolved, reason=body.reason)


def note(call: Call, body: messages.Note) -> shapes.Group:
    """Write a note about a group for the next person; an empty one removes it."""
    return _marked(call, note=body.note, reason=body.reason)


def _marked(call: Call, **changes: Any) -> shapes.Group:
    group = call.app.desk.groups.get(call.path["group"])
    record = call.app.desk.groups.mark(group, actor=call.actor, **changes)
    return _seen(call, replace(group, record=record))


def _seen(call: Call, group: Group) -> shapes.Group:
    return seen_document(with_trends(call.app.desk, [group])[0])


def act(call: Call, body: messages.Act) -> shapes.Plan | shapes.Done:
    """Return what an action would do (`dry_run`), or do it: to one job, or to the jobs of such a plan.

    A retry of several jobs becomes a run.
    """
    desk = call.app.desk
    spec = rules.spec_of(
        canary=body.canary, rate=body.rate or None, ramp=body.ramp, stop_on=body.stop_on
    )
    run = None if spec == Spec() else spec
    if body.dry_run:
        return desk.plan(body.verb, body.q, as_run=bool(body.name) or run is not None).document()
    return desk.carry_out(
        body.verb,
        body.q,
        as_of=None if body.as_of is UNSET else body.as_of,
        confirm=None if body.confirm is UNSET else body.confirm,
        reason=body.reason,
        actor=call.actor,
        name=body.name,
        spec=run,
    )


def lanes(call: Call) -> messages.Lanes:
    """Return the lanes with their jobs, who serves them, and their pauses."""
    return {"lanes": lists.lanes_of(call.app.desk, health_of(call.app.desk))}


def system(call: Call) -> System:
    """Return the store's kind, size and schema, and how long finished jobs stay in it."""
    return system_of(call.app.submitter, health_of(call.app.desk))


def handlers(call: Call) -> messages.Handlers:
    """Return the handlers of the program that is served; none if it serves a store alone."""
    entries = sorted(call.app.submitter.registry, key=lambda entry: entry.name)
    return {"handlers": [_handler(entry) for entry in entries]}


def _handler(entry: Entry) -> shapes.Handler:
    return {
        "handler": entry.name,
        "lane": entry.lane,
        "arguments": list(inspect.signature(entry.function).parameters),
        "attempts": entry.policy.attempts,
        "already_done": entry.already_done is not None,
        "timeout": entry.timeout,
    }


def alerts(call: Call) -> messages.AlertList:
    """Return the channels of alerts and the latest messages."""
    return {
        "channels": listing.channels(_alerts(call)),
        "messages": [
            {"channel": sent.channel, "title": sent.title, "job": job_document(sent.job)}
            for sent in listing.latest(call.app.desk)
        ],
    }


def _alerts(call: Call) -> Alerts | None:
    return call.app.alerts if isinstance(call.app.alerts, Alerts) else None


def send_test(call: Call, body: messages.Why) -> messages.AlertTest:
    """Send a test message by a channel, and return what it answered."""
    name, known = call.path["channel"], _alerts(call)
    channel = known.channels.get(name) if known else None
    if channel is None:
        names = ", ".join(known.channels if known else ()) or "none"
        raise Problem(404, "not_found", f"no channel {name!r} is set up here; known: {names}")
    log = call.app.desk.log
    is_sent, answer = listing.send_test(channel, call.app.desk.store.now())
    action = log.action("test", name, body.reason, call.actor)
    log.record(replace(action, detail={"answer": mask_text(answer)[:_SHOWN]}))
    if not is_sent:
        raise Problem(
            502, "undelivered", f"the channel {name} did not accept the message: {answer[:_SHOWN]}"
        )
    return {"channel": name, "answer": answer}


def count(call: Call, query: messages.Count) -> messages.Counted:
    """Count the jobs that match, up to 10,000; there may be more where not all were searched."""
    store, selection = call.app.desk.store, search.read(query.words, Filters())
    page = search.find(store, selection, limit=_COUNTED, cursor=None, by_change=False)
    return {"count": len(page.jobs), "more": page.cursor is not None}


def _pauses(call: Call) -> messages.Pauses:
    return {"pauses": [pause_document(pause) for pause in call.app.desk.lanes.pauses()]}


def pause(call: Call, body: messages.PauseLane) -> messages.Pauses:
    """Pause a lane, until it is resumed or for a while."""
    seconds = None if body.seconds is UNSET else body.seconds
    call.app.desk.lanes.pause(body.lane, reason=body.reason, duration=seconds, actor=call.actor)
    return _pauses(call)


def resume(call: Call, body: messages.Why) -> messages.Pauses:
    """Resume a paused lane."""
    call.app.desk.lanes.resume(call.path["lane"], reason=body.reason, actor=call.actor)
    return _pauses(call)


def runs(call: Call, query: messages.RunSearch) -> messages.Runs:
    """Return the bulk retries that are remembered, newest first."""
    return {"runs": [run_document(run) for run in call.app.desk.runs.recent()[: query.limit]]}


def run(call: Call) -> shapes.WholeRun:
    """Return the progress of a bulk retry, its pace, and what it waits for."""
    desk = call.app.desk
    return lists.progress_of(desk, desk.runs.get(call.path["run"]))


def pause_run(call: Call, body: messages.Why) -> shapes.Run:
    """Release no more jobs of a run; those that are released go on."""
    return _steer(call, call.app.desk.runs.pause, body)


def resume_run(call: Call, body: messages.Why) -> shapes.Run:
    """Resume a paused run."""
    return _steer(call, call.app.desk.runs.resume, body)


def cancel_run(call: Call, body: messages.Why) -> shapes.Run:
    """End a run: jobs that still wait for it stay as they were."""
    return _steer(call, call.app.desk.runs.cancel, body)


def set_run_rate(call: Call, body: messages.SetRate) -> shapes.Run:
    """Change how many jobs a run releases."""
    change = call.app.desk.runs.set_rate
    return run_document(change(call.path["run"], body.rate, reason=body.reason, actor=call.actor))


def _steer(call: Call, change: Callable[..., Run], body: messages.Why) -> shapes.Run:
    return run_document(change(call.path["run"], reason=body.reason, actor=call.actor))


def audit_log(call: Call, query: messages.ActionSearch) -> messages.Actions:
    """Return what people did, newest first."""
    asked: dict[str, Any] = {"limit": query.limit, **to_builtins(query)}
    return {"actions": [action_document(done) for done in call.app.desk.log.actions(**asked)]}


Right = Literal["", "read", "act"]


@dataclass(frozen=True, kw_only=True)
class Route:
    """One route; the annotations of its function are the types of the request and the answer."""

    method: Literal["GET", "POST"] = "GET"
    path: str
    does: Callable[..., Document | Reply]
    right: Right = "read"
    """The right that the caller's token must have; empty: no token is needed."""
    may_fail: bool = False
    """True if 503 has the same shape as 200."""
    at_once: bool = False
    """True if it needs no thread, because it reads nothing from the store."""

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.does, include_extras=True)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The names in the path, and the type of each."""
        return {name: PATH[name] for name in re.findall(r"{(\w+)}", self.path)}

    @property
    def query(self) -> type[Request]:
        """What the query may say."""
        return cast("type[Request]", self._hints.get("query", Request))

    @property
    def body(self) -> type[Request] | None:
        """What the body must say; None if there is none."""
        return self._hints.get("body")

    @cached_property
    def answers(self) -> tuple[Any, ...]:
        """What comes back, one of these; none: plain text."""
        hint = self._hints["return"]
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        return tuple(kind for kind in kinds if kind is not Reply)

    @property
    def name(self) -> str:
        """One word for it, such as `post_runs_run_pause`."""
        plain = self.path.removeprefix("/api/v1/").strip("/")
        words = "".join(letter if letter.isalnum() else "_" for letter in plain)
        return "_".join(part for part in f"{self.method.lower()}_{words}".split("_") if part)

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (self.does.__doc__ or "").partition("\n")[0]


def _openapi(call: Call) -> dict[str, Any]:
    """Return this description of the API."""
    from redrive.web.openapi import document  # noqa: PLC0415 - it reads this table

    return document(call.root)


def _get(path: str, does: Callable[..., Document | Reply], **more: Any) -> Route:
    return Route(path=f"/api/v1/{path}", does=does, **more)


def _post(path: str, does: Callable[..., Document | Reply], **more: Any) -> Route:
    return Route(method="POST", path=f"/api/v1/{path}", does=does, right="act", **more)


ROUTES: tuple[Route, ...] = (
    Route(path="/healthz", does=alive, right="", at_once=True),
    Route(path="/readyz", does=ready, right="", may_fail=True),
    Route(path="/metrics", does=metrics),
    _get("health", health, right="", may_fail=True),
    _get("openapi.json", _openapi, at_once=True),
    _post("jobs", submit),
    _get("jobs", jobs),
    _get("count", count),
    _get("jobs/{job}", job),
    _post("jobs/{job}/edit", edit),
    _get("groups", groups),
    _get("groups/{group}", group),
    _post("groups/{group}/mark", mark),
    _post("groups/{group}/note", note),
    _get("handlers", handlers, at_once=True),
    _get("lanes", lanes),
    _get("system", system),
    _get("alerts", alerts),
    _post("alerts/{channel}/test", send_test),
    _post("pauses", pause),
    _post("pauses/{lane}/resume", resume),
    _get("runs", runs),
    _get("runs/{run}", run),
    _post("runs/{run}/pause", pause_run),
    _post("runs/{run}/resume", resume_run),
    _post("runs/{run}/cancel", cancel_run),
    _post("runs/{run}/rate", set_run_rate),
    _get("actions", audit_log),
    _post("actions", act),
)
