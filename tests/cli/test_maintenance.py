"""Making, checking, cleaning and pausing, and one pass over what is due."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from redrive import Redrive
from shopkit import Shop, name
from tablekit import each_row

_numbers = itertools.count(1)


@each_row("url", ["redrive.db", "deep/er/x.db", "jsonl:x.jsonl"])
def test_init_makes_a_private_store_once_and_says_where(empty: Shop, url: str) -> None:
    made = json.loads(empty.run("init", "--store", url, "--json").stdout)["data"]
    path = Path(made["store"].partition(":")[2])
    assert made["created"] is True
    assert path.is_absolute()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = empty.run("init", "--store", url)
    assert again.exit_code == 0
    assert "already" in again.stdout
    assert empty.run("status", "--store", url).exit_code == 0


def test_reading_changes_nothing(shop: Shop) -> None:
    sides = {"redrive.db-shm", "redrive.db-wal"}  # SQLite's own, for readers too
    before, content = shop.names(), Path("redrive.db").read_bytes()
    for words in (["status"], ["dlq"], ["verify"], ["retry", "--all", "--dry-run"]):
        assert shop.run(*words).exit_code == 0
    assert set(shop.names()) - sides == set(before) - sides
    assert Path("redrive.db").read_bytes() == content


def test_verify_finds_damage_and_repairs_it(shop: Shop) -> None:
    url = "jsonl:x.jsonl"
    with Redrive(url, clock=shop.clock) as app, shop.app() as source:
        for number in (1, 2, 3):  # a batch each, so that the last is whole
            app.store.add([source.get(name(number))])
    sound = json.loads(shop.run("verify", "--store", url, "--json").stdout)["data"]
    assert (sound["ok"], sound["jobs"], sound["problems"]) == (True, 3, [])
    lines = Path("x.jsonl").read_bytes().splitlines(keepends=True)
    hurt = next(i for i, line in enumerate(lines) if name(2).encode() in line)
    lines[hurt] = lines[hurt].replace(b"hunter22", b"hunter33")
    Path("x.jsonl").write_bytes(b"".join(lines))
    found = shop.run("verify", "--store", url, "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["data"]["problems"]
    mended = shop.run("verify", "--repair", "--store", url, "--json")
    assert mended.exit_code == 0, mended.output
    assert json.loads(mended.stdout)["data"]["repaired"]
    assert shop.run("list", "--ids", "--store", url).stdout.split() == [name(3), name(1)]


def test_a_store_without_a_repair_says_so(shop: Shop) -> None:
    with closing(sqlite3.connect("redrive.db")) as file, file:
        file.execute("UPDATE jobs SET more = '{oops' WHERE id = ?", (name(1),))
    found = shop.run("verify")
    assert (found.exit_code, "--repair" in found.output) == (1, False), found.output
    result = shop.run("verify", "--repair")
    assert result.exit_code == 2
    assert "backup" in result.stderr


def test_pause_and_resume_are_shown_and_recorded(shop: Shop) -> None:
    result = shop.run("pause", "pay.charge", "--for", "90m", "--reason", "down", "--json")
    assert json.loads(result.stdout)["data"]["waiting"] == 2
    pauses = json.loads(shop.run("status", "--json").stdout)["data"]["pauses"]
    assert pauses == [{"lane": "pay.charge", "by": "ada", "reason": "down", "seconds_left": 5400.0}]
    assert shop.run("resume", "pay.charge").exit_code == 0
    assert shop.run("resume", "pay.charge").exit_code == 3
    verbs = [action["verb"] for action in json.loads(shop.run("log", "--json").stdout)["data"]]
    assert verbs == ["resume", "pause"]


def test_a_pause_of_a_lane_that_nobody_has_or_that_a_worker_made_is_told(shop: Shop) -> None:
    said = shop.run("pause", "mail")
    assert said.exit_code == 0
    assert said.stderr == "no job and no worker has the lane mail; did you mean mail.send?\n"
    assert "did you mean mail.send?" in shop.run("pause", "mial.send").stderr
    assert shop.run("pause", "provider:openai").stderr == ""
    with shop.app() as app:
        value = json.dumps({"by": "worker", "reason": "10 jobs failed in a row"})
        app.store.note("pause:mail.send", value)
    assert "replaces the pause that a worker set" in shop.run("pause", "mail.send").stderr
    assert shop.run("pause", "mail.send").stderr == ""


@each_row("words", [["pause", "a b"], ["pause", "mail", "--for", "soon"], ["pause"]])
def test_a_wrong_lane_or_time_is_refused(shop: Shop, words: list[str]) -> None:
    """A lane's name is never a path nor anything else."""
    assert shop.run(*words).exit_code == 2


