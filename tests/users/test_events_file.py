"""R-EVENTS 3: the stream file and the dead-letter store."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import redrive
from eventkit import Failing, Setting
from redrive import GiveUp, Redrive
from redrive.contrib.event_log import new_event_id
from redrive.errors import StoreForeign, StoreFull, UsageError

FIELDS = [
    "event_id",
    "timestamp",
    "event_type",
    "source",
    "data",
    "parent_event_id",
    "tags",
    "importance",
    "status",
    "error_info",
    "retry_info",
    "recovery_actions",
    "latency_ms",
    "exit_code",
]


def test_r_events_3_every_line_has_the_fields_of_the_format(setting: Setting) -> None:
    stream = setting.stream(max_retries=1)
    parent = stream.emit_with_retry("first", "shop", lambda: None)
    options = {"parent_event_id": parent, "tags": ["vip", "a tag"], "importance": 5}
    data = {"n": 1, "password": "hunter22"}
    action = Failing(ConnectionError("no hunter22 here"), ConnectionError("down"))
    event_id = stream.emit_with_retry("order.placed", "shop", action, data, **options)
    assert re.fullmatch(r"EVT-\d{8}-\d{6}-[0-9a-f]{6}", event_id)
    assert event_id.startswith("EVT-20250615-150640-")
    pending, retrying, dead = setting.lines()[2:]
    for line in (pending, retrying, dead):
        assert list(line)[: len(FIELDS)] == FIELDS
        assert (line["event_id"], line["event_type"]) == (event_id, "order.placed")
        assert (line["source"], line["parent_event_id"]) == ("shop", parent)
        assert (line["tags"], line["importance"]) == (["vip", "a tag"], 5)
        assert line["data"] == {"n": 1, "password": "•••"}
        datetime.fromisoformat(line["timestamp"])
    assert retrying["error_info"]["message"] == "no ••• here"
    assert set(retrying["error_info"]) == {"category", "message", "type", "stacktrace", "context"}
    assert "ConnectionError" in retrying["error_info"]["stacktrace"]
    assert retrying["retry_info"] == {
        "count": 1,
        "max_retries": 1,
        "next_retry_at": "2025-06-15T15:06:41.000+00:00",
        "backoff_seconds": 1.0,
    }
    assert (pending["exit_code"], retrying["exit_code"], dead["exit_code"]) == (None, None, 1)
    assert (pending["latency_ms"], pending["error_info"]) == (None, None)
    assert retrying["latency_ms"] >= 0


def test_r_events_3_success_has_exit_code_0_and_a_dead_letter_1(setting: Setting) -> None:
    stream = setting.stream(max_retries=0)
    stream.emit_with_retry("a", "b", lambda: None)
    stream.emit_with_retry("a", "b", Failing(SystemExit(3)))
    assert [line["exit_code"] for line in setting.lines()] == [None, 0, None, 1]


def test_r_events_3_ids_of_one_second_differ() -> None:
    assert len({new_event_id(0.0) for _ in range(50_000)}) == 50_000


def test_r_events_3_the_file_is_the_owners_alone_and_no_link_is_followed(setting: Setting) -> None:
    old = os.umask(0)
    try:
        setting.stream().emit_with_retry("a", "b", lambda: None)
    finally:
        os.umask(old)
    path = setting.folder / "events.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    target = setting.folder / "target"
    target.write_text("mine")
    link = setting.folder / "link.jsonl"
    link.symlink_to(target)
    setting.stream(stream_path=link).emit_with_retry("a", "b", lambda: None)
    assert target.read_text() == "mine"


def test_r_events_3_a_full_disk_is_logged_and_nothing_else_happens(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    stream = setting.stream(stream_path="/dev/full")
    action = Failing(ConnectionError())
    assert stream.emit_with_retry("a", "b", action)
    assert action.calls == 2
    assert caplog.text.count("was not written to the event log") == 3
    assert {record.levelno for record in caplog.records if "event log" in record.message} == {
        logging.ERROR
    }


def test_r_events_3_a_torn_line_spoils_no_other(setting: Setting) -> None:
    path = setting.folder / "events.jsonl"
    path.write_text('{"event_id": "EVT-1", "status": "ret')
    stream = setting.stream()
    stream.emit_with_retry("a", "b", lambda: None)
    os.truncate(path, path.stat().st_size - 5)
    stream.emit_with_retry("a", "b", lambda: None)
    lines = path.read_text("utf-8").splitlines()
    whole = [json.loads(line)["status"] for line in lines if line.endswith("}")]
    assert (whole, len(lines)) == (["pending", "pending", "success"], 5)
    assert stream.get_failed_events() == []


def test_r_events_3_an_action_given_as_a_handler_can_really_be_run_again(setting: Setting) -> None:
    stream = setting.stream(max_retries=1)
    told: list[int] = []
    up: list[bool] = []

    @stream.app.handler("partner.notify")
    def notify(order: int, at: datetime) -> None:
        if not up:
            raise ConnectionError("down")
        assert at == datetime(2025, 1, 1, tzinfo=UTC)
        told.append(order)

    data = {"order": 4711, "at": datetime(2025, 1, 1, tzinfo=UTC)}
    stream.emit_with_retry("order.placed", "shop", notify, data)
    up.append(True)
    (dead,) = stream.get_dead_letter_queue()
    stream.app.desk.retry(dead["job_id"], reason="up again")
    assert stream.app.run_due().succeeded == 1
    assert told == [4711]
    assert stream.get_dead_letter_queue() == []


def test_r_events_3_the_key_sent_downstream_is_the_same_in_every_life(setting: Setting) -> None:
    stream = setting.stream(max_retries=1)
    keys: list[str] = []

    @stream.app.handler("partner.notify")
    def notify() -> None:
        keys.append(redrive.current().key)
        raise ConnectionError

    stream.emit_with_retry("order.placed", "shop", notify)
    stream.app.desk.retry(stream.get_dead_letter_queue()[0]["job_id"])
    stream.app.run_due()
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_r_events_3_data_that_does_not_fit_the_handler_can_be_mended_and_run(
    setting: Setting,
) -> None:
    stream = setting.stream()
    told: list[int] = []

    @stream.app.handler("partner.notify")
    def notify(order: int) -> None:
        told.append(order)

    stream.emit_with_retry("order.placed", "shop", notify, {"ordre": 7})
    (dead,) = stream.get_dead_letter_queue()
    assert dead["error_info"] is not None
    assert dead["error_info"]["category"] == "invalid"
    stream.app.desk.edit(dead["job_id"], '{"order": 7}', reason="a typing error")
    stream.app.desk.retry(dead["job_id"])
    stream.app.run_due()
    assert told == [7]


def test_r_events_3_a_handler_of_another_app_is_adopted(setting: Setting) -> None:
    other = Redrive("memory:")
    told: list[int] = []

    @other.handler("partner.notify")
    def notify(order: int) -> None:
        if redrive.current().attempt == 1 and not told:
            told.append(order)
            raise GiveUp("not now")

    stream = setting.stream()
    stream.emit_with_retry("order.placed", "shop", notify, {"order": 7})
    stream.app.desk.retry(state="dead")
    assert stream.app.run_due().succeeded == 1
    with pytest.raises(UsageError, match="options"):
        stream.emit_with_retry("a", "b", notify.options(key="k"), {"order": 7})


def test_r_events_3_people_can_do_everything_with_a_dead_letter(setting: Setting) -> None:
    stream = setting.stream()
    event_id = stream.emit_with_retry("a b/ü", "shop", Failing(GiveUp("no")), {"n": 1})
    stream.close()
    with Redrive(f"jsonl:{setting.folder / 'dead.jsonl'}", clock=setting.clock) as people:
        (job,) = people.desk.jobs.find(tag=event_id).jobs
        assert (job.handler, json.loads(job.payload)) == ("a_b/ü", {"n": 1})
        (group,) = people.desk.groups.find()
        assert people.desk.resolve(group, reason="seen").done
        assert people.desk.reopen(job.id).done
        assert people.desk.discard(job.id, reason="old").done
        assert people.desk.reopen(job.id).done
        people.desk.edit(job.id, '{"n": 2}')
        assert people.desk.retry(job.id).done
        assert people.store.verify().ok
        assert [act.verb for act in people.desk.log.actions()][:2] == ["retry", "edit"]


def test_r_events_3_a_file_that_is_no_store_is_refused_and_left_alone(setting: Setting) -> None:
    path = setting.folder / "dead.jsonl"
    text = '{"event_id": "EVT-20240101-000000-abcdef", "status": "dead_letter"}\n'
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(StoreForeign, match=r"redrive import .*redrive\.contrib\.formats:events"):
        setting.stream()
    assert path.read_text() == text


def test_r_events_3_a_dead_letter_the_store_cannot_keep_is_told_in_the_stream(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream = setting.stream()
    full: Callable[..., Any] = Failing(StoreFull("no room"))
    monkeypatch.setattr(stream.app.store, "add", lambda *_, **__: full())
    event_id = stream.emit_with_retry("a", "b", Failing(GiveUp("no")), {"n": 1})
    assert "could not be kept" in caplog.text
    (failed,) = stream.get_failed_events()
    assert (failed["event_id"], failed["status"], failed["data"]) == (event_id, "failed", {"n": 1})
    assert stream.get_metrics()["failed"] == 1
