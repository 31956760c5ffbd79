"""R-EVENTS 1, 2 and 4: emitting, retrying in place, asking. Each test names its sentence."""

from __future__ import annotations

import functools
import inspect
import json
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eventkit import Failing, Setting
from redrive import GiveUp, RetryLater, Skip
from redrive.contrib.event_stream import ResilientEventStream, get_resilient_stream
from redrive.errors import UsageError
from redrive.strategies import ConstantBackoffStrategy, ExponentialBackoffStrategy
from tablekit import each_row


def test_r_events_1_the_constructor_is_the_one_people_know() -> None:
    parameters = list(inspect.signature(ResilientEventStream).parameters.values())[:6]
    assert [(one.name, one.default) for one in parameters] == [
        ("stream_path", None),
        ("dead_letter_path", None),
        ("max_retries", 3),
        ("retry_backoff_base", 2.0),
        ("enable_metrics", True),
        ("retry_strategy", None),
    ]


def test_r_events_1_without_arguments_it_works_and_writes_below_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with ResilientEventStream() as stream:
        stream.emit_with_retry("a", "b", lambda: None)
        stream.emit_with_retry("a", "b", Failing(GiveUp("no")))
    files = {path.name: path.stat().st_mode for path in (tmp_path / "logs").iterdir()}
    assert {"event_stream.jsonl", "dead_letter_queue.jsonl"} <= set(files)
    assert {stat.S_IMODE(mode) for mode in files.values()} == {0o600}
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


def test_r_events_1_a_program_can_share_one_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    get_resilient_stream.cache_clear()
    stream = get_resilient_stream()
    assert get_resilient_stream() is stream
    stream.emit("a", "b", {})
    assert (tmp_path / "logs/event_stream.jsonl").is_file()
    stream.close()
    get_resilient_stream.cache_clear()


@pytest.mark.parametrize(("chance", "factor"), [(0.0, 0.8), (0.5, 1.0), (1 - 2**-53, 1.2)])
def test_r_events_1_by_default_waits_grow_by_the_base_within_20_percent(
    setting: Setting, chance: float, factor: float
) -> None:
    stream = setting.stream(retry_strategy=None, retry_backoff_base=3.0, rand=lambda: chance)
    stream.emit_with_retry("a", "b", Failing(*[ConnectionError()] * 4))
    assert setting.waits == pytest.approx([factor, 3 * factor, 9 * factor])


def test_r_events_1_no_wait_is_longer_than_300_seconds(setting: Setting) -> None:
    stream = setting.stream(retry_strategy=None, max_retries=12, rand=lambda: 1 - 2**-53)
    stream.emit_with_retry("a", "b", Failing(*[ConnectionError()] * 13))
    assert max(setting.waits) <= 300
    assert setting.waits[-1] == pytest.approx(300)


def test_r_events_1_the_strategy_may_be_replaced_while_an_event_waits(setting: Setting) -> None:
    stream = setting.stream()
    failing = Failing(*[ConnectionError()] * 3)

    def action() -> None:
        if failing.calls == 1:
            stream.retry_strategy = ConstantBackoffStrategy(7, jitter_factor=0)
        failing()

    stream.emit_with_retry("a", "b", action)
    assert setting.waits == [1, 7, 7]
    assert stream.retry_strategy == ConstantBackoffStrategy(7, jitter_factor=0)


def test_r_events_1_no_strategy_means_the_default_again(setting: Setting) -> None:
    stream = setting.stream(retry_backoff_base=5.0)
    stream.retry_strategy = None
    assert isinstance(stream.retry_strategy, ExponentialBackoffStrategy)
    assert stream.retry_strategy.base == 5


