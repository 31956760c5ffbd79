"""Issue 21 at the command line: `redrive import` with a mapping, from tables, queries and files."""

from __future__ import annotations

import json
import shlex
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import pgkit
from ptykit import on_terminal
from redrive.testing import ManualClock
from shopkit import Shop

TABLE = """
CREATE TABLE {name} (id {serial} PRIMARY KEY, body {json}, retry_count int, st text,
    "Last Error" text, created_at {time}, "次回ms" bigint);
INSERT INTO {name} (body, retry_count, st, "Last Error", created_at, "次回ms") VALUES
    ('{{"to":"ada","price":10.10}}', 3, 'failed', 'password=hunter22 refused', '2023-11-14T22:13:20Z',
     1700000060000),
    ('{{"to":"eve"}}', 0, 'waiting', NULL, '2023-11-14T22:13:20Z', NULL),
    ('{{"to":"bob"}}', 1, 'done', NULL, '2023-11-14T22:13:20Z', NULL),
    ('{{"to":"ivy"}}', 1, 'lost', NULL, '2023-11-14T22:13:20Z', NULL);
"""
LITE = {"serial": "integer", "json": "text", "time": "text"}
POSTGRES = {"serial": "bigserial", "json": "jsonb", "time": "timestamptz"}
MAP = (
    *("--map", "key=id", "--map", "payload=body", "--map", "attempts=retry_count"),
    *("--map", "state=st:failed=dead,waiting=pending,done=completed"),
    *("--map", "error=Last Error", "--map", "created=created_at", "--map", "due=次回ms"),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.delenv("REDRIVE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("old.db")) as db, db:
        db.executescript(TABLE.format(name="email_queue", **LITE))
    return Shop(tmp_path, clock=ManualClock(1_700_086_400.0))


def said(shop: Shop, *words: str, stdin: str | None = None) -> tuple[int, dict[str, Any]]:
    done = shop.run("import", *words, "--force", "--json", stdin=stdin)
    document = json.loads(done.stdout)
    return done.exit_code, document.get("data") or document


TABLE_WORDS = ("--table", "email_queue", "--from", "old.db", "--handler", "mail.send")


def test_a_hand_made_table_comes_in_once_and_what_is_bad_can_be_mended(place: Shop) -> None:
    code, data = said(place, *TABLE_WORDS, *MAP)
    assert (code, data["added"], data["bad"]) == (6, 3, 1)
    assert data["states"] == {"pending": 1, "completed": 1, "dead": 1}
    assert stat.S_IMODE(Path("email_queue.bad").stat().st_mode) == 0o600
    [dead] = place.run("list", "--state", "dead", "--ids").stdout.split()
    shown = place.run("show", dead)
    assert (shown.exit_code, "refused" in shown.stdout) == (0, True)
    assert "hunter22" not in shown.stdout
    assert "10.10" in place.run("export", dead).stdout
    code, data = said(place, *TABLE_WORDS, *MAP)
    assert (code, data["added"], data["known"]) == (6, 0, 3)
    mended = Path("email_queue.bad").read_text().replace('\\"lost\\"', '\\"failed\\"')
    Path("email_queue.bad").write_text(mended)
    code, data = said(place, "email_queue.bad", "--handler", "mail.send", *MAP)
    assert (code, data["added"], data["bad"]) == (0, 1, 0)
    with closing(sqlite3.connect("old.db")) as db, db:
        db.execute("UPDATE email_queue SET st = 'failed' WHERE id = 4")
    assert said(place, *TABLE_WORDS, *MAP)[1]["known"] == 4, "the mended row has the table's key"
    with closing(sqlite3.connect("old.db")) as db, db:
        db.execute("UPDATE email_queue SET retry_count = 9 WHERE id = 1")
    code, data = said(place, *TABLE_WORDS, *MAP)
    assert (code, data["differs"], data["known"]) == (6, 1, 3)


def test_the_same_table_in_postgresql_comes_in_by_table_and_by_query(place: Shop) -> None:
    name = pgkit.fresh_name()
    with pgkit.connect() as db:
        db.execute(TABLE.format(name=name, **POSTGRES).encode())
        words = ("--from", pgkit.url_of(), "--handler", "mail.send", *MAP)
        code, data = said(place, "--table", f"public.{name}", *words)
        assert (code, data["added"], data["bad"]) == (6, 3, 1)
        assert "10.10" in place.run("export", "--state", "dead").stdout, (
            "numbers keep their spelling"
        )
        query = f"SELECT * FROM {name} WHERE st <> 'lost'"
        code, data = said(place, "--query", query, "--name", f"public.{name}", *words)
        assert (code, data["known"]) == (0, 3)
        wild = place.run("import", "--query", f"DELETE FROM {name} RETURNING *", *words)
        assert wild.exit_code == 5
        db.execute("CREATE FUNCTION wild() RETURNS int LANGUAGE sql AS 'DELETE FROM pg_temp.t; SELECT 1'"
                   .replace("pg_temp.t", name).encode())  # fmt: skip
        assert place.run("import", "--query", "SELECT wild()", *words).exit_code == 5
        assert db.execute(f"SELECT count(*) FROM {name}".encode()).fetchone() == (4,)
        db.execute("DROP FUNCTION wild()")
        db.execute(f"DROP TABLE {name}".encode())


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM email_queue RETURNING *",
        "ATTACH 'new.db' AS other",
        "PRAGMA user_version = 7",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('x')",
        "SELECT nothing FROM nowhere",
    ],
)
def test_a_query_in_sqlite_only_reads(place: Shop, query: str) -> None:
    before = Path("old.db").read_bytes()
    done = place.run("import", "--query", query, "--from", "old.db", "--handler", "a", *MAP)
    assert done.exit_code == 5, done.output
    assert (Path("old.db").read_bytes(), Path("new.db").exists()) == (before, False)


