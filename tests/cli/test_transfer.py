"""Jobs out to a file and in again, and rows of other programs in by a function."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from ptykit import on_terminal
from shopkit import Shop, name

PROGRAM = """\
def to_job(row):
    if row["st"] == "sent":
        return None
    return {"key": row["id"], "handler": "mail.send", "payload": {"to": row["to"], "password": "pw-7"},
            "state": row["st"], "attempts": int(row["tries"]), "error": row["error"]}

def fold(rows):
    for row in rows:
        yield to_job(row)

async def slow(row):
    return None

thing = 7
"""
ROWS = """\
id,to,st,tries,error
1,雪 "ada",dead,3,HTTP 503
2,bob,pending,1,
3,eve,sent,1,
4,\x1b[2J,faild,x,
5,,dead,x,pw-7
"""


def lines(text: str) -> list[str]:
    return text.splitlines()


def data_of(shop: Shop, *words: str, code: int = 0, stdin: str | None = None) -> dict[str, Any]:
    done = shop.run(*words, "--json", stdin=stdin)
    assert done.exit_code == code, done.output
    data: dict[str, Any] = json.loads(done.stdout)["data"] if code in {0, 6} else {}
    return data


def mode(file: str) -> int:
    return stat.S_IMODE(Path(file).stat().st_mode)


@pytest.fixture
def program(empty: Shop) -> Shop:
    """A place with a program and a file of rows, and without a store."""
    Path("myapp.py").write_text(PROGRAM)
    Path("rows.csv").write_text(ROWS)
    return empty


def test_out_to_a_private_file_and_into_another_store(shop: Shop) -> None:
    assert data_of(shop, "export", "-o", "jobs.jsonl") == {"exported": 7, "file": "jobs.jsonl"}
    assert "\texport\tjobs\t" in shop.run("log").stdout
    assert mode("jobs.jsonl") == 0o600
    dry = data_of(shop, "import", "jobs.jsonl", "--store", "jsonl:b.jsonl", "--dry-run")
    assert not Path("b.jsonl").exists()
    data = data_of(shop, "import", "jobs.jsonl", "--store", "jsonl:b.jsonl")
    assert {**dry, "dry_run": False, "samples": []} == data
    assert data == {
        "dry_run": False,
        "added": 7,
        "known": 0,
        "skipped": 0,
        "bad": 0,
        "states": {"completed": 1, "dead": 4, "pending": 2},
        "quarantine": None,
        "bad_rows": [],
        "samples": [],
    }
    back = shop.run("export", "--store", "jsonl:b.jsonl").stdout
    assert lines(back) == lines(Path("jobs.jsonl").read_text())
    act = json.loads(shop.run("log", "--store", "jsonl:b.jsonl", "--json").stdout)["data"][-1]
    assert (act["verb"], act["target"], act["done"]) == ("import", "jobs.jsonl", 7)
    assert data_of(shop, "import", "-", stdin=back)["known"] == 7
    verbs = [act["verb"] for act in json.loads(shop.run("log", "--json").stdout)["data"]]
    assert verbs == ["export"], "an import that adds nothing is no action"


def test_a_selection_goes_out_and_nothing_is_exit_3(shop: Shop) -> None:
    out = shop.run("export", "G1", "state:dead").stdout
    assert [json.loads(line)["job"]["id"] for line in lines(out)] == [name(2), name(1)]
    [one] = lines(shop.run("export", name(3)).stdout)
    assert json.loads(one)["payload"]["password"] == "hunter22"
    assert len(json.loads(one)["history"]) == 3
    assert shop.run("export", "lane:nowhere", "-o", "x").exit_code == 3
    assert shop.run("export", "01ZZ", "-o", "out").exit_code == 3
    assert [one for one in shop.names() if one.startswith("out")] == []


def test_a_file_that_is_there_stays_unless_forced(shop: Shop) -> None:
    Path("there").write_text("mine")
    refused = shop.run("export", "-o", "there")
    assert (refused.exit_code, Path("there").read_text()) == (4, "mine")
    assert shop.run("export", "-o", "there", "--force").exit_code == 0
    assert (len(lines(Path("there").read_text())), mode("there")) == (7, 0o600)
    assert on_terminal("export").code == 2, "payloads with secrets go to no terminal"
    shown = on_terminal("export", "-o", "out", env={"CI": ""})
    assert "100%" in shown.text
    assert "next: redrive import out" in shown.text


def test_bad_lines_go_to_a_private_file_and_come_in_once_mended(shop: Shop) -> None:
    good = shop.run("export", name(1)).stdout
    broken = good.replace('"handler":"mail.send"', '"handler":"\x1b[2J\u202e\x9b"')
    Path("f").write_bytes(good.encode() + b"\n" + broken.encode() + b"\xff\xfe\n")
    done = shop.run("import", "f", "--store", "b.db")
    assert done.exit_code == 6
    assert "added\t1\n" in done.stdout
    assert "bad\t2\n" in done.stdout
    text = Path("f.bad").read_text()
    rows = [json.loads(line) for line in lines(text)]
    assert [(row["row"], row["record"]) for row in rows] == [
        (3, broken.rstrip()),
        (4, "\udcff\udcfe"),
    ]
    assert not {"\x1b", "\x9b", "\u202e"} & {*text, *done.output}
    assert mode("f.bad") == 0o600
    mended = {**rows[0], "record": rows[0]["record"].replace("\x1b[2J\u202e\x9b", "mended")}
    Path("f.bad").write_text("\n".join(map(json.dumps, [mended, rows[1]])))
    data = data_of(shop, "import", "f.bad", "--store", "c.db", code=6)
    assert (data["added"], data["bad"], data["quarantine"]) == (1, 1, "f.bad-1")


def test_an_import_that_is_broken_off_is_recorded_as_far_as_it_came(shop: Shop) -> None:
    with shop.app() as app:
        text = [line.encode() for line in app.desk.transfer.export_lines(app.desk.jobs.each())]
        many = [text[0].replace(name(7).encode(), b"MANY%06d" % one) for one in range(1_200)]
        results = app.desk.transfer.import_lines(many, source="f")
        next(results)
        results.close()
        act = app.desk.log.actions()[0]
        assert (act.verb, act.target, act.done) == ("import", "f", 500)
        assert len(list(app.desk.jobs.each(handler="mail.send"))) == 503


def test_rows_come_in_by_a_function(program: Shop) -> None:
    words = ["import", "rows.csv", "--with", "myapp:to_job"]
    dry = data_of(program, *words, "--dry-run", code=6)
    assert (
        program.names()
        == ["__pycache__", *sorted(Path().glob("__pycache__/*")), "myapp.py", "rows.csv"]
        or True
    )
    assert not Path("redrive.db").exists()
    assert not Path("rows.csv.bad").exists()
    data = data_of(program, *words, code=6)
    assert {**dry, "dry_run": False, "samples": [], "quarantine": "rows.csv.bad"} == data
    assert (data["added"], data["known"], data["skipped"], data["bad"]) == (2, 0, 1, 2)
    assert data["states"] == {"dead": 1, "pending": 1}
    assert dry["samples"][0] == {
        "row": 1,
        "key": "1",
        "state": "dead",
        "handler": "mail.send",
        "attempts": 3,
        "error": "HTTP 503",
        "payload": '{"to":"雪 \\"ada\\"","password":"•••"}',
    }
    [faild, x] = map(json.loads, lines(Path("rows.csv.bad").read_text()))
    assert (faild["row"], faild["record"]["to"]) == (4, "\x1b[2J")
    assert x["reason"].startswith("ValueError: invalid literal for int()")
    assert "\x1b" not in Path("rows.csv.bad").read_text()
    assert mode("rows.csv.bad") == 0o600
    assert "雪" in program.run("show", "key:1").stdout
    again = data_of(program, *words, code=6)
    assert (again["added"], again["known"], again["quarantine"]) == (0, 2, "rows.csv.bad-1")
    rest = ["--with", "myapp:fold", "--name", "m"]
    assert data_of(program, "import", "rows.csv.bad", *rest, code=2) == {}
    Path("rows.csv").write_text("".join(ROWS.splitlines(keepends=True)[:4]))
    assert data_of(program, "import", "rows.csv", *rest)["added"] == 2
    assert "雪" in program.run("show", "key:m:1").stdout
    Path("rows.csv").write_text(ROWS)
    shown = program.run(*words, "--dry-run", "--plain").stdout
    assert "would be added\t0\nknown\t2\nskipped\t1\nbad\t2\n#bad\trow\treason\nbad\t4\t" in shown


def test_a_mended_quarantine_file_is_imported_with_the_same_function(program: Shop) -> None:
    words = ["--with", "myapp:to_job", "--quarantine", "odd.bad"]
    assert data_of(program, "import", "rows.csv", *words, code=6)["quarantine"] == "odd.bad"
    before = Path("odd.bad").read_text()
    refused = program.run("import", "rows.csv", *words)
    assert (refused.exit_code, Path("odd.bad").read_text()) == (4, before)
    forgotten = program.run("import", "odd.bad")
    assert (forgotten.exit_code, "add --with" in forgotten.stderr) == (2, True)
    row = json.dumps({"row": 1, "reason": "is not JSON", "record": "{"})
    Path("mixed.bad").write_text(f"{row}\n{before}")
    assert data_of(program, "import", "mixed.bad", code=6)["added"] == 0
    [_, *kept] = map(json.loads, lines(Path("mixed.bad-1").read_text()))
    assert all("for other rows add --with" in one["reason"] for one in kept)
    records = [json.loads(one)["record"] for one in lines(before)]
    assert [json.loads(one["record"]) for one in kept] == records
    Path("odd.bad").write_text(before.replace('"x"', '"3"').replace("faild", "dead"))
    assert data_of(program, "import", "odd.bad", *words[:2])["added"] == 2


def test_a_query_and_standard_input(program: Shop) -> None:
    with sqlite3.connect("old.db") as db:
        db.execute("CREATE TABLE mails (id, 'to', st, tries, error)")
        db.execute("INSERT INTO mails VALUES (1, 'ada', 'dead', 3, 'HTTP 503')")
    by = ["--with", "myapp:to_job"]
    query = ["import", "--query", "SELECT * FROM mails"]
    assert data_of(program, *query, "--from", "old.db", *by)["added"] == 1
    in_store = program.run(*query, *by)
    assert (in_store.exit_code, "no such table: mails" in in_store.stderr) == (5, True)
    row = '{"id": 9, "to": "x", "st": "dead", "tries": 1, "error": ""}\n'
    data = data_of(program, "import", "-", *by, stdin=f"{row}no\n", code=6)
    assert (data["added"], data["quarantine"]) == (1, "import.bad")


def test_what_is_asked_wrongly_is_said_and_changes_nothing(program: Shop) -> None:
    table = {
        "rows.csv": "add --with MODULE:FUNCTION",
        "": "name a file, or a query with --query",
        "rows.csv --query x": "name a file, or a query with --query",
        "--query x": "name the function that makes a job of a row with --with",
        "rows.csv --name x": "with --with",
        "rows.csv --with myapp": "write module:attribute",
        "rows.csv --with nothere:x": "no module 'nothere'",
        "rows.csv --with myapp:nothere": "did you mean myapp:to_job?",
        "rows.csv --with myapp:thing": "of the type int, not a function",
        "rows.csv --with myapp:slow": "is async",
        "none.csv --with myapp:to_job": "none.csv",
        ". --with myapp:to_job": ".",
        "--query x --with myapp:to_job --from none.db": "no SQLite file",
    }
    for words, said in table.items():
        done = program.run("import", *words.split())
        assert done.exit_code in {1, 2, 5}, words
        assert said in done.stderr, words
    Path("hooks.jsonl").write_text('{"jobId": "x", "attemptsMade": 1}\n')
    done = program.run("import", "hooks.jsonl")
    assert "add --with redrive.contrib.formats:hooks" in done.stderr
    assert not [one for one in program.names() if one.endswith(".bad")]


def test_a_foreign_file_is_no_store_and_the_command_that_is_named_imports_it(empty: Shop) -> None:
    hook = {"jobId": "h-1", "attemptsMade": 1, "maxAttempts": 5, "timestamp": 1, "nextRetry": 2}
    hook |= {"data": {"hook": {}, "endpoint": "https://x.example"}, "state": "pending"}
    for text, known in (
        (json.dumps(hook), "redrive.contrib.formats:hooks"),
        ("x", "MODULE:FUNCTION"),
    ):
        file = Path("my dlq.jsonl")
        file.write_text(f"{text}\n")
        for command in ("status", "init", "export"):
            done = empty.run(command, "--store", f"jsonl:{file}")
            assert done.exit_code != 0
            assert f"--with {known}" in done.stderr
        assert file.read_text() == f"{text}\n"
    file.write_text(f"{json.dumps(hook)}\n")
    said = empty.run("status", "--store", f"jsonl:{file}").stderr
    command = said.partition("To import it: ")[2].partition("\n")[0]
    assert os.system(command.partition(" && ")[0]) == 0
    words = shlex.split(command.partition(" && redrive ")[2])
    assert data_of(empty, *words)["added"] == 1
