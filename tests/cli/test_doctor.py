"""What is wrong with settings, store and workers, each with a remedy."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import redrive
from redrive import Redrive
from redrive.alerts import Alerts
from redrive.attempts import worker_notes
from shopkit import Shop
from tablekit import each_row

PROGRAM = """
from redrive import Redrive
app = Redrive("redrive.db")
@app.handler("mail")
def mail(): ...
"""


def findings(shop: Shop, *words: str, code: int = 0) -> dict[str, tuple[str, str, str]]:
    """Give level, text and remedy of the worst finding about each thing."""
    done = shop.run("doctor", "--json", *words)
    assert done.exit_code == code, done.output
    found: dict[str, tuple[str, str, str]] = {}
    for one in json.loads(done.stdout)["data"]["findings"]:
        assert (one["level"] == "ok") is (one["remedy"] is None)
        if one["level"] != "ok" or one["what"] not in found:
            found[one["what"]] = (one["level"], one["message"], one["remedy"])
    return found


@pytest.fixture
def sound(empty: Shop) -> Shop:
    assert empty.run("init").exit_code == 0
    return empty


def sign(shop: Shop, **more: object) -> None:
    """Leave the note that a worker leaves."""
    value = {"host": "w1", "pid": 1, "since": 0, "handlers": [], "lanes": [], **more}
    with shop.app() as app:
        app.store.note(f"{worker_notes.WORKER}{more}", json.dumps(value), expires_in=30)


def test_a_sound_store_with_passes_is_in_order(sound: Shop) -> None:
    with sound.app() as app:
        app.run_due()
    found = findings(sound)
    assert {level for level, _, _ in found.values()} == {"ok"}
    assert found["workers"][1].startswith("none is running; last pass ")
    assert set(found) == {
        "version",
        "settings",
        "store",
        "durability",
        "permissions",
        "space",
        "clock",
        "workers",
        "lanes",
    }


def test_no_store_is_wrong_and_nothing_is_made(empty: Shop) -> None:
    level, said, remedy = findings(empty, code=1)["store"]
    assert (level, "no store" in said, "redrive init" in remedy) == ("bad", True, True)
    assert empty.names() == []


def test_jobs_without_a_worker_and_unserved_lanes_are_wrong(shop: Shop) -> None:
    found = findings(shop, code=1)
    assert found["workers"][0] == "bad"
    assert "2 jobs" in found["workers"][1]
    assert found["lanes"][:2] == ("bad", "jobs are due and no worker serves: pay.charge")


def test_workers_of_several_versions_are_told(sound: Shop) -> None:
    sign(sound, version="0.0.1")
    sign(sound, version=redrive.__version__)
    level, said, remedy = findings(sound)["workers"]
    assert (level, said) == ("warn", f"2 on w1, version 0.0.1, {redrive.__version__}")
    assert redrive.__version__ in remedy


def test_a_channel_that_cannot_send_is_told_here_and_by_who_works(
    sound: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    channel = '[alerts.channels.slack]\nurl_env = "SLACK_URL_OF_TEST"\n'
    Path("redrive.toml").write_text(f'store = "redrive.db"\n{channel}')
    level, said, _ = findings(sound)["alerts"]
    assert (level, said) == ("warn", "channel slack cannot send: SLACK_URL_OF_TEST is not set here")
    with Redrive("redrive.db", alerts=Alerts()) as app:
        app.run_due()
        app.run_due()
    assert [one.message for one in caplog.records if one.levelname == "WARNING"] == [
        "alerts: channel slack cannot send: SLACK_URL_OF_TEST is not set"
    ]
    monkeypatch.setenv("SLACK_URL_OF_TEST", "https://slack.example/x")
    assert "alerts" not in findings(sound)


def test_a_file_that_others_may_read_is_told(sound: Shop) -> None:
    Path("redrive.db").chmod(0o644)
    level, said, remedy = findings(sound)["permissions"]
    assert (level, "644" in said) == ("warn", True)
    assert remedy.startswith("chmod 600 ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_another_user_is_told(sound: Shop) -> None:
    os.chown("redrive.db", 65534, 65534)
    assert "uid 65534" in findings(sound)["permissions"][1]


def test_settings_that_mean_nothing_and_a_program_that_does_not_load(
    sound: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("redrive.toml").write_text('stoer = "x.db"\napp = "doctor_program:app"\n')
    found = findings(sound, code=1)
    assert found["settings"][0] == "warn"
    assert "stoer" in found["settings"][1]
    assert found["app"][0] == "bad"
    Path("doctor_program.py").write_text(PROGRAM)
    assert findings(sound)["app"][:2] == ("ok", "doctor_program:app has 1 handler")


def test_a_broken_settings_file_is_a_finding(sound: Shop) -> None:
    Path("redrive.toml").write_text("store = \n")
    assert findings(sound, code=1)["settings"][0] == "bad"


def test_memory_is_no_place_for_work(empty: Shop) -> None:
    level, said, _ = findings(empty, "--store", "memory:", code=1)["settings"]
    assert level == "bad"
    assert "exists only inside one process" in said


@each_row(
    "content, words",
    [(b"not ours at all, but long enough to be", "name another"), (b"", "init")],
)
def test_what_is_no_store_has_its_own_remedy(empty: Shop, content: bytes, words: str) -> None:
    Path("redrive.db").write_bytes(content)
    level, _, remedy = findings(empty, code=1)["store"]
    assert (level, words in remedy) == ("bad", True)


def test_a_server_that_is_away_is_a_finding(empty: Shop) -> None:
    url = "postgresql://ada:hunter22@127.0.0.1:1/jobs"
    level, said, remedy = findings(empty, "--store", url, code=1)["store"]
    assert (level, "server" in remedy) == ("bad", True)
    assert "hunter22" not in said