def test_one_odd_value_in_a_database_costs_its_row_alone(place: Shop) -> None:
    words = ("--handler", "a", "--map", "key=id", "--map", "payload.to=t", "--set", "state=dead")
    with closing(sqlite3.connect("old.db")) as db, db:
        db.execute("CREATE TABLE odd AS SELECT 1 AS id, CAST(x'ff41' AS text) AS t")
        db.execute("INSERT INTO odd VALUES (2, 'b')")
    code, data = said(place, "--table", "odd", "--from", "old.db", *words)
    assert (code, data["added"], data["bad"]) == (6, 1, 1)
    query = (
        "SELECT * FROM (VALUES (3, 'infinity'::timestamptz), (4, '2023-11-14 22:13:20.5+00'),"
        " (5, '0044-03-15 12:00:00 BC'), (6, NULL)) AS v (id, t)"
    )
    words = (*words, "--map", "created=t", "--from", pgkit.url_of())
    code, data = said(place, "--query", query, *words)
    assert (code, data["added"], data["bad"]) == (6, 2, 2)
    twice = place.run("import", "--query", "SELECT 1 AS id, 2 AS id", *words)
    assert (twice.exit_code, "column id twice" in twice.stderr) == (2, True)


def test_a_table_beside_the_store_comes_in(place: Shop) -> None:
    Path("old.db").rename("redrive.db")
    assert place.run("init").exit_code != 0, "a file of another program is not taken over"
    assert place.run("init", "--store", "new.db").exit_code == 0
    with closing(sqlite3.connect("new.db")) as db, db:
        db.executescript(TABLE.format(name="email_queue", **LITE))
    words = ("--table", "email_queue", "--handler", "mail.send", *MAP, "--store", "new.db")
    assert said(place, *words)[1]["added"] == 3


def test_odd_names_are_identifiers_and_never_sql(place: Shop) -> None:
    with closing(sqlite3.connect("old.db")) as db, db:
        db.execute('CREATE TABLE "x; DROP TABLE email_queue" ("a.b" text, "c;--" text)')
        db.execute("INSERT INTO \"x; DROP TABLE email_queue\" VALUES ('k', 'v')")
    words = ("--table", "x; DROP TABLE email_queue", "--from", "sqlite:old.db", "--handler", "a")
    rules = ("--map", "key=a.b", "--map", "payload.c=c;--", "--set", "state=dead")
    assert said(place, *words, *rules)[1]["added"] == 1
    assert said(place, *TABLE_WORDS, *MAP)[1]["added"] == 3


