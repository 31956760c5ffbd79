"""What happens now: flow per minute, lanes with depth and lag, groups that die, beside the status."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.desk import shapes
from redrive.desk.documents import pause_document, run_document, seen_document, worker_document
from redrive.desk.status import Status, status_of
from redrive.errors import JobNotFound
from redrive.jobs.clock import iso
from redrive.jobs.groups import LaneCount
from redrive.jobs.job import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redrive.desk.desk import Desk
    from redrive.desk.documents import Seen

MINUTES = 30  # how many minutes the curves go back
_OPEN = frozenset({State.PENDING, State.RUNNING, State.DEAD})


class Live(NamedTuple):
    """The status, and what happened in each lane in the last minutes."""

    status: Status
    flow: Mapping[str, list[LaneCount]]
    """By lane, minute by minute; the last minute is not over yet."""
    groups: list[Seen]
    """Those of which jobs died in the last ten minutes, with their handlers."""

    def lanes(self) -> list[shapes.Lane]:
        """Return the lanes with open jobs or attempts, those with the longest lag first."""
        jobs: dict[str, Counter[State]] = {lane: Counter() for lane in self.flow if lane}
        due = self.status.due()
        for count in self.status.counts:
            if count.state in _OPEN:
                jobs.setdefault(count.lane, Counter())[count.state] += count.jobs
        rows = [self._lane(lane, jobs[lane], due.get(lane)) for lane in jobs]
        rows.sort(key=lambda row: (-(row["lag_seconds"] or 0.0), -row["pending"], row["lane"]))
        return rows

    def _lane(self, lane: str, jobs: Counter[State], due: float | None) -> shapes.Lane:
        at = self.status
        paused = any(pause.lane == lane for pause in at.pauses)
        return {
            "lane": lane,
            "state": "paused" if paused else "unserved" if lane in at.unserved else "served",
            "pending": jobs[State.PENDING],
            "running": jobs[State.RUNNING],
            "dead": jobs[State.DEAD],
            "lag_seconds": None if due is None else max(0.0, at.now - due),
            "attempts_last_minute": self.flow[lane][-2].attempts if lane in self.flow else 0,
        }

    def minutes(self) -> list[dict[str, Any]]:
        """Return deaths, attempts and completions: in the last whole minute, and as a curve."""
        sums = [LaneCount() for _ in range(MINUTES)]
        for curve in self.flow.values():
            sums = [one.plus(two) for one, two in zip(sums, curve, strict=True)]
        names = (("deaths", "deaths"), ("attempts", "attempts"), ("completed", "successes"))
        return [
            {
                "what": what,
                "last_minute": getattr(sums[-2], field),
                "this_minute": getattr(sums[-1], field),
                "curve": {"span_seconds": 60, "numbers": [getattr(one, field) for one in sums]},
            }
            for what, field in names
        ]

    def document(self) -> dict[str, Any]:
        """Return all of it."""
        at, verdict = self.status, self.status.verdict()
        return {
            "now": iso(at.now),
            "store": at.url,
            "verdict": verdict.level,
            "why": verdict.why,
            "states": {state.value: at.total(state) for state in State},
            "minutes": self.minutes(),
            "groups": list(map(seen_document, self.groups)),
            "runs": [run_document(run) for run in at.runs],
            "lanes": self.lanes(),
            "workers": [worker_document(worker) for worker in at.workers],
            "pauses": [pause_document(pause) for pause in at.pauses],
        }


def live_of(desk: Desk) -> Live:
    """Read what happens now."""
    status = status_of(desk, groups=[])
    groups = [_with_jobs(desk, row) for row in status.active if row.recent]
    return Live(status, desk.store.lane_curve(60, MINUTES), groups)


def _with_jobs(desk: Desk, row: Seen) -> Seen:
    """Return a group with its jobs counted; as it is if all of them were purged."""
    with suppress(JobNotFound):
        return replace(row, group=desk.groups.get(row.group))
    return row