@each_row("wrong", [{"max_retries": -1}, {"retry_strategy": 3}])
def test_r_events_1_a_wrong_argument_is_refused(setting: Setting, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        setting.stream(**wrong)


def test_r_events_2_the_case_two_connection_errors_three_calls_waits_of_1_and_2_seconds(
    setting: Setting,
) -> None:
    action = Failing(ConnectionError("one"), ConnectionError("two"))
    event_id = setting.stream(max_retries=2).emit_with_retry("a", "b", action)
    assert (action.calls, setting.waits) == (3, [1.0, 2.0])
    assert setting.statuses() == ["pending", "retrying", "retrying", "success"]
    assert {line["event_id"] for line in setting.lines()} == {event_id}


def test_r_events_2_when_all_retries_are_used_it_is_a_dead_letter(setting: Setting) -> None:
    stream = setting.stream(max_retries=2)
    action = Failing(*[ConnectionError("down")] * 3)
    event_id = stream.emit_with_retry("a", "b", action, {"n": 1})
    assert action.calls == 3
    (dead,) = stream.get_dead_letter_queue()
    assert (dead["event_id"], dead["status"]) == (event_id, "dead_letter")
    assert dead["retry_info"] == {"count": 2, "max_retries": 2, "exhausted": True}
    job = stream.app.get(dead["job_id"])
    assert (job.state, job.reason, job.attempts) == ("dead", "exhausted", 3)
    assert [attempt.number for attempt in job.history] == [1, 2, 3]


class HttpError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


@pytest.mark.parametrize(
    "error", [GiveUp("no"), HttpError(401), HttpError(403), HttpError(422), HttpError(404)]
)
def test_r_events_2_a_permanent_error_is_a_dead_letter_at_once(
    setting: Setting, error: Exception
) -> None:
    stream = setting.stream()
    action = Failing(error)
    event_id = stream.emit_with_retry("a", "b", action)
    assert (action.calls, setting.waits) == (1, [])
    assert setting.statuses() == ["pending", "dead_letter"]
    (dead,) = stream.get_dead_letter_queue()
    assert dead["event_id"] == event_id
    assert dead["retry_info"] == {"count": 0, "max_retries": 3, "exhausted": False}


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Endless(Exception):
    def __str__(self) -> str:
        return "x" * 50_000_000


@pytest.mark.parametrize(
    "error",
    [Unspeakable(), Endless(), SystemExit(3), GeneratorExit(), MemoryError(), StopIteration()],
)
def test_r_events_2_hostile_actions_never_lose_the_event(
    setting: Setting, error: BaseException
) -> None:
    stream = setting.stream(max_retries=1)
    event_id = stream.emit_with_retry("a", "b", Failing(error, error, error))
    assert [dead["event_id"] for dead in stream.get_dead_letter_queue()] == [event_id]
    assert (setting.folder / "dead.jsonl").stat().st_size < 100_000


def test_r_events_2_ctrl_c_passes_and_the_file_says_so(setting: Setting) -> None:
    stream = setting.stream()
    with pytest.raises(KeyboardInterrupt):
        stream.emit_with_retry("a", "b", Failing(ConnectionError(), KeyboardInterrupt()))
    assert setting.statuses() == ["pending", "retrying", "failed"]
    assert len(stream.get_failed_events()) == 1


def test_r_events_2_an_action_may_ask_for_its_wait_or_say_there_is_nothing_to_do(
    setting: Setting,
) -> None:
    stream = setting.stream()
    stream.emit_with_retry("a", "b", Failing(RetryLater(after=42), Skip("it is Sunday")))
    assert setting.waits == [42]
    assert setting.lines()[-1]["status"] == "success"
    assert setting.lines()[-1]["recovery_actions"] == ["it is Sunday"]


def test_r_events_2_a_retry_limit_of_its_own(setting: Setting) -> None:
    stream = setting.stream()
    action = Failing(*[ConnectionError()] * 9)
    stream.emit_with_retry("a", "b", action, max_retries=5)
    assert action.calls == 6


async def never_awaited() -> None:
    """Do nothing."""


def test_r_events_2_a_coroutine_is_no_success(setting: Setting) -> None:
    stream = setting.stream()
    stream.emit_with_retry("a", "b", never_awaited)
    stream.emit_with_retry("a", "b", functools.partial(never_awaited))
    stream.emit_with_retry("a", "b", stream.app.handler("later")(never_awaited))
    assert setting.statuses() == ["pending", "dead_letter"] * 3


@each_row(
    "wrong",
    [
        {"importance": 0},
        {"importance": 6},
        {"event_type": ""},
        {"source": 3},
        {"action": None},
        {"data": [1]},
        {"tags": "vip"},
        {"max_retries": -1},
    ],
)
def test_r_events_2_a_mistake_in_the_call_is_told_before_anything_runs(
    setting: Setting, wrong: dict[str, Any]
) -> None:
    right = {"event_type": "a", "source": "b", "action": lambda: None}
    with pytest.raises(UsageError):
        setting.stream().emit_with_retry(**{**right, **wrong})
    assert not (setting.folder / "events.jsonl").exists()


def test_r_events_2_data_that_json_cannot_hold_is_kept_as_text(setting: Setting) -> None:
    stream = setting.stream()
    data = {
        "at": datetime(2025, 1, 1, tzinfo=UTC),
        "deep": {"nan": float("nan"), "token": "s3cr3t"},
    }
    stream.emit_with_retry("a", "b", Failing(GiveUp("not with s3cr3t")), data)
    (dead,) = stream.get_dead_letter_queue()
    assert dead["data"]["at"] == "2025-01-01 00:00:00+00:00"
    assert dead["data"]["deep"] == {"nan": "NaN", "token": "•••"}
    assert dead["error_info"]["message"] == "not with •••"


def circular() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value",
    [circular(), "a\0b", "\ud800", {(1, 2): 3}, "x" * 2_000_000, 10**5000],
    ids=["circular", "nul", "surrogate", "key", "large", "digits"],
)
def test_r_events_2_data_that_cannot_be_kept_at_all_costs_the_data_and_not_the_event(
    setting: Setting, value: object
) -> None:
    stream = setting.stream()
    data = {"value": value, "password": "hunter22"}
    event_id = stream.emit_with_retry("a", "b", Failing(GiveUp("no")), data)
    (dead,) = stream.get_dead_letter_queue()
    assert dead["event_id"] == event_id
    assert set(dead["data"]) == {"not_kept", "text"}
    shown = json.dumps(dead)
    assert len(shown) < 30_000
    assert "hunter22" not in shown + (setting.folder / "dead.jsonl").read_text("utf-8")


