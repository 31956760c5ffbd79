"""W7: one line for a monitor, with the exit codes monitors have agreed on."""

from __future__ import annotations

import json
import re

import pytest

from kit import START, make_job
from shopkit import HOUR, Shop, dead_letter, name

LINE = re.compile(r"(OK|WARNING|CRITICAL|UNKNOWN) [^|\n]+( \| (\S+=\S+ ?)+)?\n")


def test_a_store_in_order_is_ok_and_has_figures(empty: Shop) -> None:
    assert empty.run("init").exit_code == 0
    done = empty.run("check")
    assert done.exit_code == 0
    assert done.stdout == (
        "OK dead=0 oldest=0s growth=0/m unserved=0 silent=0 blocked=0 | dead=0;0;;0 "
        "oldest=0s;;;0 growth=0;;;0 unserved=0;0;;0 silent=0;0;;0 blocked=0;0;;0\n"
    )


def test_a_blocked_event_loop_is_a_warning_and_status_names_the_job(empty: Shop) -> None:
    assert empty.run("init").exit_code == 0
    sign = {"host": "w1", "pid": 7, "lanes": ["pay"]}
    by = {"job": "J1", "handler": "pay", "since": empty.clock.now() - 5}
    with empty.app() as app:
        app.store.note("worker:a", json.dumps({**sign, "blocked": by}), expires_in=60)
    done = empty.run("check", "--max-dead", "5")
    assert (done.exit_code, "blocked=1" in done.stdout) == (1, True)
    said = empty.run("status").stdout
    assert "worker w1:7: job J1 (pay) has blocked the event loop for 5s" in said
    assert "healthy" not in said


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 1),
        (["--max-dead", "4"], 0),
        (["--max-dead", "3"], 2),
        (["--max-dead", "3,4"], 1),
        (["--max-dead", "4,10"], 0),
        (["--max-dead", "1,2"], 2),
        (["--max-age", "2d"], 0),
        (["--max-age", "1h"], 2),
        (["--max-age", "1h,2d"], 1),
        (["--max-growth", "0/m"], 0),
        (["--max-unserved", "1"], 0),
        (["--max-unserved", "0"], 2),
        (["--max-dead", "9", "--max-age", "1h,2d", "--max-unserved", "1"], 1),
    ],
)
def test_the_worst_limit_that_is_passed_decides(shop: Shop, options: list[str], code: int) -> None:
    done = shop.run("check", *options)
    assert done.exit_code == code, done.output
    assert LINE.fullmatch(done.stdout)
    assert done.stdout.startswith(("OK ", "WARNING ", "CRITICAL ")[code])


def test_a_dead_letter_that_was_edited_or_reopened_keeps_its_age(empty: Shop) -> None:
    at = empty.clock.now() - 2 * HOUR
    empty.add(*(dead_letter(n, updated=at, finished=at) for n in (1, 2)))
    with empty.app() as app:
        app.desk.edit(name(1), '{"n":1}')
        app.desk.resolve(name(2))
        app.desk.reopen(name(2))
    assert "oldest=7200s" in empty.run("check").stdout
    assert empty.run("check", "--max-age", "1h").exit_code == 2


def test_growth_is_counted_over_ten_minutes(empty: Shop) -> None:
    now = empty.clock.now()
    times = [now - 30] * 15 + [now - 500] * 5 + [now - 700] * 50
    jobs = [dead_letter(n, updated=at, finished=at) for n, at in enumerate(times)]
    empty.add(*jobs)
    assert "growth=2/m" in empty.run("check").stdout
    assert empty.run("check", "--max-growth", "2/m").exit_code == 0
    assert empty.run("check", "--max-growth", "1.9/m").exit_code == 2
    assert empty.run("check", "--max-growth", "119/h").exit_code == 2


def test_an_unserved_lane_is_a_lane_with_due_jobs(empty: Shop) -> None:
    empty.add(
        make_job(name(1), due=START), make_job(name(2), handler="later", due=START + 99 * HOUR)
    )
    done = empty.run("check", "--max-unserved", "0", "--json")
    assert done.exit_code == 2
    figures = json.loads(done.stdout)["data"]["figures"]
    assert figures["unserved"] == {"value": 1, "warn": None, "crit": 0.0, "level": 2}


def test_a_silent_worker_is_shown(empty: Shop) -> None:
    """F41: one gives a sign of life every ten seconds; what a pass left behind is none."""
    signs = {"worker:old": (30, 12), "worker:new": (30, 29), "worker:pass": (90_000, 80_000)}
    with empty.app() as app:
        for note, (lasts, left) in signs.items():
            value = json.dumps({"pid": 7, "host": "h", "lanes": [], "lasts": lasts})
            app.store.note(note, value, expires_in=left)
    done = empty.run("check")
    assert (done.exit_code, "silent=1" in done.stdout) == (1, True)
    assert empty.run("check", "--max-silent", "1").exit_code == 0
    assert empty.run("check", "--max-silent", "0").exit_code == 2
    said = empty.run("status").stdout
    assert "worker 7 on h sent no heartbeat for 18s" in said
    workers = json.loads(empty.run("status", "--json").stdout)["data"]["workers"]
    assert sorted(one["silent_seconds"] for one in workers) == [1, 18]


@pytest.mark.parametrize(
    "options",
    [
        ["--max-dead", "many"],
        ["--max-dead", "-1"],
        ["--max-dead", "9,1"],
        ["--max-age", "soon"],
        ["--max-growth", "10"],
        ["--max-growth", "10/w"],
        ["--max-unserved", ""],
        ["--store", "not-there.db"],
    ],
)
def test_what_cannot_be_told_is_unknown(shop: Shop, options: list[str]) -> None:
    done = shop.run("check", *options)
    assert done.exit_code == 3, done.output
    assert done.stdout.startswith("UNKNOWN ")
    assert LINE.fullmatch(done.stdout)