def test_a_mapping_in_the_settings_is_used_by_its_name(place: Shop) -> None:
    Path("redrive.toml").write_text(
        """
        [import.mails]
        table = "email_queue"
        from = "sqlite:old.db"
        handler = "mail.send"
        where = ["st!=lost"]
        [import.mails.map]
        key = "id"
        payload = "body"
        state = "st:failed=dead,waiting=pending,done=completed"
        created = ["created_at", "次回ms"]
        """
    )
    code, data = said(place, "--mapping", "mails")
    assert (code, data["added"], data["filtered"]) == (0, 3, 1)
    words = ("--mapping", "mails", "--where", "st=done", "--map", "state=st:done=dead")
    assert said(place, *words)[1]["filtered"] == 3
    assert "import.mails.map.key" in place.run("doctor").stdout
    unknown = place.run("import", "--mapping", "nails")
    assert (unknown.exit_code, "found: mails" in unknown.stderr) == (2, True)
    Path("redrive.toml").write_text('[import.mails]\ntabel = "x"\n')
    wrong = place.run("import", "--mapping", "mails")
    assert (wrong.exit_code, "unknown keys: tabel" in wrong.stderr) == (2, True)


def test_nothing_is_imported_without_a_mapping(place: Shop) -> None:
    Path("f.csv").write_text("id,to\n1,ada\n")
    for words in (("--table", "email_queue", "--from", "old.db"), ("f.csv",)):
        refused = place.run("import", *words, "--force")
        assert refused.exit_code == 2
        assert "--guess" in refused.stderr
        assert not Path("redrive.db").exists()
    keyless = place.run("import", "f.csv", "--map", "payload.to=to", "--set", "state=dead",
                        "--handler", "a")  # fmt: skip
    assert (keyless.exit_code, "--map key=COLUMN" in keyless.stderr) == (2, True)


def test_a_guess_is_shown_with_its_rows_and_writes_nothing(place: Shop) -> None:
    before = set(place.names())
    done = place.run("import", "--table", "email_queue", "--from", "old.db", "--guess", "--json")
    assert done.exit_code == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    assert set(place.names()) == before
    assert {"key=id", "payload=body", "attempts=retry_count", "created=created_at"} <= {
        *data["map"]
    }
    assert "state=st:done=completed,failed=dead,lost=dead,waiting=pending" in data["map"]
    assert any("lost" in note for note in data["notes"])
    assert [row["state"] for row in data["rows"]] == ["dead", "pending", "completed", "dead"]
    assert "hunter22" not in done.stdout
    words = shlex.split(data["command"])
    assert words[:2] == ["redrive", "import"]
    code, taken = said(place, *words[2:])
    assert (code, taken["added"]) == (0, 4), "what was shown can be run as it is"


def test_a_guess_looks_into_objects(place: Shop) -> None:
    rows = [
        {"ref": f"a-{n}", "job": {"type": "resize", "args": {"w": n}},
         "info": {"status": "error", "error": "boom", "created_at": 1700000000000 + n}}
        for n in range(3)
    ]  # fmt: skip
    Path("f.json").write_text(json.dumps(rows))
    data = json.loads(place.run("import", "f.json", "--guess", "--json").stdout)["data"]
    assert data["map"] == [
        "key=ref", "state=info.status:error=dead", "error=info.error",
        "created=info.created_at", "handler=job.type", "payload=job.args",
    ]  # fmt: skip
    assert {row["state"] for row in data["rows"]} == {"dead"}
    Path("g.json").write_text('[{"a":1},{"a":1}]')
    keyless = place.run("import", "g.json", "--guess")
    assert (keyless.exit_code, "--map key=COLUMN" in keyless.stdout) == (0, True)