def test_r_events_2_names_that_no_file_can_hold_lose_no_event(setting: Setting) -> None:
    stream = setting.stream()
    odd = "\ud800 \0 " + "x" * 1000
    stream.emit_with_retry(odd, odd, Failing(GiveUp("no")), parent_event_id=odd, tags=[odd])
    assert setting.statuses() == ["pending", "dead_letter"]
    (dead,) = stream.get_dead_letter_queue()
    shown = (dead["event_type"], dead["source"], dead["parent_event_id"], dead["tags"][0])
    assert {text[:20] for text in shown} == {"\\ud800 \\x00 xxxxxxxx"}


def test_r_events_2_many_threads_at_once(setting: Setting) -> None:
    stream = setting.stream(max_retries=1, sleep=lambda _: None)
    ids: list[str] = []

    def emit(number: int) -> None:
        for turn in range(20):
            errors = [ConnectionError()] * (turn % 3)
            ids.append(stream.emit_with_retry("a", f"thread-{number}", Failing(*errors)))

    threads = [threading.Thread(target=emit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 160
    last = {line["event_id"]: line["status"] for line in setting.lines()}
    dead = {line["event_id"] for line in stream.get_dead_letter_queue(1000)}
    assert {event_id for event_id, status in last.items() if status == "dead_letter"} == dead
    assert len(dead) == 8 * 6
    assert set(last.values()) == {"success", "dead_letter"}


def test_r_events_4_failed_events_are_neither_retried_nor_dead(setting: Setting) -> None:
    stream = setting.stream(max_retries=1)
    during: list[int] = []

    def watched() -> None:
        during.append(len(stream.get_failed_events()))
        if len(during) == 1:
            raise ConnectionError

    stream.emit_with_retry("a", "b", watched)
    assert during == [0, 0]
    stream.emit_with_retry("a", "b", Failing(GiveUp("no")))
    assert stream.get_failed_events() == []


def test_r_events_4_failed_events_newest_first_up_to_a_limit(setting: Setting) -> None:
    stream = setting.stream()
    for number in range(3):
        with pytest.raises(KeyboardInterrupt):
            stream.emit_with_retry("a", "b", Failing(KeyboardInterrupt()), {"n": number})
    assert [line["data"]["n"] for line in stream.get_failed_events(limit=2)] == [2, 1]


def test_r_events_4_dead_letters_newest_first_up_to_a_limit(setting: Setting) -> None:
    stream = setting.stream()
    for number in range(4):
        stream.emit_with_retry("a", "b", Failing(GiveUp("no")), {"n": number})
        setting.clock.advance(1)
    assert [line["data"]["n"] for line in stream.get_dead_letter_queue()] == [3, 2, 1, 0]
    assert [line["data"]["n"] for line in stream.get_dead_letter_queue(limit=2)] == [3, 2]
    assert stream.get_dead_letter_queue(limit=0) == []


def test_r_events_4_dead_letters_show_no_secrets_and_keep_the_data(setting: Setting) -> None:
    stream = setting.stream()
    secret = {"password": "hunter22"}
    stream.emit_with_retry("a", "b", Failing(GiveUp("not with hunter22")), secret)
    (dead,) = stream.get_dead_letter_queue()
    assert "hunter22" not in json.dumps(dead)
    assert json.loads(stream.app.get(dead["job_id"]).payload) == secret


def test_r_events_4_retry_candidates_are_the_dead_whose_error_can_pass(setting: Setting) -> None:
    stream = setting.stream(max_retries=0)
    errors = [ConnectionError(), HttpError(401), HttpError(404), GiveUp("no"), HttpError(429)]
    for error in [*errors, ValueError("odd")]:
        stream.emit_with_retry(type(error).__name__, "b", Failing(error))
        setting.clock.advance(1)
    found = [(line["event_type"], line["error_info"]) for line in stream.get_retry_candidates()]
    assert [name for name, _ in found] == ["ValueError", "HttpError", "ConnectionError"]
    assert [info["category"] for _, info in found] == ["unknown", "rate_limit", "transient"]


def test_r_events_4_metrics_count_what_happened(setting: Setting) -> None:
    stream = setting.stream(max_retries=1)
    stream.emit_with_retry("a", "b", lambda: None)
    stream.emit_with_retry("a", "b", Failing(ConnectionError()))
    stream.emit_with_retry("a", "b", Failing(GiveUp("no")))
    assert stream.get_metrics() == {
        "emitted": 3,
        "succeeded": 2,
        "retries": 1,
        "dead_lettered": 1,
        "failed": 0,
        "failures_by_category": {"transient": 1, "permanent": 1},
    }


def test_r_events_4_without_metrics_there_are_none(setting: Setting) -> None:
    stream = setting.stream(enable_metrics=False)
    stream.emit_with_retry("a", "b", lambda: None)
    assert stream.get_metrics() == {}
