"""R-EVENTS 2-4: a failing event is a job, seen by commands, kept by a kill -9, named by its id."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from eventkit import Failing, Setting
from redrive import GiveUp, Job, Keep, Policy, Redrive, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.contrib.event_stream import EventStatus
from redrive.desk.status import status_of
from redrive.errors import JobNotFound, StoreFull, UsageError
from redrive.strategies import ConstantBackoffStrategy

Seen = list[tuple[Any, ...]]


def store_of(setting: Setting) -> str:
    return f"jsonl:{setting.folder / 'dead.jsonl'}"


def run(setting: Setting, *words: str) -> Result:
    cli = Cli()
    cli.clock = setting.clock
    return CliRunner().invoke(root, [*words, "--store", store_of(setting)], obj=cli)


def test_r_events_2_while_it_is_retried_commands_count_and_show_it(setting: Setting) -> None:
    seen: Seen = []

    def look(_: float) -> None:
        with Redrive(store_of(setting), clock=setting.clock, read_only=True) as people:
            status = status_of(people.desk)
            waiting = people.desk.jobs.find(state="pending", failed=True).jobs
            seen.append((status.failed, [job.event for job in waiting]))
        seen.append((run(setting, "failed").stdout.count("\tEVT-"),))
        seen.append(("healthy" in run(setting, "status").stdout,))

    stream = setting.stream(max_retries=1, sleep=look)
    event = stream.emit_with_retry("a", "b", Failing(ConnectionError("down")))
    assert seen == [(1, [event]), (1,), (False,)]
    status = status_of(stream.app.desk)
    assert (status.failed, status.total(State.DEAD), status.total(State.COMPLETED)) == (0, 0, 1)


def test_r_events_2_an_event_that_dies_at_once_is_a_death_for_counts_and_listeners(
    setting: Setting,
) -> None:
    stream = setting.stream()
    heard: list[str] = []
    stream.app.on("died", name="mirror")(lambda event: heard.append(event.job.handler))
    stream.emit_with_retry("given-up", "b", Failing(GiveUp("no such customer")))
    stream.emit("elsewhere", "b", {}, status=EventStatus.DEAD_LETTER)
    stream.app.run_due()
    assert heard == ["given-up", "elsewhere"]
    records = stream.app.desk.groups.records().values()
    assert [record.deaths for record in records] == [1, 1]


def test_r_events_2_what_never_failed_is_not_stored(setting: Setting) -> None:
    stream = setting.stream()
    stream.emit_with_retry("a", "b", lambda: None)
    assert stream.app.desk.jobs.find().jobs == []


def test_r_events_2_no_worker_takes_an_event_that_is_retried_in_place(setting: Setting) -> None:
    calls: list[str] = []

    def work(seconds: float) -> None:
        setting.clock.advance(seconds)
        with Redrive(store_of(setting), clock=setting.clock) as worker:
            worker.handler("notify")(lambda: calls.append("worker"))
            assert worker.run_due().taken == 0

    stream = setting.stream(sleep=work)

    @stream.app.handler("notify")
    def notify() -> None:
        calls.append("here")
        if len(calls) < 3:
            raise ConnectionError

    stream.emit_with_retry("a", "b", notify)
    assert calls == ["here"] * 3


def test_r_events_2_an_event_that_somebody_closed_is_not_run_again(setting: Setting) -> None:
    def close(_: float) -> None:
        assert run(setting, "resolve", "state:pending", "--yes", "--reason", "known").exit_code == 0

    action = Failing(ConnectionError(), ConnectionError())
    stream = setting.stream(sleep=close)
    event = stream.emit_with_retry("a", "b", action)
    assert action.calls == 1
    assert stream.app.desk.jobs.get(event).state is State.RESOLVED


def test_r_events_2_a_store_that_is_full_stops_no_retry(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = setting.stream()
    full: Callable[..., Any] = Failing(*[StoreFull("no room")] * 9)
    monkeypatch.setattr(stream.app.store, "add", lambda *_, **__: full())
    action = Failing(ConnectionError(), ConnectionError())
    stream.emit_with_retry("a", "b", action)
    assert action.calls == 3
    assert setting.statuses() == ["pending", "retrying", "retrying", "success"]


def test_r_events_2_ctrl_c_in_a_retry_leaves_a_job_that_can_be_run(setting: Setting) -> None:
    stream = setting.stream()
    errors: list[BaseException] = [ConnectionError(), KeyboardInterrupt()]
    notify = stream.app.handler("notify")(Failing(*errors).__call__)
    with pytest.raises(KeyboardInterrupt):
        stream.emit_with_retry("a", "b", notify)
    (job,) = stream.app.desk.jobs.find().jobs
    assert (job.state, job.attempts) == (State.PENDING, 1)
    setting.clock.advance(60)
    assert stream.app.run_due().succeeded == 1


def test_r_events_2_a_missing_library_is_a_dead_letter_and_not_lost(setting: Setting) -> None:
    def needs() -> None:
        import no_such_library_here  # type: ignore[import-not-found] # noqa: F401, PLC0415

    stream = setting.stream()
    event = stream.emit_with_retry("a", "b", needs)
    (dead,) = stream.get_dead_letter_queue()
    assert dead["event_id"] == event
    assert "no_such_library_here" in dead["error_info"]["message"]


KILLED = """
import os, signal, sys
from pathlib import Path
from redrive.contrib.event_stream import ResilientEventStream
from redrive.testing import ManualClock

