"""docs/exchange.md: its commands run, its tables say what the code does."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import pgkit
from exchangekit import MAKERS, article, file_of, hook, jobs, lines, take
from redrive.desk.transfer.formats.detect import FORMATS, OWN
from redrive.desk.transfer.rules import FIELDS, STATES
from shopkit import Shop

PROGRAM = """
from redrive import Redrive
app = Redrive("redrive.db")
app.handler("article.summarize")(lambda **article: None)
"""
PAGE = (Path(__file__).parents[2] / "docs" / "exchange.md").read_text("utf-8")


def rows(head: str) -> list[list[str]]:
    """The rows of the table whose first line begins so."""
    table = PAGE.partition(head)[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDRIVE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("hooks.jsonl").write_bytes(lines(hook(1)))
    Path("retry_queue.json").write_bytes(file_of("articles", article(1)))
    Path("newsroom.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    shop, name = Shop(tmp_path), pgkit.fresh_name()
    assert shop.run("init").exit_code == 0
    with closing(sqlite3.connect("shop.db")) as lite, lite:
        lite.execute("CREATE TABLE email_queue AS SELECT 1 AS id, 'failed' AS st, '{}' AS body")
    ran = 0
    with pgkit.connect() as db:
        db.execute(
            f"CREATE TABLE {name} AS SELECT 1 AS job_id, 'a1' AS article_id, 'pending' AS status,"
            " 0 AS retry_count, 3 AS max_retries, now() AS created_at".encode()
        )
        for line in re.findall(r"^\$ redrive (.*)$", PAGE, re.MULTILINE):
            said = line.replace("summarize_job_queue", name)
            said = said.replace("postgresql://host/shop", shlex.quote(pgkit.url_of()))
            done = shop.run(*shlex.split(said, comments=True))
            assert done.exit_code == 0, done.output
            ran += 1
        db.execute(f"DROP TABLE {name}".encode())
    assert ran == 6
    assert len(Path("jobs.jsonl").read_text().splitlines()) == 3
    assert len(Path("hooks-out.jsonl").read_text().splitlines()) == 1


def test_the_page_names_every_format_and_its_handler() -> None:
    found = {row[0].strip("`"): row[2].strip("`") for row in rows("| format | a record")}
    assert found.keys() == {OWN, *FORMATS}
    for name, make in MAKERS.items():
        [job] = jobs(take(file_of(name, make(1)))[0]).values()
        expected = "the `event_type" if name == "events" else job.handler
        assert found[name] == expected


def test_the_page_names_every_state_of_every_format() -> None:
    field = {"hooks": "state", "summaries": "status", "sync": "status", "events": "status"}
    for name, there, here in rows("| format | there"):
        for word in there.split(", ") if name in field else []:
            [job] = jobs(take(lines(MAKERS[name](1, **{field[name]: word})))[0]).values()
            ends = re.match(r"(\w+)(?: \((\w+))?(?:.*; dead \((\w+))?", here)
            assert ends is not None
            assert job.state.value in {ends[1], "dead" if ends[3] else ends[1]}
            if job.state == "dead":
                assert job.reason in {ends[2], ends[3]}


def test_the_page_names_every_field_and_state_of_a_mapping() -> None:
    table = PAGE.partition("| field | what it is")[2].partition("\n\n")[0]
    assert {*FIELDS} - {*re.findall(r"`([a-z_.]+)`", table)} == set()
    assert {*STATES} - {*re.findall(r"`([a-z_.]+)`", table)} == set()
