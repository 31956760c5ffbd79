"""Activity: the audit log as a page, and as a file."""

from __future__ import annotations

import json
from itertools import groupby
from shlex import quote
from typing import Annotated, Any, Literal

from msgspec import Meta

from redrive.desk.documents import action_document
from redrive.jobs.clock import iso
from redrive.jobs.job import Action
from redrive.web.console.visit import Visit
from redrive.web.messages import MOST, NO_NUL, PAGE, Request

EXPORTED = 10_000  # actions that a file has, at most: the newest
VERBS = (
    "retry", "resolve", "discard", "reopen", "edit", "note", "mark", "pause", "resume", "rate",
    "cancel", "submit", "reveal", "test", "export", "import", "purge",
    "remove_listener",
)  # fmt: skip
"""What can be chosen; the words are those of the command line."""
SINCE = ("1h", "24h", "7d", "30d")
_GRAVE = ("discard", "purge")


class Activity(Request, kw_only=True):
    """Which actions: of whom, what, since when, on what; `before` is the last one of a page."""

    actor: Annotated[str, Meta(max_length=64, pattern=NO_NUL)] = ""
    verb: Annotated[str, Meta(max_length=32, pattern=NO_NUL)] = ""
    since: Literal["", "1h", "24h", "7d", "30d"] = ""
    target: Annotated[str, Meta(max_length=500, pattern=NO_NUL)] = ""
    before: Annotated[int, Meta(ge=0, le=2**62)] = 0

    @property
    def chosen(self) -> dict[str, str]:
        """What is filtered by."""
        names = ("actor", "verb", "since", "target")
        return {name: value for name in names if (value := getattr(self, name).strip())}


def activity(visit: Visit) -> dict[str, Any]:
    """Return who did what, when and why."""
    query: Activity = visit.query
    found = _found(visit, limit=PAGE + 1)
    shown = found[:PAGE]
    options = "".join(f" --{name} {quote(value)}" for name, value in query.chosen.items())
    return {
        "here": "activity",
        "line": f"redrive log{options}",
        "days": [(day, list(some)) for day, some in groupby(shown, key=_day)],
        "number": len(shown),
        "older": shown[-1].number if len(found) > PAGE else 0,
        "query": query,
        "chosen": query.chosen,
        "actors": sorted({action.actor for action in visit.desk.log.actions(limit=MOST)}),
        "verbs": VERBS,
        "sinces": SINCE,
        "grave": _GRAVE,
        "most": EXPORTED,
    }


def _found(visit: Visit, *, limit: int) -> list[Action]:
    query: Activity = visit.query
    return visit.desk.log.actions(limit=limit, before=query.before or None, **query.chosen)


def _day(action: Action) -> str:
    return str(iso(action.at))[:10]


def exported(visit: Visit) -> str:
    """Return the actions as JSON Lines, newest first, as `redrive log --json` has them."""
    documents = map(action_document, _found(visit, limit=EXPORTED))
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents)