where, kind, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
calls = []


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def refresh():
    calls.append(1)
    if where == "action" and len(calls) == 2:
        kill()
    raise ConnectionError("the broker is down")


stream = ResilientEventStream(
    folder / "events.jsonl",
    folder / "dead.jsonl",
    clock=ManualClock(),
    sleep=kill if where == "wait" else lambda _: None,
)
action = stream.app.handler("index.refresh")(refresh) if kind == "handler" else refresh
stream.emit_with_retry("index.refresh", "search", action)
"""


@pytest.mark.parametrize("where", ["wait", "action"])
@pytest.mark.parametrize("kind", ["handler", "function"])
def test_r_events_2_kill_9_in_mid_retry_leaves_something_to_drive_again(
    setting: Setting, where: str, kind: str
) -> None:
    program = setting.folder / "search_events.py"
    program.write_text(KILLED)
    words = [sys.executable, str(program), where, kind, str(setting.folder)]
    ended = subprocess.run(words, timeout=60, check=False)
    assert ended.returncode == -9
    early = setting.stream()
    assert early.get_dead_letter_queue() == [], "its program may still be there"
    early.close()
    setting.clock.advance(100)
    stream = setting.stream()
    told: list[int] = []
    if kind == "handler":
        stream.app.handler("index.refresh")(lambda: told.append(1))
        stream.app.run_due()  # takes it over; a crash is retried later
        setting.clock.advance(100)
        stream.app.run_due()
        assert told == [1]
        assert setting.lines()[-1]["status"] == "success"
        return
    (dead,) = stream.get_dead_letter_queue()
    job = stream.app.desk.jobs.get(dead["event_id"])
    assert (job.state, job.reason) == (State.DEAD, "captured")
    assert (
        job.detail
        == "the program that retried it ended; to run it, call refresh() of search_events"
    )
    assert job.failure is not None
    assert job.failure.message == "the broker is down"
    assert setting.lines()[-1]["status"] == "dead_letter"


def test_r_events_2_recovered_events_stay_for_a_day(setting: Setting) -> None:
    stream = setting.stream()
    keep = Policy(keep=Keep(completed=30 * 86400.0))
    notify = stream.app.handler("notify", policy=keep)(Failing(ConnectionError()).__call__)
    stream.emit_with_retry("of a handler", "b", notify)
    stream.emit_with_retry("of a function", "b", Failing(ConnectionError()))
    setting.clock.advance(86_000)
    assert len(setting.stream().app.desk.jobs.find().jobs) == 2
    setting.clock.advance(1000)
    (left,) = setting.stream().app.desk.jobs.find().jobs
    assert left.handler == "notify"


def test_r_events_2_a_handlers_job_of_the_same_name_is_left_to_its_workers(
    setting: Setting,
) -> None:
    """Both were running when their programs were killed; only one is of a plain function."""
    stream = setting.stream(max_retries=0)
    dead = stream.app.desk.jobs.get(stream.emit_with_retry("a", "b", Failing(ConnectionError())))
    fields = {"state": State.PENDING, "reason": None, "finished": None, "died_at": None}
    jobs = [
        _like(replace(dead, **fields), id=name, event=name, key=name)
        for name in ("FUNCTION", "HANDLER")
    ]
    stream.app.store.add([jobs[0], replace(jobs[1], origin=None)])
    claims = stream.app.store.claim(["a"], limit=2, holder="w", lease_for=9, ignore_waits=True)
    assert len(claims) == 2
    setting.clock.advance(1000)
    again = setting.stream().app
    assert again.get("HANDLER").state is State.RUNNING
    again.handler("a")(lambda: None)
    again.run_due()
    assert again.get("HANDLER").crashes == 1


def test_r_events_3_after_a_redrive_the_log_says_so(setting: Setting) -> None:
    stream = setting.stream(max_retries=0)
    up: list[bool] = []

    @stream.app.handler("notify")
    def notify() -> None:
        if not up:
            raise ConnectionError("down")

    event = stream.emit_with_retry("a", "b", notify)
    stream.app.desk.retry(event, reason="up again")
    up.append(True)
    stream.app.run_due()
    last = [(line["status"], line["recovery_actions"]) for line in setting.lines()[-2:]]
    assert last == [
        ("retrying", ["a person retried it: up again"]),
        ("success", ["it succeeded when it was run again"]),
    ]
    assert {line["event_id"] for line in setting.lines()} == {event}


def test_r_events_3_a_redrive_by_a_worker_of_another_process_is_in_the_log(
    setting: Setting, tmp_path: Path
) -> None:
    setting.stream(max_retries=0).emit_with_retry("a", "b", Failing(ConnectionError("down")))
    (tmp_path / "shop_events.py").write_text(
        "from redrive.contrib.event_stream import ResilientEventStream\n"
        "stream = ResilientEventStream('events.jsonl', 'dead.jsonl')\n"
        "app = stream.app\n"
        "app.handler('a')(lambda: None)\n"
    )
    event = setting.lines()[-1]["event_id"]
    assert run(setting, "retry", event).exit_code == 0
    worked = subprocess.run(
        [sys.executable, "-m", "redrive", "work", "shop_events:app", "--once"],
        cwd=tmp_path,
        timeout=60,
        check=False,
        capture_output=True,
        text=True,
    )
    assert worked.returncode == 0, worked.stderr
    assert (setting.lines()[-1]["event_id"], setting.lines()[-1]["status"]) == (event, "success")


@pytest.mark.parametrize("verb", ["show", "retry", "resolve", "discard", "edit"])
@pytest.mark.parametrize("name", ["event", "key", "id"])
def test_commands_take_a_key_or_an_event_id_for_a_job_id(
    setting: Setting, verb: str, name: str
) -> None:
    stream = setting.stream(max_retries=0)
    event = stream.emit_with_retry("a", "b", Failing(ConnectionError("down")))
    dead = stream.app.desk.jobs.get(event)
    fields = {"id": "01J9ZQ4B7V5X2C8D3E6F1G0H4K", "key": "order:42", "event": "EVT-1"}
    stream.app.store.add([_like(dead, **fields)])
    more = {
        "resolve": ["--reason", "seen", "--yes"],
        "discard": ["--reason", "old", "--yes"],
        "edit": ["--payload", "new.json", "--yes"],
    }
    new = setting.folder / "new.json"
    new.write_text('{"n": 1}')
    words = [str(new) if word == "new.json" else word for word in more.get(verb, [])]
    ended = run(setting, verb, fields[name], *words)
    assert ended.exit_code == 0, ended.output
    after = stream.app.get(fields["id"])
    expected = {"retry": "pending", "resolve": "resolved", "discard": "resolved"}
    assert (after.state, after.edits) == (expected.get(verb, "dead"), int(verb == "edit"))
    assert stream.app.get(dead.id).state is State.DEAD


def _like(job: Job, **fields: str) -> Job:
    return replace(job, **fields, tags=(), history=())  # type: ignore[arg-type]


def test_an_id_comes_before_a_key_and_a_key_before_an_event(setting: Setting) -> None:
    stream = setting.stream(max_retries=0)
    dead = stream.app.desk.jobs.get(
        stream.emit_with_retry("a", "b", Failing(ConnectionError("down")))
    )
    add = stream.app.store.add
    add([_like(dead, id="JOB1", key="G7", event="E1")])
    add([_like(dead, id="JOB2", key="JOB1", event="E2")])
    add([_like(dead, id="JOB3", key="E1", event="JOB1")])
    add([_like(dead, id="JOB4", key="K4", event="E2")])
    get = stream.app.desk.jobs.get
    assert [get(name).id for name in ("JOB1", "E1", "K4")] == ["JOB1", "JOB3", "JOB4"]
    with pytest.raises(UsageError, match="'E2' matches more than one job: JOB"):
        get("E2")
    with pytest.raises((JobNotFound, UsageError), match="no job 'G7'"):
        get("G7")
    assert "G7 is a group of jobs" in run(setting, "show", "G7").stderr
    assert "no group G7" in run(setting, "resolve", "G7", "--yes").stderr
    assert "there is no filter 'ordre:'" in run(setting, "retry", "ordre:1").stderr
    assert "there is no filter 'ordre:'" in run(setting, "groups", "ordre:1").stderr


def test_a_key_after_key_is_the_key_and_two_that_match_are_refused(setting: Setting) -> None:
    stream = setting.stream(max_retries=0)
    event = stream.emit_with_retry("a", "b", Failing(ConnectionError("down")))
    dead = stream.app.desk.jobs.get(event)
    for number, key in enumerate(["A", "key:A", "key:B"], 1):
        stream.app.store.add([_like(dead, id=f"JOB{number}", key=key, event="key:E")])
    stream.app.store.add([_like(dead, id="JOB4", key="E", event="E4")])
    get = stream.app.desk.jobs.get
    names = ("A", "key:key:A", "key:B", "key:E")
    assert [get(name).id for name in names] == ["JOB1", "JOB2", "JOB3", "JOB4"]
    with pytest.raises(UsageError, match="'key:A' matches more than one job: JOB1, JOB2; "):
        get("key:A")


@pytest.mark.parametrize("key", ["G7", "R1", "state:dead"])
def test_a_key_that_looks_like_a_selector_is_shown_as_it_must_be_typed(
    setting: Setting, key: str
) -> None:
    stream = setting.stream(max_retries=0)
    event = stream.emit_with_retry("a", "b", Failing(ConnectionError("down")))
    dead = stream.app.desk.jobs.get(event)
    stream.app.store.add([replace(_like(dead, id="JOB1", key=key), event=None)])
    rows = [line.split("\t") for line in run(setting, "dlq").stdout.splitlines()[1:]]
    (name,) = {cell for row in rows for cell in row} & {key, f"key:{key}"}
    assert json.loads(run(setting, "show", name, "--json").stdout)["data"]["id"] == "JOB1"
    assert run(setting, "resolve", name, "--reason", "seen", "--yes").exit_code == 0
    assert stream.app.get("JOB1").state is State.RESOLVED
    assert stream.app.get(dead.id).state is State.DEAD


def test_the_dead_letter_queue_has_the_columns_of_the_document(setting: Setting) -> None:
    stream = setting.stream(max_retries=2)
    event = stream.emit_with_retry("a", "b", Failing(*[ConnectionError("down")] * 3))
    heads, row = (line.split("\t") for line in run(setting, "dlq").stdout.splitlines())
    shown = dict(zip(heads, row, strict=True))
    assert shown["event or key"] == event
    assert (shown["error"], shown["category"]) == ("ConnectionError: down", "transient")
    assert shown["retries"] == "2/2"


def test_emit_writes_one_line(setting: Setting) -> None:
    stream = setting.stream()
    event = stream.emit("deploy", "ci", {"sha": "abc"}, tags=["x"], latency_ms=12, exit_code=0)
    (line,) = setting.lines()
    assert (line["event_id"], line["status"], line["data"]) == (event, "success", {"sha": "abc"})
    assert (line["latency_ms"], line["exit_code"], line["tags"]) == (12, 0, ["x"])
    failed = {"category": "permanent", "message": "no"}
    status = EventStatus.FAILED
    stream.emit("deploy", "ci", {}, status=status, error_info=failed, recovery_actions=["none"])
    assert [line["error_info"] for line in stream.get_failed_events()] == [failed]
    with pytest.raises(UsageError, match="status must be one of"):
        stream.emit("deploy", "ci", {}, status="odd")


def test_an_emitted_dead_letter_is_in_the_queue(setting: Setting) -> None:
    stream = setting.stream()
    error = {"category": "transient", "type": "TimeoutError", "message": "too late"}
    event = stream.emit("deploy", "ci", {"n": 1}, status="dead_letter", error_info=error)
    (dead,) = stream.get_dead_letter_queue()
    assert (dead["event_id"], dead["data"], dead["status"]) == (event, {"n": 1}, "dead_letter")
    assert dead["error_info"]["message"] == "too late"
    job = stream.app.desk.jobs.get(event)
    assert (job.reason, job.failure and job.failure.category) == ("captured", "transient")
    assert [line["event_id"] for line in stream.get_retry_candidates()] == [event]


def test_the_arguments_of_the_document_are_taken(setting: Setting) -> None:
    stream = setting.stream()
    stream.emit_with_retry("a", "b", lambda: {"result": 1}, related_hypothesis_id="H-7")
    pending, success = setting.lines()
    assert {pending["related_hypothesis_id"], success["related_hypothesis_id"]} == {"H-7"}
    assert (pending["data"], success["data"]) == ({}, {"result": 1})
    failing = Failing(ConnectionError())
    stream.emit_with_retry("a", "b", lambda: failing() or {"result": 2, "token": "t0psecret"})
    assert setting.lines()[-1]["data"] == {"result": 2, "token": "•••"}
    with pytest.raises(UsageError, match="timeout_seconds must be above 0; found '0'"):
        stream.emit_with_retry("a", "b", lambda: None, timeout_seconds=0)
    stream.emit("a", "b", {}, related_hypothesis_id="H-8")
    assert setting.lines()[-1]["related_hypothesis_id"] == "H-8"


def test_an_action_that_takes_too_long_has_failed(setting: Setting) -> None:
    strategy = ConstantBackoffStrategy(0, jitter_factor=-1)
    stream = setting.stream(max_retries=1, retry_strategy=strategy)
    stream.emit_with_retry("a", "b", lambda: time.sleep(30), timeout_seconds=0.02)
    (dead,) = stream.get_dead_letter_queue()
    assert dead["error_info"]["category"] == "timeout"
    assert dead["error_info"]["message"] == "ran past its time limit of 0.02 s"
    assert dead["retry_info"]["count"] == 1
    stream.emit_with_retry("a", "b", Failing(ValueError("odd")), timeout_seconds=60)
    assert [line["status"] for line in setting.lines()[-3:]] == ["pending", "retrying", "success"]
