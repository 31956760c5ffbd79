"""The pages: what each of them shows, how often it refreshes, and the command that shows the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from shlex import quote
from typing import Annotated, Any, Literal, NamedTuple, get_args

from msgspec import UNSET, Meta

from redrive.alerts import Alerts, listing
from redrive.desk import lists
from redrive.desk.documents import (
    Seen,
    action_document,
    left_of,
    scope_document,
    sums,
    with_trends,
)
from redrive.desk.shared_facts import shared_facts
from redrive.desk.status import Status, Verdict, status_of
from redrive.desk.system import bounds, system_of
from redrive.jobs.clock import iso
from redrive.jobs.job import Action, Job, State
from redrive.runs.run_records import Counts, Run
from redrive.web.console.requests import Visit
from redrive.web.console.shown import coloured
from redrive.web.messages import MOST, NO_NUL, PAGE, JobSearch, Request

SLOW, USUAL, FAST = 30.0, 5.0, 2.0
"""Seconds for which charts are kept, and between two refreshes of a page, and of a live run."""
MOST_GROUPS = 200
STATUSES: tuple[lists.Status, ...] = get_args(lists.Status)
LONGEST = 50_000  # characters of a payload that are shown
EXPORTED = 10_000  # actions that a file has, at most: the newest
VERBS = (
    "retry", "resolve", "discard", "reopen", "edit", "note", "mark", "pause", "resume", "rate",
    "cancel", "submit", "reveal", "test", "export", "import", "purge",
    "remove_listener",
)  # fmt: skip
"""What can be chosen in the audit log; the words are those of the command line."""
_TOP, _NEWEST, _STEPS, _MESSAGES = 5, 5, 8, 8
_BANDS = 3  # from more lanes without a worker on, one sentence is about all of them
_HALF_HOUR, _DAY = 30, 86_400.0
_TABS = ("", "state:dead", "state:pending", "state:running", "state:completed", "state:resolved")

Data = dict[str, Any]


class GroupList(Request, kw_only=True):
    """Which groups, in which order; `q` is part of a title, handler, category or note."""

    status: lists.Status = "open"
    sort: lists.Order = "growth"
    q: Annotated[str, Meta(max_length=200, pattern=NO_NUL)] = ""


class SystemView(Request, kw_only=True):
    """What is shown beside the lanes: the form that pauses one."""

    pause: Annotated[str, Meta(max_length=128)] = ""


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


class Page(NamedTuple):
    """A page: its address, the function that reads it, and the type of its query."""

    path: str
    does: Callable[[Visit], Data]
    query: type[Request] = Request
    right: str = "read"
    refreshes: bool = False
    """True if its data says how often it refreshes, which all who look share."""

    @property
    def template(self) -> str:
        """The file that shows it."""
        return f"{self.does.__name__}.html"


def nav(visit: Visit) -> Data:
    """Count what the navigation shows; a page does not wait for it, but shows what is known."""
    if visit.is_refresh:
        _status(visit)
    seen: list[Seen] = visit.shared.last("groups") or []
    now: Status | None = visit.shared.last("status")
    return {
        "groups": _many(seen),
        "runs": len(_live_runs(visit)),
        "lanes": len(now.unserved) if now else 0,
    }


def _status(visit: Visit) -> Status:
    return visit.shared.get("status", USUAL, lambda: status_of(visit.desk, _seen(visit)))


def _seen(visit: Visit) -> list[Seen]:
    """Return the groups with dead jobs, the largest first."""
    groups = visit.desk.groups
    return visit.shared.get(
        "groups", USUAL, lambda: with_trends(visit.desk, groups.find(limit=MOST_GROUPS))
    )


def _live_runs(visit: Visit) -> list[Run]:
    """Return the runs that are not over, with their counts."""
    return visit.shared.get("runs", FAST, visit.desk.runs.live)


def _many(seen: list[Seen]) -> str:
    return f"{len(seen)}{'+' if len(seen) >= MOST_GROUPS else ''}"


def overview(visit: Visit) -> Data:
    """Return if anything is wrong, how much, if it grows, and what needs a person."""
    now, seen, runs = _status(visit), _seen(visit), _live_runs(visit)
    growing = sorted(seen, key=lambda row: (-row.last_hour, -row.group.jobs))
    dead = now.total(State.DEAD)
    hosts = {worker.host for worker in now.workers}
    return {
        "here": "overview",
        "line": "redrive status",
        "title": visit.texts("overview.title", n=dead),
        "health": now,
        "verdict": now.verdict(),
        "leads_to": _leads_to(now.verdict()) if now.verdict().level == "INCIDENT" else "",
        "changes": now.changes(),
        "totals": {state.value: now.total(state) for state in State},
        "seen": seen,
        "many": _many(seen),
        "rest": dead - sum(row.group.jobs for row in seen[:_TOP]),
        "growing": growing[:_TOP],
        "oldest": now.oldest(State.DEAD),
        "late": now.age(State.PENDING),
        "died": now.minutes[-1],
        "hosts": len(hosts),
        "runs": runs,
        "driven": _driven(runs),
        "attention": list(_attention(visit, now)),
        "actions": visit.desk.log.actions(limit=_TOP),
        "deaths": visit.shared.get("deaths", SLOW, lambda: _deaths(visit, seen, runs)),
        "every": FAST if any(run.phase == "live" for run in runs) else USUAL,
    }


def _driven(runs: list[Run]) -> Mapping[int, Run]:
    """Return which live run retries which group."""
    return {group: run for run in reversed(runs) for group in run.groups}


def _attention(visit: Visit, now: Status) -> list[Data]:
    """Return what needs a person beside the verdict, each as a text and an address."""
    grave = [reason for reason in now.reasons()[1:] if reason.level == "INCIDENT"]
    items: list[Data] = [
        {"text": visit.texts.said(one.why), "why": "", "to": _leads_to(one)} for one in grave
    ]
    late = {lane.lane for lane in now.overdue()}  # the verdict has these
    items += _unserved(
        visit, now, {lane: due for lane, due in now.unserved.items() if lane not in late}
    )
    recent = visit.shared.get("recent", USUAL, lambda: visit.desk.runs.recent(counted=False))
    items += [
        {
            "text": visit.texts("attention.stopped", run=run.id, why=run.why),
            "why": run.name,
            "to": f"/runs/{run.id}",
        }
        for run in recent
        if run.phase == "stopped" and now.now - (run.ended or now.now) < _DAY
    ]
    return items


def _unserved(visit: Visit, now: Status, lanes: Mapping[str, float]) -> list[Data]:
    """Return the lanes that nobody serves, each as a text and its reason; many as one."""
    texts = visit.texts
    since = {lane: texts.span(max(0.0, now.now - due)) for lane, due in lanes.items()}
    if len(lanes) > _BANDS:
        some, oldest = ", ".join(sorted(lanes)[:_BANDS]), min(lanes, key=lambda lane: lanes[lane])
        text = texts("attention.unserved_many", n=len(lanes), lanes=some, span=since[oldest])
        return [{"text": text, "why": "", "to": "/system"}]
    return [
        {
            "text": texts("attention.unserved", lane=lane, span=span),
            "why": now.because.get(lane, ""),
            "to": "/system",
        }
        for lane, span in since.items()
    ]


def _leads_to(verdict: Verdict) -> str:
    """Return the page about a reason of the verdict: of its group, or of lanes."""
    group = verdict.why.values.get("group")
    return f"/groups/{group}" if group else "/system"


def _deaths(visit: Visit, seen: list[Seen], runs: list[Run]) -> Data:
    """Return the deaths of the last day by half hour: of the largest groups and of all others."""
    numbers = [row.group.number for row in seen[:_TOP]]
    minutes = 24 * 60
    total = sums(visit.desk.lanes.deaths(60, minutes), _HALF_HOUR)
    curves = visit.desk.groups.deaths(60, minutes, numbers) if numbers else {}
    each = [sums(curves[number], _HALF_HOUR) for number in numbers]
    rest = [max(0, whole - sum(some)) for whole, *some in zip(total, *each, strict=True)]
    return {
        "spans": [list(span) for span in zip(*each, rest, strict=True)],
        "classes": [*(f"v{place}" for place in range(1, len(numbers) + 1)), "v-grey"],
        "total": sum(total),
        **_times(visit, runs),
    }


def _times(visit: Visit, runs: list[Run]) -> Data:
    """Return where on a chart of 48 half hours every fourth hour begins, and each run."""
    now = visit.desk.store.now()
    begins = (now // 60 + 1) * 60 - _DAY
    first = -(-begins // 14_400) * 14_400
    times = [first + step * 14_400 for step in range(6)]
    return {
        "hours": [((at - begins) / 1800, f"{int(at // 3600) % 24:02d}:00") for at in times],
        "marks": [
            (48 - (now - run.created) / 1800, run.id) for run in runs if now - run.created < _DAY
        ],
    }


def groups(visit: Visit) -> Data:
    """Return the groups of one status, in order."""
    query: GroupList = visit.query
    desk, seen, word = visit.desk, _seen(visit), query.q.strip().lower()
    tabs = {status: lists.of_status(desk, seen, status) for status in STATUSES}
    tabs = {name: [row for row in rows if word in _words_of(row)] for name, rows in tabs.items()}
    tabs["all"] = [*tabs["open"], *tabs["resolved"]]
    sort = {"jobs": "count"}.get(query.sort, query.sort)
    new = " --new" if query.status == "new" else ""
    return {
        "here": "groups",
        "line": f"redrive groups --sort {sort}{new}",
        "rows": lists.in_order(tabs[query.status], query.sort),
        "counts": {name: len(rows) for name, rows in tabs.items()},
        "driven": _driven(_live_runs(visit)),
        "status": query.status,
        "sort": query.sort,
        "q": query.q,
        "most": MOST_GROUPS,
        "every": USUAL,
    }


def _words_of(row: Seen) -> str:
    """Return what a group can be found by."""
    group = row.group
    words = (group.name, group.title, *group.handlers, group.category or "", group.record.note)
    return "\n".join(words).lower()


def group(visit: Visit) -> Data:
    """Return one group: its jobs, its curve, its run, its history, and what its jobs share."""
    desk = visit.desk
    (row,) = with_trends(desk, [desk.groups.get(visit.path["group"])])
    group = row.group
    minutes = desk.groups.deaths(60, 24 * 60, [group.number])[group.number]
    runs = [run for run in _live_runs(visit) if group.number in run.groups]
    return {
        "here": "groups",
        "line": f"redrive group {group.name}",
        "title": f"{group.name} {group.title[:80]}",
        "row": row,
        "group": group,
        "record": group.record,
        "spans": [[deaths] for deaths in sums(minutes, _HALF_HOUR)],
        "total": sum(minutes),
        **_times(visit, runs),
        "run": runs[0] if runs else None,
        "arrived": desk.runs.arrived(runs[0]) if runs else 0,
        "actions": [a for a in desk.log.actions(limit=200) if a.target == group.name][:_STEPS],
        **visit.shared.get(("facts", group.number), SLOW, lambda: _facts(visit)),
        "every": USUAL,
    }


def _facts(visit: Visit) -> Data:
    """Return what the dead jobs of a group share, the newest of them, and its last traceback."""
    desk = visit.desk
    group = desk.groups.get(visit.path["group"])
    facts = shared_facts(desk, group)
    newest = desk.jobs.get(facts.dead[0].id) if facts.dead else None
    failed = [a for a in newest.history if a.failure] if newest else []
    return {
        "newest": facts.dead[:_NEWEST],
        "looked": len(facts.dead),
        "completed": facts.completed,
        "shared": facts.facts,
        "messages": facts.messages,
        "failure": failed[-1].failure if failed else None,
    }


def jobs(visit: Visit) -> Data:
    """Return the jobs that match."""
    query: JobSearch = visit.query
    page = visit.desk.jobs.find(
        *query.words,
        limit=query.limit,
        cursor=None if query.cursor is UNSET else query.cursor,
        by_change=query.order == "changed",
    )
    now: Status | None = visit.shared.last("status")  # counting takes longer than finding
    counts = {f"state:{state.value}": now.total(state) for state in State} if now else {}
    return {
        "here": "jobs",
        "line": f"redrive list {quote(query.q)}" if query.q.strip() else "redrive list",
        "q": query.q,
        "order": query.order,
        "page": page,
        "scope": scope_document(page.scope),
        "tabs": [(tab, counts.get(tab)) for tab in _TABS],
    }


def job(visit: Visit, *, reveal: bool = False) -> Data:
    """Return what happened to one job."""
    found, payload, original = visit.desk.jobs.editable(
        visit.path["job"], reveal=reveal, actor=visit.actor
    )
    attempts = list(reversed(found.history))
    return {
        "here": "jobs",
        "line": f"redrive show {found.id}",
        "job": found,
        "payload": coloured(payload[:LONGEST].rstrip()),
        "original": None if original is None else coloured(original[:LONGEST].rstrip()),
        "cut": max(0, len(payload) - LONGEST),
        "revealed": reveal,
        "attempts": attempts,
        "verbs": verbs(found),
        "can_edit": found.state not in {State.RUNNING, State.COMPLETED},
        "actions": visit.desk.log.on_job(found),
    }


def verbs(job: Job) -> list[str]:
    """Return what a person can do to a job now."""
    match job.state:
        case State.DEAD | State.PENDING:
            return ["retry", "resolve", "discard"]
        case State.RESOLVED:
            return ["reopen", "retry"]
        case _:
            return []


def runs(visit: Visit) -> Data:
    """Return the runs that are remembered."""
    return {
        "here": "runs",
        "line": "redrive run",
        "runs": visit.desk.runs.recent(),
        "every": USUAL,
    }


def run(visit: Visit) -> Data:
    """Return how one run fares."""
    desk = visit.desk
    run = desk.runs.get(visit.path["run"])
    counts = run.counts or Counts()
    groups = {f"G{number}": jobs for number, jobs in counts.new.items()}
    failed = [desk.groups.get(name) for name in list(groups)[:_TOP]]
    same = [desk.groups.get(number) for number in run.groups[:_TOP]] if counts.same else []
    steps = lists.steps_of(desk, run)
    progress = lists.progress_of(desk, run, steps)
    # Jobs that a run never released count only where it went on without them.
    never = counts.left if run.phase in {"stopped", "cancelled"} else 0
    over = run.total - counts.waiting - counts.working - never
    percent = 100 * over // run.total if run.total else 100
    return {
        "here": "runs",
        "line": f"redrive run {run.id} --watch",
        "title": visit.texts("run.title", run=run.id, percent=percent),
        "run": run,
        "counts": counts,
        "percent": percent,
        "progress": progress,
        "pace": [[number] for number in progress["pace"]["numbers"]],
        "left": left_of(run, counts),
        "same": same,
        "failed": [(group, groups[group.name]) for group in failed],
        "steps": _shown_steps(steps, run.released)[:_STEPS],
        "every": FAST if run.phase in {"live", "freezing"} else 0 if run.is_over else USUAL,
    }


def _shown_steps(steps: list[Action], released: int) -> list[Action]:
    """Return the steps with one release of all jobs, at the time of the last: the chart has each."""
    last = next((step for step in steps if step.verb == "release"), None)
    return [
        replace(step, done=released) if step is last else step
        for step in steps
        if step is last or step.verb != "release"
    ]


def activity(visit: Visit) -> Data:
    """Return who did what, when and why."""
    query: Activity = visit.query
    found = _actions(visit, limit=PAGE + 1)
    shown = found[:PAGE]
    options = "".join(f" --{name} {quote(value)}" for name, value in query.chosen.items())
    return {
        "here": "activity",
        "line": f"redrive log{options}",
        "days": [
            (day, list(some))
            for day, some in groupby(shown, lambda action: str(iso(action.at))[:10])
        ],
        "number": len(shown),
        "older": shown[-1].number if len(found) > PAGE else 0,
        "query": query,
        "chosen": query.chosen,
        "actors": sorted({action.actor for action in visit.desk.log.actions(limit=MOST)}),
        "verbs": VERBS,
        "sinces": ("1h", "24h", "7d", "30d"),
        "grave": ("discard", "purge"),
        "most": EXPORTED,
    }


def _actions(visit: Visit, *, limit: int) -> list[Action]:
    query: Activity = visit.query
    return visit.desk.log.actions(limit=limit, before=query.before or None, **query.chosen)


def exported(visit: Visit) -> str:
    """Return the actions as JSON Lines, newest first, as `redrive log --json` has them."""
    documents = map(action_document, _actions(visit, limit=EXPORTED))
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents)


def system(visit: Visit) -> Data:
    """Return the lanes, the workers, the store and the alerts, and the form that pauses a lane."""
    now = _status(visit)
    store = visit.shared.get("store", SLOW, lambda: system_of(visit.app.submitter, now))
    known = visit.app.alerts if isinstance(visit.app.alerts, Alerts) else None
    return {
        "here": "system",
        "line": "redrive doctor",
        "lane": visit.query.pause,
        "health": now,
        "lanes": lists.lanes_of(visit.desk, now),
        "unserved": _unserved(visit, now, now.unserved),
        "total": sum(count.jobs for count in now.counts),
        "store": store,
        "removals": [one for one in bounds(visit.app.submitter, now) if one.oldest is not None],
        "channels": listing.channels(known),
        "sent": listing.latest(visit.desk, _MESSAGES),
        "every": USUAL,
    }
