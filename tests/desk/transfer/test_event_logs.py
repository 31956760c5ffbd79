"""R-EVENTS 3, 4: log files of the program whose event stream this is, where each retry has a new id.

The lines have the shape of that program's own: log lines without a status, retries that a later line
names in `recovery_actions`, dead letters in a file of their own, times without a zone.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exchangekit import Record, jobs, lines, out, take
from redrive import Redrive
from redrive.contrib.event_stream import ResilientEventStream
from redrive.jobs.job import Category, Job, Reason, State
from redrive.testing import ManualClock

_serial = itertools.count(1)


def told(second: float, status: str | None, **more: Any) -> Record:
    """One line; without a status it is a line of the log alone."""
    line: Record = {
        "event_id": f"EVT-20251107-1138{int(second):02d}-{next(_serial):06x}",
        "timestamp": f"2025-11-07T11:38:{second:09.6f}",
        "event_type": "action",
        "source": "demo",
        "data": {"attempted_action": "fetch"},
        "parent_event_id": None,
        "related_hypothesis_id": None,
        "tags": ["demo"],
    }
    if status is None:
        return {**line, **more}
    usual = {"error_info": {}, "retry_info": {}, "recovery_actions": []}
    return {**line, "importance": 3, "status": status, **usual, "latency_ms": 0, **more}


def error(count: int, most: int, kind: str = "TimeoutError") -> Record:
    return {
        "category": "transient",
        "message": "no answer",
        "type": kind,
        "stacktrace": "Traceback …",
        "context": {"retry_count": count, "max_retries": most},
    }


def retries(second: float, number: int, most: int = 3, wait: float = 0.9) -> list[Record]:
    """The lines of so many failed attempts, a second apart, each with an id of its own."""
    return [
        told(
            second + one,
            "retrying",
            error_info=error(one, most),
            retry_info={
                "count": one + 1,
                "max_retries": most,
                "next_retry_at": f"2025-11-07T11:38:{second + one + wait:09.6f}",
                "backoff_seconds": wait,
            },
        )
        for one in range(number)
    ]


def named(before: list[Record]) -> list[Record]:
    """What the line that ends an event says of the retries before it."""
    return [
        {"timestamp": one["timestamp"], "action": "backoff", "event_id": one["event_id"]}
        for one in before
    ]


def recovered(second: float) -> list[Record]:
    before = retries(second, 2)
    done = told(second + 2, "success", data={"ok": True}, recovery_actions=named(before))
    return [*before, done]


def died(second: float) -> tuple[list[Record], Record]:
    """The lines in the stream, and the dead letter in its own file."""
    before = retries(second, 2, most=2)
    exhausted = {"count": 2, "max_retries": 2, "exhausted": True}
    dead = told(
        second + 2,
        "dead_letter",
        error_info=error(2, 2),
        retry_info=exhausted,
        recovery_actions=named(before),
    )
    return before, dead


def old_dead_letter(event_id: str) -> Record:
    """As the program wrote them first."""
    return {
        "event_id": event_id,
        "timestamp": "2025-11-07T11:38:59.100000",
        "error_type": "ValueError",
        "error_message": "400 for u1",
        "error_category": "validation",
        "retry_count": 0,
        "context": {"action": "fetch_specs", "database": "specs"},
    }


def states(app: Redrive) -> dict[str, int]:
    found: dict[str, int] = {}
    for job in jobs(app).values():
        found[job.state.value] = found.get(job.state.value, 0) + 1
    return found


def ran(app: Redrive) -> list[object]:
    """Run what is due; gives the data of each event that was."""
    seen: list[object] = []
    for name in {job.handler for job in app.desk.jobs.each()}:
        app.handler(name)(lambda **data: seen.append(data))
    app.run_due()
    return seen


WAITING = {"action": "still to be done"}


def stream_and_dead_letters() -> tuple[list[Record], list[Record]]:
    """A stream with everything in it, in which one event waits, and the dead letters."""
    inside, dead = died(20)
    failed = retries(30, 1)
    no_help = told(31, "failed", error_info=error(1, 3, "ValueError"))  # names no retry
    stream = [
        told(1, None),
        told(2, None, data={"status": "error"}),
        *recovered(10),
        *inside,
        *failed,
        no_help,
        told(40, "failed", error_info=error(0, 3)),
        told(50, "pending", data=WAITING),
        told(51, "success"),
    ]
    return stream, [dead]


def test_lines_without_a_status_are_counted_and_are_no_jobs() -> None:
    empty = {**told(2, "pending"), "status": None}
    app, fates = take(lines(told(1, None), empty, told(3, "pending")))
    assert [one.fate for one in fates] == ["ignored", "ignored", "added"]
    assert fates[0].reason == "has no status"
    assert states(app) == {"pending": 1}


def test_an_event_retried_under_new_ids_and_recovered_is_one_finished_event() -> None:
    data = recovered(10)
    app, fates = take(lines(*data))
    assert [one.fate for one in fates] == ["added", "folded", "folded"]
    [job] = jobs(app).values()
    assert (job.state, job.attempts, job.tags) == (State.COMPLETED, 3, (data[-1]["event_id"],))
    assert [one.number for one in job.history] == [1, 2]
    again, _ = take(out(app, "events"))
    assert jobs(again) == jobs(app)


def test_retries_that_no_line_names_are_one_event_by_their_numbers() -> None:
    """A process that was killed, and an error that no retry can help: it names no retries."""
    app, _ = take(lines(*retries(10, 2)))
    [job] = jobs(app).values()
    assert (job.state, job.attempts) == (State.PENDING, 2)
    failed = told(12, "failed", error_info=error(2, 3, "ValueError"))
    app, _ = take(lines(*retries(10, 2), failed))
    [job] = jobs(app).values()
    assert (job.state, job.reason, job.attempts) == (State.DEAD, Reason.PERMANENT, 3)


def test_two_events_alike_at_one_time_stay_two() -> None:
    one, two = retries(10, 3), retries(10.05, 3)
    app, _ = take(lines(*(line for pair in zip(one, two, strict=True) for line in pair)))
    assert [job.attempts for job in jobs(app).values()] == [3, 3]


ORDERS = ["both", "stream first", "dead letters first"]


def files_of(stream: list[Record], dead: list[Record], order: str) -> list[bytes]:
    return {
        "both": [lines(*stream, *dead)],
        "stream first": [lines(*stream), lines(*dead)],
        "dead letters first": [lines(*dead), lines(*stream)],
    }[order]


@pytest.mark.parametrize("order", ORDERS)
def test_events_alike_that_overlap_end_one_by_one(order: str) -> None:
    """X2: the names that a line gives come before guesses by number, whichever file has them."""
    done, dies, waits = (retries(second, 2, wait=0.1) for second in (10.5, 10, 10.7))
    success = told(14, "success", recovery_actions=named(done))
    dead = told(15, "dead_letter", error_info=error(2, 3), recovery_actions=named(dies))
    stream = sorted([*done, *dies, *waits, success], key=lambda one: str(one["timestamp"]))
    app = Redrive("memory:", clock=ManualClock(2_000_000_000))
    files = files_of(stream, [dead], order)
    for file in [*files, *files]:
        take(file, app)
    assert states(app) == {"pending": 1, "completed": 1, "dead": 1}
    assert [job.attempts for job in jobs(app).values() if job.state is State.PENDING] == [2]


@pytest.mark.parametrize("order", ORDERS)
def test_a_pass_runs_exactly_what_was_still_waiting(order: str) -> None:
    """X2, X6: whichever file comes first, and however often."""
    stream, dead = map(list, stream_and_dead_letters())
    files = files_of(stream, dead, order)
    app = Redrive("memory:", clock=ManualClock(2_000_000_000))
    for file in files:
        take(file, app)
    assert states(app) == {"pending": 1, "completed": 2, "dead": 3}
    before = jobs(app)
    for file in files:
        assert {one.fate for one in take(file, app)[1]} <= {"known", "ignored"}
    assert jobs(app) == before
    assert ran(app) == [WAITING]


def test_what_waited_becomes_what_a_later_file_says_of_it() -> None:
    inside, dead = died(20)
    app, _ = take(lines(*inside))
    assert states(app) == {"pending": 1}
    _, [fate] = take(lines(dead), app)
    assert (fate.fate, fate.ended) == ("known", 1)
    [job] = jobs(app).values()
    assert (job.state, job.reason, job.attempts) == (State.DEAD, Reason.EXHAUSTED, 3)
    assert job.failure is not None
    assert (job.failure.message, job.group) == ("no answer", 1)


def test_what_a_person_drives_again_is_not_ended_by_the_same_file() -> None:
    _, dead = died(20)
    app, _ = take(lines(dead))
    app.desk.retry(state="dead", reason="mended")
    _, [fate] = take(lines(dead), app)
    assert (fate.fate, fate.ended) == ("known", 0)
    assert states(app) == {"pending": 1}


def old(app: Redrive) -> Job:
    [job] = [job for job in jobs(app).values() if job.state is State.DEAD]
    return job


def test_an_old_dead_letter_with_seven_fields_is_read() -> None:
    app, [fate] = take(lines(old_dead_letter("EVT-1")))
    assert (fate.fate, fate.reason) == ("added", "")
    job = old(app)
    assert (job.handler, job.reason, job.attempts) == ("fetch_specs", Reason.PERMANENT, 1)
    assert json.loads(job.payload) == {"action": "fetch_specs", "database": "specs"}
    assert job.failure is not None
    assert (job.failure.category, job.failure.type) == (Category.INVALID, "ValueError")
    again, _ = take(out(app, "events"))
    assert jobs(again) == jobs(app)


@pytest.mark.parametrize("at_once", [True, False])
def test_an_old_dead_letter_ends_the_event_it_is_about(*, at_once: bool) -> None:
    waiting = told(50, "pending", data=WAITING)
    dead = old_dead_letter(waiting["event_id"])
    app, _ = take(lines(waiting, dead) if at_once else lines(waiting))
    if not at_once:
        take(lines(dead), app)
    assert states(app) == {"dead": 1}
    assert (old(app).handler, json.loads(old(app).payload)) == ("action", WAITING)
    _, fates = take(lines(waiting, dead), app)
    assert {one.fate for one in fates} == {"known"}


def test_failed_events_are_those_of_that_program(tmp_path: Path) -> None:
    """R-EVENTS 4: the lines with that status, newest first."""
    stream, _ = stream_and_dead_letters()
    place = tmp_path / "event_stream.jsonl"
    place.write_bytes(lines(*stream))
    with ResilientEventStream(place, tmp_path / "d.jsonl") as found:
        expected = [line for line in stream if line.get("status") == "failed"][::-1]
        assert found.get_failed_events() == expected
        assert found.get_failed_events(limit=1) == expected[:1]


def test_dead_letters_of_both_shapes_at_the_store_s_path_are_adopted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, dead = died(20)
    place = tmp_path / "dead_letter_queue.jsonl"
    place.write_bytes(lines(old_dead_letter("EVT-1"), dead, told(1, None), told(5, "pending")))
    with ResilientEventStream(tmp_path / "s.jsonl", place) as stream:
        assert {one["event_id"] for one in stream.get_dead_letter_queue()} == {
            "EVT-1",
            dead["event_id"],
        }
    assert "3 jobs imported (waiting: 1 of action)" in caplog.text
    assert "1 log lines ignored" in caplog.text


def test_an_age_counts_from_the_import_after_a_long_time() -> None:
    clock = ManualClock(2_000_000_000)
    app, _ = take(lines(told(5, "pending")), Redrive("memory:", clock=clock))
    [job] = jobs(app).values()
    assert job.since == clock.now() > job.created


KILLED = """
import os, signal, sys
from pathlib import Path
from redrive import Redrive
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.formats.times import local
verb, left, store, *files = sys.argv[1:]
app = Redrive(store)
usual, left = getattr(app.store, verb), int(left)
def call(*args, **more):
    global left
    left -= 1
    if left < 0: os.kill(os.getpid(), signal.SIGKILL)
    return usual(*args, **more)
setattr(app.store, verb, call)
for file in files:
    for _ in app.desk.transfer.import_lines(Path(file).open("rb"), asked=TransferOptions(zone=local)): pass
app.close()
"""


@pytest.mark.parametrize("url", ["a.db", "jsonl:a.jsonl"])
@pytest.mark.parametrize(("verb", "number"), [("add", 0), ("add", 1), ("claim", 0), ("settle", 0)])
def test_killed_in_the_middle_and_imported_again_it_is_as_if_nothing_happened(
    tmp_path: Path, url: str, verb: str, number: int
) -> None:
    """X2, F112."""
    stream, dead = stream_and_dead_letters()
    (tmp_path / "s").write_bytes(lines(*stream))
    (tmp_path / "d").write_bytes(lines(*dead, told(55, "success")))
    words = [sys.executable, "-c", KILLED, verb, str(number), url, "s", "d"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    scheme, _, name = url.rpartition(":")
    with Redrive(f"{scheme}:{tmp_path / name}" if scheme else tmp_path / name) as app:
        for file in ("s", "d"):
            take((tmp_path / file).read_bytes(), app)
        assert states(app) == {"pending": 1, "completed": 3, "dead": 3}
        assert ran(app) == [WAITING]