PROGRAM = """
import sys
from redrive import Redrive, presets
from redrive.testing import ManualClock
app = Redrive("redrive.db", clock=ManualClock({now!r}))
@app.handler("mail.send", attempts=2)
def send(to, password):
    print("sending to", to)
    if to == "bad":
        raise ConnectionError("refused")
@app.handler("pay.charge", policy=presets.BATCH)
def charge():
    pass
other = 7
"""


@pytest.fixture
def program(empty: Shop, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program on disk, and its name; what importing it leaves behind is undone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = f"shop_program_{next(_numbers)}"
    Path(f"{module}.py").write_text(PROGRAM.format(now=empty.clock.now()))
    return module


def submit(shop: Shop, *names: str) -> None:
    with shop.app() as app:
        handler = app.handler("mail.send")(lambda to, password: None)
        for one in names:
            handler.submit(one, "x")


def test_work_once_makes_one_pass(empty: Shop, program: str) -> None:
    submit(empty, "ada", "bob")
    result = empty.run("work", f"{program}:app", "--once")
    assert result.exit_code == 0, result.output
    assert "succeeded\t2" in result.stdout
    assert "taken\t0" in empty.run("work", f"{program}:app", "--once").stdout


def test_work_ends_with_6_when_some_failed_and_keeps_them(empty: Shop, program: str) -> None:
    submit(empty, "bad", "ada")
    result = empty.run("work", f"{program}:app", "--once", "--json")
    assert result.exit_code == 6
    assert json.loads(result.stdout)["data"] == {
        "taken": 2,
        "succeeded": 1,
        "failed": 1,
        "died": 0,
        "returned": 0,
        "purged": 0,
        "missing": {},
    }
    assert "sending to ada" in result.stderr
    assert json.loads(empty.run("status", "--json").stdout)["data"]["failed"] == 1
    again = empty.run("work", f"{program}:app", "--once", "--ignore-backoff", "--json")
    assert json.loads(again.stdout)["data"]["died"] == 1


def test_a_pass_in_a_pipe_names_what_failed(empty: Shop, program: str) -> None:
    submit(empty, "bad", "bad", "ada")
    result = empty.run("work", f"{program}:app", "--once")
    assert result.exit_code == 6
    [named] = [line for line in result.stderr.splitlines() if "will be retried" in line]
    assert named.startswith("mail.send: 2 failed and will be retried: ")
    assert "Error: " in named


LACKING = """
from redrive import Redrive, fallback
from redrive.testing import ManualClock
app = Redrive("redrive.db", clock=ManualClock({now}))
ask = fallback(openai=lambda: "x")

@app.handler("mail.send")
def send(to, password):
    import no_such_library

@app.handler("ask")
def question():
    ask()
"""


def test_work_ends_with_1_when_a_library_is_missing_and_everybody_says_so(empty: Shop) -> None:
    module = f"shop_program_{next(_numbers)}"
    Path(f"{module}.py").write_text(LACKING.format(now=empty.clock.now()))
    submit(empty, "ada", "bob")
    why = "No module named 'no_such_library'"
    result = empty.run("work", f"{module}:app", "--once")
    assert result.exit_code == 1, result.output
    assert "returned\t1" in result.stdout
    assert f"handler mail.send cannot run here: {why}" in result.stderr
    again = empty.run("work", f"{module}:app", "--once", "--json")
    assert json.loads(again.stdout)["data"]["missing"] == {"mail.send": why}
    said = f"handler mail.send cannot run: {why}"
    status = json.loads(empty.run("status", "--json").stdout)["data"]
    assert status["unserved_because"] == {"mail.send": said}
    assert said in empty.run("status").stdout
    assert said in empty.run("doctor").stdout
    assert empty.run("doctor").exit_code == 1


def test_show_says_why_a_returned_job_waits(empty: Shop) -> None:
    module = f"shop_program_{next(_numbers)}"
    Path(f"{module}.py").write_text(LACKING.format(now=empty.clock.now()))
    with empty.app() as app:
        app.desk.lanes.pause("provider:openai", reason="too dear")
        job = app.handler("ask")(lambda: None).submit()
    result = empty.run("work", f"{module}:app", "--once", "--json")
    data = json.loads(result.stdout)["data"]
    assert (result.exit_code, data["taken"], data["returned"]) == (0, 0, 1)
    shown = empty.run("show", job.id).stdout
    assert "returned: no provider could be asked: openai" in shown
    assert "too dear" in shown


def test_the_app_may_be_named_in_the_file(empty: Shop, program: str) -> None:
    submit(empty, "ada")
    Path("redrive.toml").write_text(f'app = "{program}:app"\n')
    assert "succeeded\t1" in empty.run("work", "--once").stdout


@each_row("option", [["--ignore-backoff"], ["--limit", "3"]])
def test_options_of_a_pass_need_once(empty: Shop, program: str, option: list[str]) -> None:
    result = empty.run("work", f"{program}:app", *option)
    assert result.exit_code == 2
    assert "belong to --once" in result.stderr


@each_row(
    "app, words",
    [
        ("nowhere:app", "no module 'nowhere'"),
        ("{}:nothing", "has no 'nothing'"),
        ("{}:app.deep", "has no 'app.deep'"),
        ("{}:other", "is of the type int, not a Redrive object"),
        ("{}", "module:attribute"),
        ("broken:app", "importing broken failed: ModuleNotFoundError"),
        ("wrong:app", "importing wrong failed: SyntaxError"),
        ("leaves:app", "importing leaves failed: SystemExit"),
    ],
)
def test_a_program_that_cannot_be_loaded_is_explained(
    empty: Shop, program: str, app: str, words: str
) -> None:
    Path("broken.py").write_text("import not_there_at_all\n")
    Path("wrong.py").write_text("def (:\n")
    Path("leaves.py").write_text("raise SystemExit(3)\n")
    result = empty.run("work", app.format(program), "--once")
    assert result.exit_code in {1, 2}
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_work_on_another_store_is_refused_rather_than_ignored(empty: Shop, program: str) -> None:
    result = empty.run("work", f"{program}:app", "--once", "--store", "other.db")
    assert result.exit_code == 2
    assert "other.db" not in empty.names()


def test_the_password_of_another_store_is_not_shown(
    empty: Shop, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_STORE", "postgresql://ada:hunter22@db.example:x/jobs")
    result = empty.run("work", f"{program}:app", "--once")
    assert result.exit_code == 0
    assert "REDRIVE_STORE names another store" in result.stderr
    assert "hunter22" not in result.stderr


def test_a_log_line_of_the_worker_is_harmless(empty: Shop, program: str) -> None:
    """The library warns of each death; the text comes from strangers."""
    Path(f"{program}.py").write_text(
        PROGRAM.format(now=empty.clock.now()).replace('"refused"', r'"a\x1b[2J\nERROR: forged"')
    )
    submit(empty, "bad")
    words = ["work", f"{program}:app", "--once", "--ignore-backoff", "-v"]
    said = ""
    for _ in range(2):
        said += subprocess.run(
            [sys.executable, "-m", "redrive", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stderr
    assert "WARNING: dead_letter" in said
    assert "INFO: pass ended" in said
    assert "\x1b" not in said
    assert not re.search("^ERROR", said, re.MULTILINE)
