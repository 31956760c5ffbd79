"""The table of routes: what is asked, who may ask, what comes back, and who does it.

The router, the checks of requests, the OpenAPI document, docs/api.md and the tests of who may do what
all read this table, so a new line here is checked, described and tested by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from redrive.web import actions, health
from redrive.web.call import Call, Document, Reply
from redrive.web.plans import VERBS
from redrive.web.schema import (
    BOOLEAN,
    Schema,
    array,
    integer,
    named,
    number,
    one_of,
    record,
    text,
)
from redrive.web.shapes import shape

Right = Literal["", "read", "act"]
MOST = 200
"""How many of a thing a page may have."""
YEAR = 366 * 86_400.0

_STATUS = shape("status:Health")
_REASON = text(about="why; kept with the act")
_LIMIT = integer(1, MOST, about=f"how many, {actions.PAGE} unless it is said")
_Q = text(2000, about="which: the words of the selector grammar, such as state:dead handler:mail.*")
_JOB = text(64, least=4, pattern="^[0-9A-Za-z_-]+$", about="the id, or its unique beginning")
_GROUP = text(10, least=1, pattern="^[Gg]?[0-9]{1,9}$", about="such as G7")
_RUN = text(10, least=1, pattern="^[Rr]?[0-9]{1,9}$", about="such as R12")
_LANE = text(128, least=1, pattern="^[A-Za-z0-9_-][A-Za-z0-9._:-]*$")
_NAME = text(64, least=1, pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One thing that can be asked."""

    method: Literal["GET", "POST"] = "GET"
    path: str
    does: Callable[[Call], Document | Reply]
    right: Right = "read"
    """What the caller's token must be good for; empty: no token is needed."""
    params: Mapping[str, Schema] = field(default_factory=dict[str, Schema])
    """The names in the path."""
    query: Mapping[str, Schema] = field(default_factory=dict[str, Schema])
    body: Schema | None = None
    gives: Schema | None = None
    """The shape of the answer; None is plain text."""
    about: str = ""
    """What it does, where the function does not say it."""
    may_fail: bool = False
    """True if 503 has the same shape as 200."""
    at_once: bool = False
    """True if it needs no thread, because it asks the store nothing."""
    searches: bool = False
    """True if it looks through jobs one by one, which takes long where many do it at once."""
    changes: bool = True
    """True if a POST changes what is stored, and so is recorded as an action."""

    @property
    def name(self) -> str:
        """One word for it, such as `post_jobs_job_retry`."""
        plain = self.path.removeprefix("/api/v1/").strip("/")
        words = "".join(letter if letter.isalnum() else "_" for letter in plain)
        return "_".join(part for part in f"{self.method.lower()}_{words}".split("_") if part)

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return self.about or (self.does.__doc__ or "").partition("\n")[0]


def _action(verb: Literal["retry", "resolve", "discard", "reopen"], about: str) -> Route:
    needed = ["reason"] if verb == "discard" else []
    visible = {"minLength": 1, "pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$"}
    reason = {**_REASON, **visible} if verb == "discard" else _REASON
    return Route(
        method="POST",
        path=f"/api/v1/jobs/{{job}}/{verb}",
        does=actions.action(verb),
        right="act",
        params={"job": _JOB},
        body=record({"reason": reason}, needed=needed),
        gives=named("Job"),
        about=about,
    )


def _of_group(verb: str, does: Callable[[Call], Document], said: Mapping[str, Schema]) -> Route:
    return Route(
        method="POST",
        path=f"/api/v1/groups/{{group}}/{verb}",
        does=does,
        right="act",
        params={"group": _GROUP},
        body=record({**said, "reason": _REASON}, needed=list(said)),
        gives=named("Group"),
    )


def _of_run(verb: str, does: Callable[[Call], Document]) -> Route:
    return Route(
        method="POST",
        path=f"/api/v1/runs/{{run}}/{verb}",
        does=does,
        right="act",
        params={"run": _RUN},
        body=record({"reason": _REASON}, needed=[]),
        gives=named("Run"),
    )


_SUBMIT = record(
    {
        "handler": {**_NAME, "description": "its name, as the program registered it"},
        "payload": {"type": "object", "description": "the handler's arguments by name"},
        "key": text(255, least=1, pattern=r"^[\x21-\x7e]+$", about="the same key is the same job"),
        "delay": number(0, YEAR, about="seconds until it may run"),
        "tags": array(_NAME, 20),
        "attempts": integer(1, 1000),
    },
    needed=["handler", "payload"],
)
_EDIT = record(
    {
        "payload": {"type": "object", "description": "all of it; marks keep what they hide"},
        "edits": integer(about="as it was when the caller saw the job: 409 if somebody was faster"),
        "reason": _REASON,
    },
    needed=["payload", "edits"],
)
_CARRY_OUT = record(
    {
        "confirm": integer(about="the plan's number of eligible jobs"),
        "reason": _REASON,
        "name": text(200, about="a name for the run"),
        "canary": integer(0, 100_000, about="so many jobs first, the others if these do well"),
        "rate": text(30, least=1, about="at most so many: 20/s, 30/m"),
        "ramp": {**BOOLEAN, "description": "begin at a tenth of the rate, double every 10 s"},
        "stop_on": text(10, least=1, about="stop when 10% or 25 have failed again"),
    },
    needed=["confirm"],
)
_PAUSES = shape("pauses:Pause[]")
_PAUSE = record(
    {"lane": _LANE, "reason": _REASON, "seconds": number(1, YEAR, about="for how long")},
    needed=["lane"],
)


