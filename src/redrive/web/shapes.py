"""The shapes of what the API gives, a line for each; `documents` makes what has them.

A field is text unless its word says otherwise: `edits:whole`, `due:time?` (or null), `tags:text[]`,
`spent:whole{}` (an object with names of any kind), `error:Error?` (another shape).
"""

from __future__ import annotations

from collections.abc import Mapping

from redrive.jobs.job import Category, Reason, State
from redrive.web.schema import (
    ANY,
    BOOLEAN,
    TIME,
    Schema,
    array,
    mapping,
    maybe,
    named,
    one_of,
    record,
)

_KINDS: Mapping[str, Schema] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": BOOLEAN,
    "time": TIME,
    "any": ANY,
    "State": one_of(State),
    "Reason": one_of(Reason),
    "Category": one_of(Category),
    "Verb": one_of(["retry", "resolve", "discard", "reopen"]),
    "Phase": one_of(["freezing", "live", "paused", "done", "stopped", "cancelled"]),
    "Standing": one_of(["open", "resolved", "regressed"]),
    "Health": one_of(["ok", "unavailable"]),
}


def shape(said: str, *, needed: str | None = None) -> Schema:
    """Make a shape of its line; every field is always there unless some are named as needed."""
    words = (word.partition(":") for word in said.split())
    fields = {name: _kind(kind or "text") for name, _, kind in words}
    return record(fields, needed=None if needed is None else needed.split())


def _kind(word: str) -> Schema:
    if word.endswith("?"):
        return maybe(_kind(word[:-1]))
    if word.endswith("[]"):
        return array(_kind(word[:-2]))
    if word.endswith("{}"):
        return mapping(_kind(word[:-2]))
    return _KINDS[word] if word in _KINDS else named(word)


_JOB = (
    "id state:State reason:Reason? detail:text? handler lane attempts:whole max_attempts:whole "
    "redrives:whole crashes:whole category:Category? error:Error? group:text? key:text? tags:text[] "
    "release:text? run:text? edits:whole created:time? due:time? updated:time? finished:time? "
    "first_failed:time?"
)
_GROUP = (
    "group title jobs:whole handlers:text[] category:Category? first_seen:time? last_seen:time? "
    "fingerprint"
)

SCHEMAS: Mapping[str, Schema] = {
    name: shape(said)
    for name, said in {
        "Error": "type message category:Category why code:text? status:whole? hint:number? "
        "request_id:text? title",
        "Job": _JOB,
        "Submitted": f"{_JOB} new:flag",
        "WholeJob": f"{_JOB} payload:any original_payload:any spent:whole{{}} folded:whole "
        "origin:any resolution:Resolution? history:Attempt[]",
        "Attempt": "number:whole life:whole started:time? duration:number worker outcome "
        "provider:text? error:Error? traceback:text?",
        "Resolution": "actor reason at:time? was:Reason?",
        "Group": f"{_GROUP} status:Standing resolved:time? resolved_by:text? reason:text? "
        "note:text? noted:time? noted_by:text? deaths_last_hour:whole deaths_last_day:Trend",
        "Trend": "span_seconds:number numbers:whole[]",
        "Run": "run phase:Phase why:text? name:text? reason:text? by asked created:time? ended:time? "
        "canary:whole? rate:number? ramp:flag stop_on:text? total:whole waiting:whole working:whole "
        "failing:whole succeeded:whole failed:whole same_cause:whole new_cause:whole{} "
        "closed:whole left:whole{} samples:Left[]",
        "Plan": "plan verb:Verb asked matched:whole eligible:whole handlers:whole{} oldest:time? "
        "waits:text[] samples:Job[] ineligible:LeftOut seconds_left:number",
        "Done": "plan verb:Verb planned:whole done:whole skipped:LeftOut run:text?",
        "Left": "id why",
        "LeftOut": "total:whole reasons:whole{} samples:Left[]",
        "Act": "number:whole at:time? actor verb target reason done:whole skipped:whole",
        "Pause": "lane by:text? reason:text? seconds_left:number?",
        "Worker": "host:text pid:whole? version:text since:time? lanes:text[] missing:any{} "
        "silent_seconds:number blocked:Blocked?",
        "Blocked": "job:text? handler:text? since:time?",
        "Scope": "looked:whole of:whole",
        "Counts": " ".join(f"{state}:whole" for state in State),
        "Problem": "type title status:whole code detail",
    }.items()
}