def test_a_guess_reads_other_languages_and_formats(place: Shop) -> None:
    head = "管理番号,宛先,件名,ステータス,リトライ回数,エラー内容,作成日時"
    rows = [f"{n},u{n}@example.org,件名{n},失敗,3,拒否,2023/11/15 07:13" for n in range(7)]
    Path("f.csv").write_text("\n".join([head, *rows]), "cp932")
    words = ("f.csv", "--encoding", "cp932", "--assume-tz", "Asia/Tokyo", "--handler", "mail.send")
    data = json.loads(place.run("import", *words, "--guess", "--json").stdout)["data"]
    assert data["map"] == [
        "key=管理番号", "state=ステータス:失敗=dead", "attempts=リトライ回数", "error=エラー内容",
        "created=作成日時:%Y/%m/%d %H:%M", "payload.宛先=宛先", "payload.件名=件名",
    ]  # fmt: skip
    assert len(data["rows"]) == 5
    assert data["rows"][0]["created"] == "2023-11-14T22:13:00Z"
    assert said(place, *shlex.split(data["command"])[2:])[1]["added"] == 7


def guess(shop: Shop, *words: str) -> dict[str, Any]:
    done = shop.run("import", *words, "--guess", "--json")
    assert done.exit_code == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def test_a_few_odd_rows_do_not_spoil_a_guess(place: Shop) -> None:
    """A key that a row repeats, a state that is an object and a count that is text cost their rows."""
    rows: list[dict[str, Any]] = [
        {"注文番号": n, "状態": "失敗", "回数": n, "info": "x", "時刻": 1700000000000}
        for n in range(8)
    ]
    rows += [rows[3], {**rows[4], "注文番号": None}, {**rows[5], "注文番号": 9, "回数": "many"}]
    rows += [{**rows[5], "注文番号": 10, "状態": {"a": 1}, "info": {"b": 1}}]
    Path("f.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = guess(place, "f.jsonl", "--handler", "a")
    assert data["map"] == [
        "key=注文番号", "state=状態:失敗=dead", "attempts=回数", "created=時刻",
        "payload.info=info",
    ]  # fmt: skip
    assert data["notes"] == [
        "some rows have no 注文番号, or that of another row; those are left out"
    ]
    code, taken = said(place, *shlex.split(data["command"])[2:])
    assert (code, taken["added"], taken["known"], taken["bad"]) == (6, 8, 1, 3)


def test_the_command_of_a_guess_makes_the_keys_that_it_shows(place: Shop) -> None:
    data = guess(place, *TABLE_WORDS, "--name", "emails", "--set", "state=dead")
    assert [row["key"] for row in data["rows"]][:1] == ["emails:1"]
    assert not any(text.startswith("state=") for text in data["map"])
    assert said(place, *shlex.split(data["command"])[2:])[1]["added"] == 4
    assert "emails:1" in place.run("export", "--state", "dead").stdout


def test_a_guess_shows_no_password_of_a_database_or_a_state(place: Shop) -> None:
    url = pgkit.url_of(password="canarypassword")
    data = guess(place, "--query", "SELECT 1 AS id", "--from", url)
    Path("f.csv").write_text("id,st\n1,failed\n2,failed\n3,password=canarypassword\n")
    assert "canarypassword" not in str(guess(place, "f.csv"))
    assert "--from postgresql://" in data["command"].replace("'", "")
    assert "canarypassword" not in str(data)


def test_a_header_in_another_encoding_is_refused_by_name(place: Shop) -> None:
    Path("f.csv").write_text("番号,状態\n1,失敗\n", "cp932")
    for words in (("--guess",), ("--map", "key=番号", "--map", "payload=*", "--set", "state=dead")):
        refused = place.run("import", "f.csv", "--handler", "a", *words)
        assert (refused.exit_code, "--encoding cp932" in refused.stderr) == (2, True)


def test_lines_that_hold_no_object_cost_themselves_alone(place: Shop) -> None:
    lines = [b'{"id":1}', b"[" * 5000 + b"]" * 5000, b"[1]", b'"a"', b'{"id":"\xff"}', b'{"id":2}']
    Path("f.jsonl").write_bytes(b"\n".join(lines))
    assert len(guess(place, "f.jsonl", "--handler", "a")["rows"]) == 3
    words = ("--map", "key=id", "--map", "payload=*", "--set", "state=dead", "--handler", "a")
    code, data = said(place, "f.jsonl", *words)
    assert (code, data["added"], data["bad"]) == (6, 2, 4)


def test_hostile_text_in_names_and_values_drives_no_terminal(place: Shop) -> None:
    odd = "\x1b[2J\x9b31m\u202e"
    Path("f.csv").write_text(f"id,st,to{odd}\n1,failed,x{odd}\n2,{odd},x\n")
    for words in (("--guess",), ("--map", "key=id", "--map", "state=st:failed=dead",
                                 "--map", "payload=*", "--handler", "a")):  # fmt: skip
        shown = on_terminal("import", "f.csv", *words, env={"NO_COLOR": "1"})
        raw = shown.raw.decode()
        assert "\x1b[2J" not in raw
        assert "\x9b" not in raw
        assert "\u202e" not in raw
    unknown = place.run("import", "f.csv", "--map", "key=no", "--set", "state=dead", "--map",
                        "payload=*", "--handler", "a")  # fmt: skip
    assert unknown.exit_code == 2
    assert "\x1b" not in unknown.stderr


def test_a_pipe_of_csv_and_of_json_lines_comes_in(place: Shop) -> None:
    words = ("-", "--handler", "a", "--map", "key=id", "--map", "payload=*", "--set", "state=dead")
    assert said(place, *words, stdin="id,to\n1,ada\n2,eve\n")[1]["added"] == 2
    assert said(place, *words, "--name", "b", stdin='{"id":1}\n{"id":2}\n')[1]["added"] == 2


def test_json_says_which_names_no_record_has_and_where_its_list_is(place: Shop) -> None:
    Path("f.json").write_text('{"jobs":[{"id":1,"to":"ada"},{"id":2,"to":"eve","cc":"x"}]}')
    rules = ("--map", "key=id", "--map", "payload.to=adress", "--map", "payload.cc=cc")
    words = ("f.json", *rules, "--set", "state=dead", "--handler", "a")
    inside = place.run("import", *words)
    assert (inside.exit_code, "--records NAME" in inside.stderr) == (2, True)
    assert "--records jobs" in place.run("import", "f.json", "--guess").stderr
    done = place.run("import", *words, "--records", "jobs")
    assert done.exit_code == 0, done.stderr
    assert "has a value for: adress\n" in done.stderr


def test_pending_rows_need_a_known_handler(place: Shop) -> None:
    """The same rule as for other imports; the app of the settings is known."""
    refused = place.run("import", *TABLE_WORDS, *MAP)
    assert refused.exit_code == 4
    assert "1 for mail.send" in refused.stderr
    assert not Path("redrive.db").exists()
    done = place.run("import", *TABLE_WORDS, *MAP, "--where", "st!=waiting,lost")
    assert done.exit_code == 0, done.stderr


def test_a_terminal_sees_a_bar_that_comes_to_its_end(place: Shop) -> None:
    Path("f.csv").write_text("id,to\n" + "".join(f"{n},u{n}\n" for n in range(2_000)))
    csv = ("f.csv", "--map", "key=id", "--map", "payload=*", "--set", "state=dead")
    for words in ((*csv, "--handler", "a"), (*TABLE_WORDS, *MAP, "--where", "st!=waiting,lost")):
        shown = on_terminal("import", *words, env={"CI": ""})
        assert shown.code == 0, shown.text
        assert "100%" in shown.text


def test_wrong_sources_say_what_to_name(place: Shop) -> None:
    for words, what in (
        (("--table", "nothing", "--from", "old.db", "--handler", "a", *MAP), "nothing"),
        (("--table", "t", "--from", "gone.db", "--handler", "a", *MAP), "--from sqlite:PATH"),
        (("--table", "t", "--from", "mysql://h/d", "--handler", "a", *MAP), "neither"),
        (("f", "--table", "t"), "name one source"),
    ):
        done = place.run("import", *words)
        assert done.exit_code in {2, 5}, done.output
        assert what in done.stderr
