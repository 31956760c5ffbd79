"""One line an event, for people and for machines; masking comes last."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crewkit import crew, fill
from redrive import Redrive, fallback
from redrive.cli._logging import warn_on_stderr
from redrive.logs import LONGEST, JsonFormatter, severity
from tablekit import each_row
from workkit import QUICK, all_done, until

SECRET = "hunter2-and-more"


def line(message: str = "it is", *args: object, level: int = logging.INFO, **extra: object) -> Any:
    """What the formatter makes of a call, read back."""
    return json.loads(raw(message, *args, level=level, **extra))


def raw(message: str, *args: object, level: int = logging.INFO, **extra: object) -> str:
    record = logging.getLogger("shop").makeRecord(
        "shop", level, "file.py", 7, message, args, None, extra=extra
    )
    return JsonFormatter().format(record)


def test_a_line_in_the_words_of_cloud_logging() -> None:
    told = line("%d of %s", 3, "them", level=logging.WARNING, event="seen", lane="mail")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", told.pop("time"))
    assert told == {
        "severity": "WARNING",
        "message": "3 of them",
        "logger": "shop",
        "process": told["process"],
        "event": "seen",
        "lane": "mail",
    }


@each_row(
    "level, name",
    [(5, "DEBUG"), (20, "INFO"), (25, "INFO"), (30, "WARNING"), (40, "ERROR"), (99, "CRITICAL")],
)
def test_levels_have_the_names_of_cloud_logging(level: int, name: str) -> None:
    assert severity(level) == name


def test_an_error_stands_in_the_same_line() -> None:
    try:
        raise ValueError(f"password={SECRET}")
    except ValueError as error:
        record = logging.makeLogRecord(
            {"msg": "no", "levelno": 40, "exc_info": (type(error), error, error.__traceback__)}
        )
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert "Traceback" in json.loads(text)["message"]
    assert SECRET not in text


@each_row(
    "message, extra",
    [
        (f"password={SECRET}", {}),
        ("it is", {"password": SECRET}),
        (f"he said {SECRET}", {"api_key": SECRET}),
        ("it is", {"payload": {"deep": [{"token": SECRET}]}}),
        ("it is", {"url": f"https://ada:{SECRET}@db.example/"}),
        ("it is", {"error": ValueError(f"Authorization: Bearer {SECRET}")}),
        ("it is", {f"password={SECRET}": 1}),
        ("x" * 300_000 + f" password={SECRET}", {}),
        ("x" * (LONGEST - 8) + f" password={SECRET}", {}),
    ],
)
def test_nothing_gets_past_the_masking(message: str, extra: dict[str, object]) -> None:
    text = raw(message, **extra)
    assert SECRET not in text
    assert SECRET[:8] not in text
    json.loads(text)


class Bad:
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


def test_any_field_can_be_told() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    told = line(nan=float("nan"), bad=Bad(), cycle=cycle, keys={1: "a", None: b"b"}, deep=(1, None))
    assert told["nan"] == "nan"
    assert "raised RuntimeError" in told["bad"]
    assert told["keys"] == {"1": "a", "None": "b'b'"}
    assert told["deep"] == [1, None]


def test_text_cannot_drive_a_terminal_nor_be_endless() -> None:
    text = raw("a\x1b]52;c;x\x07\u202eb\nc\r\x9b2J", title="日本語")
    assert text.isprintable()
    assert "日本語" in text
    assert len(raw("x" * 1_000_000)) < LONGEST + 500


def test_the_text_on_standard_error_is_masked_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger("redrive")
    monkeypatch.setattr(log, "handlers", [logging.NullHandler()])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    warn_on_stderr()
    log.warning("it said password=%s\nmore", SECRET)
    assert capsys.readouterr().err == "WARNING: it said password=•••\n    more\n"


def events(caplog: pytest.LogCaptureFixture, *names: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if getattr(record, "event", "") in names]


def test_a_pass_and_each_job_of_it_tell_their_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redrive")
    app = Redrive("memory:")

    @app.handler("mail", attempts=1, lane="post")
    def mail() -> None:
        raise ValueError("no")

    job = mail.submit()
    app.run_due()
    begins, died, worked, empty = events(caplog, "begins", "dead_letter", "worked", "empty")
    assert begins["queued"] == 1
    assert {name: died[name] for name in ("job", "handler", "lane", "attempts", "reason")} == {
        "job": job.id,
        "handler": "mail",
        "lane": "post",
        "attempts": 1,
        "reason": "exhausted",
    }
    assert died["levelname"] == "WARNING"
    assert "dead_letter" in died["msg"]
    assert died["category"] == "unknown"
    assert died["group"] == "G1"
    assert {name: worked[name] for name in ("taken", "succeeded", "failed", "died", "purged")} == {
        "taken": 1,
        "succeeded": 0,
        "failed": 1,
        "died": 1,
        "purged": 0,
    }
    assert empty["msg"] == "the queue is empty"


def test_the_provider_that_won_is_a_field(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "redrive")

    def down() -> str:
        raise ConnectionError("down")

    assert fallback(openai=down, claude=lambda: "hi")().winner == "claude"
    (answered,) = events(caplog, "answered")
    assert answered["provider"] == "claude"


def test_a_worker_says_what_waits_what_came_of_it_and_when_none_is_left(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO, "redrive")
    app = Redrive(tmp_path / "jobs.db", policy=QUICK)

    @app.handler("mail")
    def mail(fails: bool) -> None:
        if fails:
            raise ValueError("no")

    for fails in (False, False, True):
        mail.submit(fails)
    with app.worker():
        until(lambda: events(caplog, "empty"))
        mail.submit(False)
        until(lambda: len(events(caplog, "empty")) == 2)
    assert [one["queued"] for one in events(caplog, "begins")] == [3]
    sums = events(caplog, "worked")
    assert sum(one["taken"] for one in sums) == 6  # one of them three times
    assert sum(one["succeeded"] for one in sums) == 3
    assert sum(one["failed"] for one in sums) == 3
    assert sum(one["died"] for one in sums) == 1
    assert len(events(caplog, "empty")) == 2, "not again and again while nothing happens"
    app.close()


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(one) for one in text.splitlines()]


def test_two_processes_write_nothing_but_json(tmp_path: Path) -> None:
    """Also the supervisor, and a handler whose death has a traceback of many lines."""
    url = str(tmp_path / "jobs.db")
    words = ("--processes", "2", "--log-format", "json")
    with Redrive(url) as app, crew(tmp_path, url, *words) as team:
        app.handler("once", attempts=1)(_nothing)
        fill(app, "once", [{"number": 1, "deed": "not a number"}, {"number": 2}])
        until(lambda: all_done(app) and team.log().count('"begins"') == 2, 60)
        team.terminate()
        assert team.end() == 0
        told = lines(team.log())
    assert len({one["process"] for one in told if one.get("event") == "begins"}) == 2
    (died,) = [one for one in told if one.get("event") == "dead_letter"]
    assert died["severity"] == "WARNING"
    assert "Traceback" in died["message"]
    assert died["handler"] == "once"


def _nothing(number: int, seconds: float = 0.0, deed: str = "") -> None:
    raise AssertionError("this program runs no jobs")


PROGRAM = """
import logging
from redrive import Redrive
logging.basicConfig(level=logging.INFO)
app = Redrive("memory:")

@app.handler("mail", attempts=1)
def mail(password: str) -> None:
    logging.getLogger("shop").info("mine")
    raise ValueError(f"password={password}")

mail.submit("hunter2-and-more")
"""


def test_what_was_asked_for_wins_over_what_the_program_set_up(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    words = [sys.executable, "-m", "redrive", "work", "shop:app", "--once", "-v"]
    done = subprocess.run(
        [*words, "--log-format", "json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 6, done.stderr
    mine = [one for one in done.stderr.splitlines() if one == "INFO:shop:mine"]
    ours = [one for one in done.stderr.splitlines() if one not in mine]
    assert len(mine) == 1
    assert [one["event"] for one in lines("\n".join(ours)) if "event" in one] == [
        "begins",
        "dead_letter",
        "worked",
        "empty",
    ]
    assert SECRET not in done.stderr
