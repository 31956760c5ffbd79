"""Metrics for Prometheus: what is in the store at this moment, and what was done up to now.

    from prometheus_client import REGISTRY
    REGISTRY.register(Collector(app.desk))  # or: redrive metrics --prometheus, or /metrics of redrive serve

Gauges are asked of the store at each scrape, so they are exact whatever runs where; counters are those
that workers add to the store (see `worker.counters`). Any one process can tell all of it: scrape one.
Labels are states, lanes and words of ours, never ids. Needs the extra: pip install 'redrive[metrics]'.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive import __version__
from redrive.attempts import counters
from redrive.desk.desk import Desk
from redrive.desk.jobs import oldest_by_lane
from redrive.in_place import calls
from redrive.jobs.job import State

if TYPE_CHECKING:
    from prometheus_client.core import Metric

GROUPS = 1000  # so many causes are told apart, the commonest; the rest are not counted


class About(NamedTuple):
    """What a metric means, and its labels."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()


ALL: dict[str, About] = {
    "redrive_info": About("gauge", "Always 1; see its labels.", ("version", "durability")),
    "redrive_jobs": About("gauge", "Jobs that are stored now.", ("state", "lane", "category")),
    "redrive_due_lag_seconds": About(
        "gauge", "How long the job that has been due longest has waited.", ("lane",)
    ),
    "redrive_dead_oldest_age_seconds": About(
        "gauge", "How long the oldest dead letter has been dead.", ("lane",)
    ),
    "redrive_groups": About("gauge", "Groups that have dead letters.", ("status",)),
    "redrive_lane_paused": About("gauge", "1 for each lane that is paused.", ("lane",)),
    "redrive_lane_unserved": About(
        "gauge", "1 for each lane with due jobs that no worker serves.", ("lane",)
    ),
    "redrive_runs": About("gauge", "Bulk retries that have not ended.", ("phase",)),
    "redrive_workers": About("gauge", "Workers that sent a heartbeat."),
    "redrive_worker_heartbeat_age_seconds": About(
        "gauge", "Time since the oldest last heartbeat of these workers."
    ),
    "redrive_attempts": About("counter", "Attempts that ended.", ("lane", "outcome")),
    "redrive_attempt_duration_seconds": About(
        "histogram", "How long attempts took, without crashes.", ("lane",)
    ),
    "redrive_captured": About("counter", "Jobs that failed for the first time.", ("lane",)),
    "redrive_dead": About("counter", "Jobs that became dead letters.", ("lane", "reason")),
    "redrive_run_jobs": About("counter", "Jobs of bulk retries that ended.", ("outcome",)),
    "redrive_alerts": About("counter", "Attempts to send an alert.", ("channel", "outcome")),
}
"""Every metric; in the text of Prometheus the name of a counter ends in _total."""

Sample = tuple[str, tuple[str, ...], float]
"""A metric's name, the values of its labels, and its value."""


class Collector:
    """A collector for prometheus-client: the metrics of one app's store."""

    def __init__(self, desk: Desk) -> None:
        self._app = desk

    def describe(self) -> Iterable[Metric]:
        """Name the metrics without asking the store."""
        return _families()[0].values()

    def collect(self) -> Iterable[Metric]:
        """Ask the store."""
        families, histogram = _families()
        for name, named, value in gauges(self._app):
            families[name].add_metric(named, value)
        total = counters.total(self._app.store)
        for (what, *labels), value in total.items():
            family = families.get(f"redrive_{what}")
            if family is not None:
                family.add_metric(labels, value)
        for lane, (buckets, seconds) in _durations(total).items():
            histogram.add_metric([lane], buckets, seconds)
        return families.values()


class InPlaceCollector:
    """A collector of what `@retry` and `retrying` did in this process, which no store knows."""

    def describe(self) -> Iterable[Metric]:
        """Name the metric without counts."""
        from prometheus_client import core  # noqa: PLC0415 - an extra

        labels = ("outcome", "function", "category")
        words = "Attempts in place that failed: retried, or given_up."
        return [core.CounterMetricFamily("redrive_in_place_failures", words, labels=labels)]

    def collect(self) -> Iterable[Metric]:
        """Return the counts up to now."""
        family: Any
        [family] = self.describe()
        for labels, number in calls.counts().items():
            family.add_metric(labels, number)
        return [family]


def text(desk: Desk) -> str:
    """Return the metrics as the text that Prometheus reads."""
    from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - an extra

    registry = CollectorRegistry()
    registry.register(Collector(desk))
    return generate_latest(registry).decode()


def _families() -> tuple[dict[str, Any], Any]:
    from prometheus_client import core  # noqa: PLC0415 - an extra

    kinds = {
        "gauge": core.GaugeMetricFamily,
        "counter": core.CounterMetricFamily,
        "histogram": core.HistogramMetricFamily,
    }
    made = {
        name: kinds[metric.kind](name, metric.help, labels=metric.labels)
        for name, metric in ALL.items()
    }
    return made, made["redrive_attempt_duration_seconds"]


def gauges(desk: Desk) -> Iterator[Sample]:
    """Ask the store how things stand."""
    yield "redrive_info", (__version__, desk.store.durability), 1
    counts = desk.jobs.counts()
    for count in counts:
        yield "redrive_jobs", (count.state, count.lane, count.category or ""), count.jobs
    now = desk.store.now()
    for name, state in (
        ("redrive_due_lag_seconds", State.PENDING),
        ("redrive_dead_oldest_age_seconds", State.DEAD),
    ):
        for lane, oldest in oldest_by_lane(counts, state).items():
            yield name, (lane,), max(0.0, now - oldest)
    for pause in desk.lanes.pauses():
        yield "redrive_lane_paused", (pause.lane,), 1
    for lane in desk.lanes.unserved(counts):
        yield "redrive_lane_unserved", (lane,), 1
    statuses = Counter(group.record.status for group in desk.groups.find(limit=GROUPS))
    for status in ("open", "regressed", "resolved"):
        yield "redrive_groups", (status,), statuses[status]
    live = Counter(run.phase for run in desk.runs.live(counted=False))
    for phase, number in live.items():
        yield "redrive_runs", (phase,), number
    workers = desk.lanes.workers()
    yield "redrive_workers", (), len(workers)
    if workers:
        yield "redrive_worker_heartbeat_age_seconds", (), max(worker.silent for worker in workers)


def _durations(total: counters.Counts) -> dict[str, tuple[list[tuple[str, float]], float]]:
    """Return for each lane the attempts that took at most so long, and the seconds of all."""
    lanes: dict[str, dict[str, float]] = defaultdict(dict)
    for (what, *labels), value in total.items():
        if what == "bucket":
            lanes[labels[0]][labels[1]] = value
    return {
        lane: (
            list(
                zip(counters.LE, accumulate(took.get(le, 0.0) for le in counters.LE), strict=True)
            ),
            total.get(("seconds", lane), 0.0),
        )
        for lane, took in lanes.items()
    }
