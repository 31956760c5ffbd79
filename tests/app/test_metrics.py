"""What a scrape tells, where it can be had, and that every metric is documented."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kit import START, make_failure, make_job
from redrive import Reason, Redrive, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.metrics import Collector, text
from redrive.testing import ManualClock
from webkit import Web
from workkit import until

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def app(clock: ManualClock, tmp_path: Path) -> Iterator[Redrive]:
    with Redrive(tmp_path / "jobs.db", clock=clock) as made:
        yield made


def kill(app: Redrive, number: int, *, cause: str = "down", lane: str = "mail") -> None:
    now = app.store.now()
    app.store.add(
        [
            make_job(
                f"dead{cause}{now}{one}",
                handler=lane,
                state=State.DEAD,
                reason=Reason.EXHAUSTED,
                finished=now,
                died_at=now,
                updated=now,
                failure=make_failure("transient", cause=cause),
                attempts=3,
            )
            for one in range(number)
        ]
    )


def seen(app: Redrive, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one metric, by the values of its labels."""
    return {
        tuple(one.labels.values()): one.value
        for family in text_string_to_metric_families(text(app.desk))
        for one in family.samples
        if one.name == name
    }


def test_jobs_and_ages(app: Redrive, clock: ManualClock) -> None:
    kill(app, 3)
    clock.advance(60)
    kill(app, 2, lane="pay")
    app.store.add(
        [make_job("late"), make_job("early", due=START + 500), make_job("b", handler="b")]
    )
    clock.advance(40)
    assert seen(app, "redrive_jobs") == {
        ("transient", "mail", "dead"): 3,
        ("transient", "pay", "dead"): 2,
        ("", "mail", "pending"): 2,
        ("", "b", "pending"): 1,
    }
    assert seen(app, "redrive_dead_oldest_age_seconds") == {("mail",): 100, ("pay",): 40}
    assert seen(app, "redrive_due_lag_seconds") == {("mail",): 100, ("b",): 100}
    assert seen(app, "redrive_lane_unserved") == {("mail",): 1, ("b",): 1}


def test_a_job_that_is_not_due_yet_is_not_late(app: Redrive) -> None:
    app.store.add([make_job("early", due=START + 500)])
    assert seen(app, "redrive_due_lag_seconds") == {("mail",): 0}
    assert seen(app, "redrive_lane_unserved") == {}


def test_causes_by_what_people_said_of_them(app: Redrive, clock: ManualClock) -> None:
    for cause in ("one", "two", "three"):
        kill(app, 2, cause=cause)
    clock.advance(10)
    for group in app.desk.groups.find(limit=2):
        app.desk.groups.mark(group, resolved=True)
    clock.advance(10)
    kill(app, 1, cause=app.desk.groups.find(limit=1)[0].title.removeprefix("SomeError: "))
    found = seen(app, "redrive_groups")
    assert found == {("open",): 1, ("regressed",): 1, ("resolved",): 1}


def test_pauses_and_runs(app: Redrive) -> None:
    kill(app, 3)
    app.desk.lanes.pause("mail")
    app.desk.runs.start("state:dead")
    assert seen(app, "redrive_lane_paused") == {("mail",): 1}
    assert seen(app, "redrive_runs") == {("live",): 1}


def test_workers_and_how_long_they_are_silent(tmp_path: Path) -> None:
    with Redrive(tmp_path / "jobs.db") as app:
        assert seen(app, "redrive_workers") == {(): 0}
        app.run_due()  # a pass is no worker, though its note lasts a day
        with app.worker():
            until(lambda: seen(app, "redrive_workers") == {(): 1})
            (age,) = seen(app, "redrive_worker_heartbeat_age_seconds").values()
            assert age >= 0
        assert seen(app, "redrive_workers") == {(): 0}


def test_how_long_attempts_took_adds_up(app: Redrive) -> None:
    @app.handler("mail", attempts=1)
    def mail() -> None: ...

    for _ in range(3):
        mail.submit()
    app.run_due()
    name = "redrive_attempt_duration_seconds"
    buckets = list(seen(app, f"{name}_bucket").values())
    assert buckets == sorted(buckets), "each has those of the one before"
    assert buckets[-1] == seen(app, f"{name}_count")["mail",] == 3


def test_registered_in_a_program_of_ones_own(app: Redrive) -> None:
    registry = CollectorRegistry(auto_describe=True)
    collector = Collector(app.desk)
    registry.register(collector)
    kill(app, 1)
    assert 'redrive_jobs{category="transient",lane="mail",state="dead"} 1.0' in (
        generate_latest(registry).decode()
    )
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(Collector(app.desk))


def test_over_http_with_a_token_that_may_read(app: Redrive) -> None:
    kill(app, 2)
    answer = Web(app).ask("GET", "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'redrive_jobs{category="transient",lane="mail",state="dead"} 2.0' in answer.text
    assert Web(app).ask("GET", "/metrics", token=None).status_code == 401


def test_on_the_command_line(app: Redrive, clock: ManualClock, tmp_path: Path) -> None:
    kill(app, 2)
    words = ["metrics", "--prometheus", "--store", str(tmp_path / "jobs.db")]
    shown = CliRunner().invoke(root, words, obj=Cli(clock))
    assert shown.exit_code == 0
    assert shown.stdout == text(app.desk)


def test_without_the_extra_it_says_what_to_install(
    app: Redrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.store.now()
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    words = ["metrics", "--prometheus", "--store", str(tmp_path / "jobs.db")]
    shown = CliRunner().invoke(root, words, obj=Cli())
    assert shown.exit_code == 1
    assert "redrive[metrics]" in shown.stderr
    assert Web(app).ask("GET", "/metrics").status_code == 404
