"""Hooks that a script could not post, one object a line, as that script kept them.

It added a line with a new id whenever a retry failed, so many lines may tell of one hook: lines with
the same hook and endpoint are one job.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Final

from redrive.desk.transfer.formats import fields, record
from redrive.desk.transfer.formats.declaration import (
    Declaration,
    complete,
    declared,
    has_shape,
    job_of,
)
from redrive.desk.transfer.formats.failings import Failing
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.record import EXTRA, Draft, Line, TransferOptions
from redrive.jobs.job import Job, State
from redrive.jobs.records import evolve
from redrive.payloads import strict_json

_MAPPING: Final = Declaration.of(
    "hooks",
    [
        "key=jobId",
        "payload.hook=data.hook",
        "payload.endpoint=data.endpoint",
        "attempts=attemptsMade",
        "max_attempts=maxAttempts",
        "first_failed=timestamp:ms",
        "created=timestamp:ms",
        "due=nextRetry:ms",
        "error=error.message",
        "error.code=error.code",
        "state=state:pending=pending,retrying=pending,exhausted=dead,resolved=completed",
        "finished=resolvedAt:ms",
    ],
    set=["handler=hook.post", "max_attempts=5"],
    words={State.RUNNING: "retrying"},
)
_DECISIVE_FIRST: Final = (State.COMPLETED, State.DEAD, State.PENDING)
"""What a hook has become if one of its lines says so."""


def _group(value: Fields) -> str:
    """Return what lines about one hook have in common."""
    data = fields.inner(value, "data")
    return _digest(data.get("hook"), data.get("endpoint"))


def _names(job: Job) -> Iterator[str]:
    """Yield that of a stored job, and the ids its lines had."""
    payload = strict_json.loads(job.payload)
    if "hook" in payload:
        yield _digest(payload["hook"], payload.get("endpoint"))
    origin = record.origin_of(job, "hooks")
    yield from origin.get("ids") or [job.key or ""]


def _digest(hook: object, endpoint: object) -> str:
    text = json.dumps([hook, endpoint], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _draft(line: Line, asked: TransferOptions) -> Draft:
    """Read one line; what was sent, and where, must be there."""
    data = fields.inner(line.value, "data")
    fields.text(data, "endpoint")
    if "hook" not in data:
        raise ValueError("data has no hook")
    draft = _MAPPING.draft(line, asked)
    if draft.created is None or not draft.max_attempts:
        raise ValueError(
            "timestamp is missing" if draft.max_attempts else "maxAttempts must be > 0"
        )
    if fields.inner(line.value, EXTRA).get("body") is True:  # of an endpoint of ours
        draft.payload = f'{{"body":{fields.cut(line.text, "data", "hook")}}}'
    return draft


def _folded(lines: Sequence[Line], asked: TransferOptions) -> Job:
    """Make one job of all the lines about a hook; the one that got furthest tells most."""
    pairs = sorted(((_draft(line, asked), line) for line in lines), key=lambda one: one[0].began)
    draft, line = max(pairs, key=lambda one: (one[0].attempts, one[0].began))
    drafts = [one for one, _ in pairs]
    first, last = drafts[0].began, drafts[-1].began
    decisive = min(drafts, key=lambda one: _DECISIVE_FIRST.index(one.state))
    ids = list(
        dict.fromkeys(name for one, it in pairs for name in (one.ident, *record.kept_ids(it.value)))
    )
    draft.state, draft.reason, draft.failed = decisive.state, decisive.reason, draft.attempts
    draft.created = draft.first_failed = first
    draft.updated = last
    failings = _MAPPING.failings(draft, line.value)
    draft.failings = [Failing(last, one.failure) for one in failings]
    draft.due = max((one.due for one in drafts if one.due is not None), default=None)
    ended = [one.finished for one in drafts if one.finished is not None]
    draft.finished = max(ended, default=None) if draft.state is State.COMPLETED else last
    draft.ident, draft.key = ids[0], record.visible(ids[0], "hooks")
    draft.origin = {"ids": ids}
    others = [it for _, it in pairs if it is not line]
    job = job_of(_MAPPING, draft, [*others, line], asked)
    is_keyless = fields.inner(line.value, EXTRA).get("id") == ids[0]
    return evolve(job, key=None) if is_keyless else job


def _write(job: Job, asked: TransferOptions) -> Iterator[Fields]:
    payload = record.members_of(job)
    is_body = payload.keys() == {"body"}
    if is_body:  # an endpoint's job says only what is sent and not where
        if job.handler not in asked.urls:
            raise ValueError(
                f"the URL of endpoint {job.handler} is not known; name its program with --app"
            )
        sent = fields.written({"hook": payload["body"], "endpoint": asked.urls[job.handler]})
        row = _MAPPING.row(evolve(job, payload=sent), asked)
    else:
        row = _MAPPING.row(job, asked)
    ids: list[str] = record.origin_of(job, "hooks").get("ids") or [job.key or job.id]
    row["jobId"] = ids[0]
    row["maxAttempts"] = row["maxAttempts"] or 5
    row["error"] = row["error"] if job.failure else None
    if row["state"] != "resolved":
        del row["resolvedAt"]
    made = job.created if job.first_failed not in {None, job.created} else None
    more: Fields = {"ids": ids[1:] or None, "body": is_body or None, "created": made, "key": None}
    yield complete(_MAPPING, job, row, **more)


FORMAT: Final = declared(
    _MAPPING,
    has_shape("jobId data{} attemptsMade"),
    job=_folded,
    write=record.each(_write),
    group=_group,
    names=_names,
    url="endpoint",
)
