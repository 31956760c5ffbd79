"""The fields of jobs, attempts, groups, runs and actions, declared once for every command.

They name the values of the documents in `desk.documents`, which `--json` prints and the server
returns. What only one command shows is declared there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from redrive.cli.output import Document, Field, Table, Tone, View, fields, joined
from redrive.desk.documents import action_document, job_document, scope_document
from redrive.desk.jobs import Page
from redrive.desk.selectors import is_selector
from redrive.jobs.job import Action

TONES: Mapping[str, Tone] = {"OK": "good", "DEGRADED": "warn", "INCIDENT": "bad"}
"""How a verdict is coloured."""


def error_of(document: Document) -> str | None:
    """Return a failure in one line: its type and message, else why it has its category."""
    error = cast("Mapping[str, Any] | None", document.get("error"))
    if error is None:
        return None
    return ": ".join(part for part in (error["type"], error["message"]) if part) or error["why"]


def attempts_of(job: Document) -> str:
    """Return the attempts made and allowed: 3/10."""
    return f"{job['attempts']}/{job['max_attempts'] or '?'}"


def retries_of(job: Document) -> str:
    """Return the retries made and allowed: 2/3."""
    made, most = cast("tuple[int, int]", (job["attempts"], job["max_attempts"]))
    return f"{max(0, made - 1)}/{most - 1 if most else '?'}"


def name_of(job: Document) -> object:
    """Return what names a job best: its event, its key if it is short, else its id."""
    key = cast("str | None", job["key"])
    is_short = key and len(key) <= _LONGEST_KEY and key.isascii()  # a masked one is not
    event = cast("str | None", job["event"])
    if event and not is_selector(event):
        return event
    return job["id"] if not key or not is_short else f"key:{key}" if is_selector(key) else key


def _times(key: str) -> Field:
    """Declare how often something was done: once, 2 times."""

    def text(document: Document) -> str:
        number = document[key]
        return "" if not number else "once" if number == 1 else f"{number} times"

    title = {"redrives": "retried", "edits": "edited"}[key]
    return Field(key, title, show=text)


def _signed(document: Any, actor: str, at: str) -> str:
    """Return who did something, when and why; nothing where nobody did."""
    if not document or document[at] is None:
        return ""
    why = f": {document['reason']}" if document["reason"] else ""
    return f"{document[actor]} at {document[at]}{why}"


_LONGEST_KEY = 40
_SHOWN = {"error": error_of, "attempts": attempts_of}

JOBS = fields(
    """id:id state:word handler updated=changed:time error:main category:word? attempts:number group:id
    lane+ created:time+ due:due+ reason:word+ tags+ key+""",
    tags=lambda job: joined(job["tags"], " "),
    **_SHOWN,
)
SHORT_JOBS = fields(
    """#:number? name=event_or_key:id updated=time:time handler error:main category:category?
    retries:number group:id id:id+""",
    name=name_of,
    retries=retries_of,
    **_SHOWN,
)
SAMPLES = fields("id:id state:word handler error:main", **_SHOWN)
NEWEST = fields("id:id died_at=died:time handler error:main", **_SHOWN)
JOB = fields(
    "id:id state handler lane attempts created:time updated=changed:time",
    state=lambda job: f"{job['state']} ({job['reason']})" if job["reason"] else job["state"],
    **_SHOWN,
)
JOB_MORE = [
    *fields(
        """finished:time died_at=died:time detail error category error.why=why error.status=status error.code=code
        error.request_id=request_id group:id error.title=cause first_failed:time key event tags release=submitted_by_release
        failed_release run:id spent=failures_so_far crashes""",
        tags=lambda job: joined(job["tags"], " "),
        spent=lambda job: joined(
            f"{category} {number}" for category, number in cast("Document", job["spent"]).items()
        ),
        **_SHOWN,
    ),
    _times("redrives"),
    _times("edits"),
    *fields(
        "folded=attempts_not_kept resolution=resolved_by origin",
        resolution=lambda job: _signed(job["resolution"], "actor", "at"),
        origin=lambda job: json.dumps(job["origin"], ensure_ascii=False) if job["origin"] else None,
    ),
]
ATTEMPTS = fields(
    """number:number life=retried:number started:time duration=took:span? outcome:word
    error.category=category:word? error:main error.why=why? worker+ provider+ release+""",
    error=error_of,
)

GROUPS = fields(
    """group:id jobs:number title=cause:main category:word? handlers:list first_seen=first:time?
    last_seen=last:time deaths_last_hour=1h:number? deaths_last_day=24h:trend status:word note"""
)
GROUP = fields(
    """group:id title=cause status jobs=dead_jobs deaths_last_hour=died_in_the_last_hour
    deaths_last_day=last_day:trend since:time first_seen:time last_seen:time deaths=deaths_ever:number
    category handlers:list"""
)
GROUP_MORE = fields(
    "last_release first_release regressed:time resolved=resolved_by note",
    resolved=lambda group: _signed(group, "resolved_by", "resolved"),
    note=lambda group: (
        f"{group['note']} ({group['noted_by']}, {group['noted']})" if group["note"] else ""
    ),
)


MESSAGES = fields("jobs:number last_seen=last:time text=message:main")


def left_out(run: Document) -> int:
    """Count the jobs that a run left out, for whatever reason."""
    return sum(cast("Mapping[str, int]", run["left"]).values())


def settings_of(run: Document) -> str:
    """Return the canary, rate and stop rule of a run as text."""
    parts = [
        f"canary {run['canary']}" if run["canary"] else "",
        f"{run['rate']:g}/s" if run["rate"] is not None else "",
        "ramp" if run["ramp"] else "",
        f"stop on {run['stop_on']}" if run["stop_on"] else "",
    ]
    return joined(part for part in parts if part)


RUNS = fields(
    """run:id phase:word total=jobs:number waiting:number? working:number? succeeded=ok:number
    failed:number left=left_out:number? created:time by? name asked+""",
    left=left_out,
)
RUN = fields(
    """run:id phase why total=jobs waiting working=released failing=waiting_for_retry
    succeeded failed=failed_again same_cause new_cause closed=closed_by_a_person left=left_out
    asked=selection settings by name reason created:time ended:time""",
    new_cause=lambda run: sum(cast("Mapping[str, int]", run["new_cause"]).values()),
    left=left_out,
    settings=settings_of,
)


def running_of(worker: Document) -> str:
    """Return what a worker runs, and since when: `mail.send x8 since 17:20:01`."""
    running = cast("list[Mapping[str, object]]", worker["running"])
    blocked = cast("Mapping[str, object] | None", worker["blocked"])
    parts = [f"{one['handler']} x{one['jobs']} since {str(one['since'])[11:19]}" for one in running]
    if blocked:
        parts.insert(0, f"BLOCKED by {blocked['handler'] or 'an unknown job'}")
    return joined(parts)


WORKERS = fields(
    """worker:id busy:number slots:number running:main since=started:time? release:word
    silent_seconds=silent:span?""",
    worker=lambda worker: f"{worker['host']}:{worker['pid']}",
    running=running_of,
)
JOB_ACTIONS = fields("action:id at=time:time actor verb:word reason:main")
ACTIONS = fields(
    """action:id at=time:time actor verb:word target:main run:id? done:number skipped:number?
    reason"""
)


def numbered(documents: Iterable[Document]) -> list[Document]:
    """Add the number of its row to each document."""
    return [{"#": number, **document} for number, document in enumerate(documents, start=1)]


def jobs_view(
    page: Page, limit: int, now: float, shown: Sequence[Field], empty: Any, *, title: str = ""
) -> View:
    """Show a page of jobs, or the part `empty` where there is none."""
    documents = [job_document(job) for job in page.jobs]
    rows = numbered(documents) if shown is SHORT_JOBS else documents
    where = {
        "limit": limit,
        "count": len(documents),
        "cursor": page.cursor,
        "scope": scope_document(page.scope),
    }
    return View(documents, [Table(shown, rows, title) if rows else empty], where, now)


def logged(action: Action) -> Document:
    """Return an action with the run it belongs to."""
    run = action.detail.get("run")
    return {**action_document(action), "run": run if isinstance(run, str) else None}
