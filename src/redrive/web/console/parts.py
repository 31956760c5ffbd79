"""The parts of pages that refresh: what each shows, and how often it is read anew.

They are rendered once for all who look, by language and right, so nothing here depends on the person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, get_args

from msgspec import Meta

from redrive.alerts import Alerts, listing
from redrive.desk import lists
from redrive.desk.documents import Seen, left_of, sums, with_trends
from redrive.desk.shared_facts import shared_facts
from redrive.desk.status import Status, Verdict, status_of
from redrive.desk.system import bounds, system_of
from redrive.jobs.job import Action, State
from redrive.runs.run_records import Counts, Run
from redrive.web.console.visit import Visit
from redrive.web.messages import NO_NUL, PATH, Request

SLOW, USUAL, FAST = 30.0, 5.0, 2.0
"""Seconds between two refreshes: of charts, of most parts, of a live run."""
MOST_GROUPS = 200
STATUSES: tuple[lists.Status, ...] = get_args(lists.Status)
TOP = 5
_BANDS = 3  # from more lanes without a worker on, one sentence is about all of them
HALF_HOUR = 30
_DAY = 86_400.0
_NEWEST = 5
_STEPS = 8
_MESSAGES = 8

Data = dict[str, Any]


class Here(Request, kw_only=True):
    """On which page."""

    here: Literal["", "overview", "groups", "jobs", "runs", "activity", "system"] = ""


class GroupList(Request, kw_only=True):
    """Which groups, in which order; `q` is part of a title, handler, category or note."""

    status: lists.Status = "open"
    sort: lists.Order = "growth"
    q: Annotated[str, Meta(max_length=200, pattern=NO_NUL)] = ""


class OneGroup(Request, kw_only=True):
    """Which group."""

    group: Annotated[str, PATH["group"]] = ""


class OneRun(Request, kw_only=True):
    """Which run."""

    run: Annotated[str, PATH["run"]] = ""


class Part(NamedTuple):
    """A part: how often it refreshes, the function that reads it, and the type of its query."""

    every: float
    does: Callable[[Visit], Data]
    query: type[Request] = Request


def status(visit: Visit) -> Status:
    """Return the verdict, counts, workers, pauses and unserved lanes."""
    return visit.shared.get("status", USUAL, lambda: status_of(visit.desk, groups(visit)))


def groups(visit: Visit) -> list[Seen]:
    """Return the groups with dead jobs, the largest first."""
    return visit.shared.get("groups", USUAL, lambda: _groups(visit))


def _groups(visit: Visit) -> list[Seen]:
    return with_trends(visit.desk, visit.desk.groups.find(limit=MOST_GROUPS))


def live_runs(visit: Visit) -> list[Run]:
    """Return the runs that are not over, with their counts."""
    return visit.shared.get("runs", FAST, visit.desk.runs.live)


def nav(visit: Visit) -> Data:
    """Count what the navigation shows; a page does not wait for it, but shows what is known."""
    known = (groups(visit), status(visit)) if visit.is_part else None
    seen, now = known or (visit.shared.last("groups"), visit.shared.last("status"))
    return {
        "here": visit.query.here,
        "groups": _many(seen or ()),
        "runs": len(live_runs(visit)),
        "lanes": len(now.unserved) if now else 0,
    }


def _many(seen: Sequence[Seen]) -> str:
    return f"{len(seen)}{'+' if len(seen) >= MOST_GROUPS else ''}"


def overview(visit: Visit) -> Data:
    """Read how much is dead, of what, what grows and what needs a person."""
    now, seen, runs = status(visit), groups(visit), live_runs(visit)
    growing = sorted(seen, key=lambda row: (-row.last_hour, -row.group.jobs))
    dead = now.total(State.DEAD)
    hosts = {worker.host for worker in now.workers}
    return {
        "title": visit.texts("overview.title", n=dead),
        "health": now,
        "verdict": now.verdict(),
        "leads_to": _leads_to(now.verdict()) if now.verdict().level == "INCIDENT" else "",
        "changes": now.changes(),
        "totals": {state.value: now.total(state) for state in State},
        "seen": seen,
        "many": _many(seen),
        "rest": dead - sum(row.group.jobs for row in seen[:TOP]),
        "growing": growing[:TOP],
        "oldest": now.oldest(State.DEAD),
        "late": now.age(State.PENDING),
        "died": now.minutes[-1],
        "hosts": len(hosts),
        "runs": runs,
        "driven": driven(runs),
        "attention": list(attention(visit, now)),
        "actions": visit.desk.log.actions(limit=TOP),
        "every": FAST if any(run.phase == "live" for run in runs) else USUAL,
    }


def driven(runs: list[Run]) -> Mapping[int, Run]:
    """Return which live run retries which group."""
    return {group: run for run in reversed(runs) for group in run.groups}


def attention(visit: Visit, now: Status) -> list[Data]:
    """Return what needs a person beside the verdict, each as a text and an address."""
    grave = [reason for reason in now.reasons()[1:] if reason.level == "INCIDENT"]
    items: list[Data] = [
        {"text": visit.texts.said(one.why), "why": "", "to": _leads_to(one)} for one in grave
    ]
    late = {lane.lane for lane in now.overdue()}  # the verdict has these
    items += unserved(
        visit, now, {lane: due for lane, due in now.unserved.items() if lane not in late}
    )
    stopped = [run for run in _recent(visit) if run.phase == "stopped"]
    items += [
        {
            "text": visit.texts("attention.stopped", run=run.id, why=visit.texts.said(run.why)),
            "why": run.name,
            "to": f"/runs/{run.id}",
        }
        for run in stopped
        if now.now - (run.ended or now.now) < _DAY
    ]
    return items


def unserved(visit: Visit, now: Status, lanes: Mapping[str, float]) -> list[Data]:
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


def _recent(visit: Visit) -> list[Run]:
    return visit.shared.get("recent", USUAL, lambda: visit.desk.runs.recent(counted=False))


def deaths(visit: Visit) -> Data:
    """Read the deaths of the last day by half hour: of the largest groups and of all others."""
    seen = groups(visit)[:TOP]
    numbers = [row.group.number for row in seen]
    minutes = 24 * 60
    total = sums(visit.desk.lanes.deaths(60, minutes), HALF_HOUR)
    curves = visit.desk.groups.deaths(60, minutes, numbers) if numbers else {}
    each = [sums(curves[number], HALF_HOUR) for number in numbers]
    rest = [max(0, whole - sum(some)) for whole, *some in zip(total, *each, strict=True)]
    return {
        "spans": [list(span) for span in zip(*each, rest, strict=True)],
        "classes": [*(f"v{place}" for place in range(1, len(numbers) + 1)), "v-grey"],
        "total": sum(total),
        "hours": hours(visit),
        "marks": marks(visit, live_runs(visit)),
    }


def hours(visit: Visit) -> list[tuple[float, str]]:
    """Return where on a chart of 48 half hours every fourth hour begins."""
    now = visit.desk.store.now()
    begins = (now // 60 + 1) * 60 - _DAY
    first = -(-begins // 14_400) * 14_400
    times = [first + step * 14_400 for step in range(6)]
    return [((at - begins) / 1800, f"{int(at // 3600) % 24:02d}:00") for at in times]


def marks(visit: Visit, runs: list[Run]) -> list[tuple[float, str]]:
    """Return where on such a chart runs began."""
    now = visit.desk.store.now()
    return [(48 - (now - run.created) / 1800, run.id) for run in runs if now - run.created < _DAY]


def group_list(visit: Visit) -> Data:
    """Read the groups of one status, in order."""
    query: GroupList = visit.query
    desk, seen, word = visit.desk, groups(visit), query.q.strip().lower()
    tabs = {status: lists.of_status(desk, seen, status) for status in STATUSES}
    tabs = {name: [row for row in rows if word in _words_of(row)] for name, rows in tabs.items()}
    tabs["all"] = [*tabs["open"], *tabs["resolved"]]
    return {
        "rows": lists.in_order(tabs[query.status], query.sort),
        "counts": {name: len(rows) for name, rows in tabs.items()},
        "driven": driven(live_runs(visit)),
        "status": query.status,
        "sort": query.sort,
        "q": query.q,
        "most": MOST_GROUPS,
    }


def _words_of(row: Seen) -> str:
    """Return what a group can be found by."""
    group = row.group
    words = (group.name, group.title, *group.handlers, group.category or "", group.record.note)
    return "\n".join(words).lower()


def one_group(visit: Visit) -> Data:
    """Read how one group stands: its jobs, its curve, its run, its note and its history."""
    desk = visit.desk
    (row,) = with_trends(desk, [desk.groups.get(visit.query.group)])
    group = row.group
    minutes = desk.groups.deaths(60, 24 * 60, [group.number])[group.number]
    runs = [run for run in live_runs(visit) if group.number in run.groups]
    return {
        "title": f"{group.name} {group.title[:80]}",
        "row": row,
        "group": group,
        "record": group.record,
        "spans": [[deaths] for deaths in sums(minutes, HALF_HOUR)],
        "total": sum(minutes),
        "hours": hours(visit),
        "marks": marks(visit, runs),
        "run": runs[0] if runs else None,
        "arrived": desk.runs.arrived(runs[0]) if runs else 0,
        "actions": [a for a in desk.log.actions(limit=200) if a.target == group.name][:_STEPS],
    }


def group_facts(visit: Visit) -> Data:
    """Read what the dead jobs of a group share, the newest of them, and its last traceback."""
    desk = visit.desk
    group = desk.groups.get(visit.query.group)
    facts = shared_facts(desk, group)
    newest = desk.jobs.get(facts.dead[0].id) if facts.dead else None
    failed = [a for a in newest.history if a.failure] if newest else []
    return {
        "group": group,
        "newest": facts.dead[:_NEWEST],
        "looked": len(facts.dead),
        "completed": facts.completed,
        "shared": facts.facts,
        "messages": facts.messages,
        "failure": failed[-1].failure if failed else None,
    }


def run_list(visit: Visit) -> Data:
    """Read the runs that are remembered."""
    return {"runs": visit.shared.get("all runs", USUAL, visit.desk.runs.recent)}


def one_run(visit: Visit) -> Data:
    """Read how one run fares."""
    desk = visit.desk
    run = desk.runs.get(visit.query.run)
    counts = run.counts or Counts()
    groups = {f"G{number}": jobs for number, jobs in counts.new.items()}
    failed = [desk.groups.get(name) for name in list(groups)[:TOP]]
    same = [desk.groups.get(number) for number in run.groups[:TOP]] if counts.same else []
    steps = lists.steps_of(desk, run)
    progress = lists.progress_of(desk, run, steps)
    return {
        "title": visit.texts("run.title", run=run.id, percent=_percent(run, counts)),
        "run": run,
        "counts": counts,
        "percent": _percent(run, counts),
        "progress": progress,
        "pace": [[number] for number in progress["pace"]["numbers"]],
        "left": left_of(run, counts),
        "same": same,
        "failed": [(group, groups[group.name]) for group in failed],
        "steps": _shown_steps(steps, run.released)[:_STEPS],
        "every": FAST if run.phase in {"live", "freezing"} else 0 if run.is_over else USUAL,
    }


def _percent(run: Run, counts: Counts) -> int:
    """Return how far a run came: jobs that it never released count only where it went on without them."""
    never = counts.left if run.phase in {"stopped", "cancelled"} else 0
    over = run.total - counts.waiting - counts.working - never
    return 100 * over // run.total if run.total else 100


def _shown_steps(steps: list[Action], released: int) -> list[Action]:
    """Return the steps with one release of all jobs, at the time of the last: the chart has each."""
    last = next((step for step in steps if step.verb == "release"), None)
    return [
        replace(step, done=released) if step is last else step
        for step in steps
        if step is last or step.verb != "release"
    ]


def system(visit: Visit) -> Data:
    """Read the lanes, the workers and the store."""
    now = status(visit)
    store = visit.shared.get("store", SLOW, lambda: system_of(visit.app.submitter, now))
    return {
        "health": now,
        "lanes": lists.lanes_of(visit.desk, now),
        "unserved": unserved(visit, now, now.unserved),
        "total": sum(count.jobs for count in now.counts),
        "store": store,
        "removals": [one for one in bounds(visit.app.submitter, now) if one.oldest is not None],
    }


def alerts(visit: Visit) -> Data:
    """Read the channels of alerts and the latest messages."""
    known = visit.app.alerts if isinstance(visit.app.alerts, Alerts) else None
    channels = listing.channels(known, visit.desk)
    return {"channels": channels, "sent": listing.latest(visit.desk, _MESSAGES)}


PARTS: Mapping[str, Part] = {
    "nav": Part(USUAL, nav, Here),
    "overview": Part(USUAL, overview),
    "deaths": Part(SLOW, deaths),
    "groups": Part(USUAL, group_list, GroupList),
    "group": Part(USUAL, one_group, OneGroup),
    "facts": Part(SLOW, group_facts, OneGroup),
    "runs": Part(USUAL, run_list),
    "run": Part(USUAL, one_run, OneRun),
    "system": Part(USUAL, system),
    "alerts": Part(SLOW, alerts),
}
"""By name: `/part/NAME`, and the template `parts/NAME.html`."""
