"""When a run lets how many jobs go, and when it stops; pure rules, so in tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redrive import State
from redrive.errors import UsageError
from redrive.runs import rules, run_records
from redrive.runs.run_records import Counts, Run, Spec
from redrive.stores.contract import Members
from tablekit import each_row

NOW = 1000.0


def make_run(*, released: int = 0, passed: bool = False, total: int = 1000, **spec: object) -> Run:
    made = Run(number=12, by="ada", created=0.0, phase="live", total=total, released=released)
    return replace(made, passed=passed, spec=Spec(**spec))  # type: ignore[arg-type]


# stop_on, canary, passed, released, succeeded, failed, in work, waiting: why it stops.
STOPS: list[tuple[str, int, bool, int, int, int, int, int, str]] = [
    ("", 0, False, 500, 0, 500, 0, 500, ""),  # nobody asked it to stop
    ("10%", 0, False, 9, 0, 9, 0, 991, ""),  # nine say nothing yet
    ("10%", 0, False, 10, 9, 1, 0, 990, "1 of 10 failed again"),
    ("10%", 0, False, 11, 10, 1, 0, 989, ""),
    ("0.5%", 0, False, 100, 100, 0, 0, 900, ""),
    ("3", 0, False, 3, 1, 2, 0, 997, ""),
    ("3", 0, False, 3, 0, 3, 0, 997, "3 of 3 failed again"),
    ("3", 0, False, 1000, 0, 1000, 0, 0, ""),  # there is nothing left to stop
    ("", 3, False, 3, 3, 0, 0, 997, ""),
    ("", 3, False, 3, 2, 1, 0, 997, "1 of 3 canary jobs failed again"),
    ("", 3, False, 3, 0, 2, 1, 997, ""),  # the whole canary is awaited
    ("50%", 3, False, 3, 2, 1, 0, 997, ""),  # allowed
    ("30%", 3, False, 3, 2, 1, 0, 997, "1 of 3 canary jobs failed again"),
    ("2", 3, False, 3, 2, 1, 0, 997, ""),
    ("2", 3, False, 3, 1, 2, 0, 997, "2 of 3 canary jobs failed again"),
    ("2", 3, True, 9, 7, 2, 0, 990, "2 of 9 failed again"),
    ("10%", 50, True, 60, 40, 9, 0, 940, ""),  # a share waits for as many as the canary had
    ("10%", 50, True, 60, 51, 9, 0, 940, "9 of 60 failed again"),
]


@each_row("row", STOPS)
def test_when_a_run_stops(row: tuple[str, int, bool, int, int, int, int, int, str]) -> None:
    stop_on, canary, passed, released, succeeded, failed, working, waiting, why = row
    run = make_run(released=released, passed=passed, stop_on=stop_on, canary=canary)
    counts = Counts(succeeded=succeeded, failed=failed, working=working, waiting=waiting)
    assert rules.stops(run, counts) == why


@each_row(
    "spec, counts, why",
    [
        ({"canary": 3}, Counts(waiting=9, working=3, failing=1, succeeded=0), ""),
        ({"canary": 3}, Counts(waiting=9, working=1, failing=1, succeeded=2), "1 of 3 canary jobs"),
        ({"canary": 3, "stop_on": "2"}, Counts(waiting=9, working=1, failing=1, succeeded=2), ""),
        ({"stop_on": "2"}, Counts(waiting=9, working=2, failing=1, failed=1), "2 of 2 failed"),
        ({"stop_on": "2"}, Counts(waiting=0, working=2, failing=1, failed=1), ""),
        ({"stop_on": "10%"}, Counts(waiting=9, working=4, failing=4, failed=5), ""),
        ({"stop_on": "10%"}, Counts(waiting=9, working=5, failing=5, failed=5), "10 of 10 failed"),
    ],
)
def test_a_failed_first_attempt_counts_before_its_retries_are_over(
    spec: dict[str, object], counts: Counts, why: str
) -> None:
    found = rules.stops(make_run(released=3, **spec), counts)
    assert why in found
    assert bool(found) == bool(why)


@each_row(
    "spec, released, passed, counts, number",
    [
        ({}, 0, False, Counts(waiting=5000), 1000),
        ({}, 0, False, Counts(waiting=7), 7),
        ({}, 1000, False, Counts(waiting=4000, working=400), 600),
        ({}, 1000, False, Counts(waiting=4000, working=1000), 0),
        # Those that failed and wait for hours hold up nobody.
        ({}, 1000, False, Counts(waiting=4000, working=1000, failing=900), 900),
        ({"canary": 3}, 0, False, Counts(waiting=9), 3),
        ({"canary": 3}, 1, False, Counts(waiting=8, working=1), 2),
        ({"canary": 3}, 3, False, Counts(waiting=6, working=1), 0),
        ({"canary": 3}, 3, False, Counts(waiting=6, succeeded=3), 6),
        ({"canary": 3}, 3, False, Counts(waiting=6, succeeded=2, working=1, failing=1), 6),
        ({"canary": 30}, 0, False, Counts(waiting=9), 9),
        ({"rate": 16.0}, 0, False, Counts(waiting=5000), 32),
        ({"rate": 2000.0}, 0, False, Counts(waiting=9000), 4000),
        ({"rate": 20.0}, 0, False, Counts(waiting=5000, working=990), 10),
        ({"rate": 0.1}, 0, False, Counts(waiting=5000), 1),
        ({"rate": 20.0, "ramp": True}, 0, False, Counts(waiting=5000), 4),
        ({"rate": 16.0, "canary": 3}, 3, True, Counts(waiting=500), 32),
    ],
)
def test_how_many_jobs_are_let_go(
    spec: dict[str, object], released: int, passed: bool, counts: Counts, number: int
) -> None:
    run = make_run(released=released, passed=passed, **spec)
    _, delays = rules.due(run, counts, NOW)
    assert len(delays) == number
    assert delays == sorted(delays)
    assert all(0 <= delay < rules.AHEAD for delay in delays)


def test_a_rate_is_kept_over_many_looks_and_lost_time_is_not_made_up_for() -> None:
    run, gone, now = make_run(rate=16.0), 0, NOW
    for _ in range(100):
        run, delays = rules.due(run, Counts(waiting=10_000), now)
        gone += len(delays)
        now += 1.0
    assert gone == pytest.approx(16 * 101, abs=17)
    _, delays = rules.due(run, Counts(waiting=10_000), now + 3600)
    assert len(delays) == 32


def test_a_slow_rate_lets_one_go_and_then_waits() -> None:
    run, delays = rules.due(make_run(rate=0.1), Counts(waiting=9), NOW)
    assert delays == [0.0]
    assert rules.due(run, Counts(waiting=8), NOW + 7.9)[1] == []
    assert rules.due(run, Counts(waiting=8), NOW + 8.5)[1] == [1.5]


@each_row("passed, speed", [(0, 2), (9, 2), (10, 4), (25, 8), (30, 16), (40, 20), (9999, 20)])
def test_a_ramp_doubles_up_to_the_rate(passed: float, speed: float) -> None:
    assert rules.speed(Spec(ramp=True), 20.0, passed) == speed
    assert rules.speed(Spec(), 20.0, passed) == 20


def test_the_parts_of_a_run_add_up_to_what_was_frozen() -> None:
    run = replace(make_run(released=60, total=100), groups=(7,))
    waiting = Members({State.DEAD: 25, State.RUNNING: 5, State.COMPLETED: 4}, 0, {}, [])
    states = {State.PENDING: 6, State.RUNNING: 4, State.DEAD: 8, State.RESOLVED: 2}
    out = Members({**states, State.COMPLETED: 30}, 3, {7: 5, 9: 2}, [])
    counts = run_records.tallied(run, waiting, out)
    assert (counts.waiting, counts.working, counts.failing) == (30, 10, 3)
    assert (counts.failed, counts.closed, counts.succeeded) == (8, 2, 40)
    assert (counts.same, dict(counts.new)) == (6, {9: 2})
    assert (counts.left, counts.alone) == (10, 4)
    assert run.total == sum(
        (
            counts.waiting,
            counts.working,
            counts.succeeded,
            counts.failed,
            counts.closed,
            counts.left,
        )
    )


@each_row(
    "text, rate",
    [("20/s", 20.0), ("30/m", 0.5), ("36/h", 0.01), ("2.5", 2.5), (" 5 / s ", 5.0), (7, 7.0)],
)
def test_rates_as_people_write_them(text: float | str, rate: float) -> None:
    assert rules.rate_of(text) == pytest.approx(rate)


@each_row("text", ["", "0/s", "fast", "20/d", "-1", "1e9/s", "nan"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="20/s"):
        rules.rate_of(text)


@each_row(
    "said",
    [
        {"stop_on": "ten"},
        {"stop_on": "0"},
        {"stop_on": "0%"},
        {"stop_on": "101%"},
        {"stop_on": "-5"},
        {"stop_on": "1.5"},
        {"ramp": True},
        {"canary": -1},
    ],
)
def test_a_spec_that_would_not_do_what_it_seems_to_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        rules.spec_of(**{"ramp": False, "stop_on": "", **said})  # type: ignore[arg-type]


@each_row("value", [12, "12", "R12", "r12", make_run()])
def test_a_run_is_named_in_several_ways(value: int | str | Run) -> None:
    assert run_records.number_of(value) == 12


@each_row("value", ["", "R", "G12", "R1.5", "R-1", "Ⅻ"])
def test_what_names_no_run_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="R1"):
        run_records.number_of(value)


def test_a_run_is_read_back_as_it_was_written() -> None:
    run = replace(
        make_run(canary=3, rate=0.5, stop_on="10%"),
        skipped={"is running": 2},
        samples=(("a", "is running"),),
        groups=(1, 2),
        ended=5.0,
        counts=Counts(succeeded=4, new={9: 1}),
    )
    assert run_records.read(run_records.written(run)) == run


@each_row("text", ["", "[]", "{}", "null", '{"number": 1}', '{"counts": 7}', "{"])
def test_a_note_that_nobody_can_read_is_no_run(text: str) -> None:
    assert run_records.read(text) is None