def _openapi(call: Call) -> Document:
    """Return this description of the API."""
    from redrive.web.openapi import document  # noqa: PLC0415 - it reads this table

    return document(call.root)


ROUTES: tuple[Route, ...] = (
    Route(path="/healthz", does=actions.alive, right="", gives=_STATUS, at_once=True),
    Route(path="/readyz", does=actions.ready, right="", gives=_STATUS, may_fail=True),
    Route(path="/metrics", does=actions.metrics),
    Route(path="/api/v1/health", does=actions.health, right="", gives=health.SHAPE, may_fail=True),
    Route(path="/api/v1/openapi.json", does=_openapi, gives={"type": "object"}, at_once=True),
    Route(
        method="POST",
        path="/api/v1/jobs",
        does=actions.submit,
        right="act",
        body=_SUBMIT,
        gives=named("Submitted"),
    ),
    Route(
        path="/api/v1/jobs",
        does=actions.jobs,
        searches=True,
        query={
            "q": _Q,
            "limit": _LIMIT,
            "cursor": text(200, least=1, about="where the page before ended"),
            "order": one_of(["submitted", "changed"], about="newest by which"),
        },
        gives=shape("jobs:Job[] cursor:text? scope:Scope?"),
    ),
    Route(
        path="/api/v1/jobs/{job}",
        does=actions.job,
        params={"job": _JOB},
        gives=named("WholeJob"),
    ),
    _action("retry", "Drive a job again: dead and resolved ones start a fresh life."),
    _action("resolve", "Close a job: settled another way."),
    _action("discard", "Discard a job permanently."),
    _action("reopen", "Make a closed job a dead letter again."),
    Route(
        method="POST",
        path="/api/v1/jobs/{job}/edit",
        does=actions.edit,
        right="act",
        params={"job": _JOB},
        body=_EDIT,
        gives=named("WholeJob"),
    ),
    Route(
        path="/api/v1/groups",
        does=actions.groups,
        searches=True,
        query={"q": _Q, "limit": _LIMIT},
        gives=shape("groups:Group[] scope:Scope?"),
    ),
    Route(
        path="/api/v1/groups/{group}",
        does=actions.group,
        params={"group": _GROUP},
        gives=named("Group"),
    ),
    _of_group("mark", actions.mark, {"resolved": BOOLEAN}),
    _of_group("note", actions.note, {"note": text()}),
    Route(
        method="POST",
        path="/api/v1/plans",
        does=actions.plan,
        searches=True,
        right="act",
        body=record({"verb": one_of(VERBS), "q": {**_Q, "minLength": 1}}),
        gives=named("Plan"),
        changes=False,
    ),
    Route(
        method="POST",
        path="/api/v1/plans/{plan}/carry-out",
        does=actions.carry_out,
        searches=True,
        right="act",
        params={"plan": text(64, least=1, pattern="^[0-9A-Za-z_-]+$")},
        body=_CARRY_OUT,
        gives=named("Done"),
    ),
    Route(path="/api/v1/pauses", does=actions.pauses, gives=_PAUSES),
    Route(
        method="POST",
        path="/api/v1/pauses",
        does=actions.pause,
        right="act",
        body=_PAUSE,
        gives=_PAUSES,
    ),
    Route(
        method="POST",
        path="/api/v1/pauses/{lane}/resume",
        does=actions.resume,
        right="act",
        params={"lane": _LANE},
        body=record({"reason": _REASON}, needed=[]),
        gives=_PAUSES,
    ),
    Route(
        path="/api/v1/runs",
        does=actions.runs,
        query={"limit": _LIMIT},
        gives=shape("runs:Run[]"),
    ),
    Route(path="/api/v1/runs/{run}", does=actions.run, params={"run": _RUN}, gives=named("Run")),
    _of_run("pause", actions.pause_run),
    _of_run("resume", actions.resume_run),
    _of_run("cancel", actions.cancel_run),
    Route(
        path="/api/v1/acts",
        does=actions.acts,
        query={
            "limit": _LIMIT,
            "before": integer(1, 2**62, about="the number of the last act of the page before"),
            "run": _RUN,
        },
        gives=shape("acts:Act[]"),
    ),
)
