"""X1 to X5 at the command line: `redrive import` and `redrive export --format`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pgkit
from exchangekit import MAKERS, article, file_of, hook, lines, row
from ptykit import on_terminal
from redrive.testing import ManualClock
from shopkit import Shop

TOKYO = ("--assume-tz", "Asia/Tokyo")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.delenv("REDRIVE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path)
    assert shop.run("init").exit_code == 0
    return shop


def said(shop: Shop, *words: str, stdin: str | None = None) -> tuple[int, dict[str, Any]]:
    done = shop.run("import", *words, "--force", "--json", stdin=stdin)
    document = json.loads(done.stdout)
    return done.exit_code, document.get("data") or document


@pytest.mark.parametrize("name", MAKERS)
def test_in_out_and_in_again_is_the_identity(place: Shop, name: str) -> None:
    """X1, X2, X5: known by its shape, and a second time nothing changes."""
    Path("f").write_bytes(file_of(name, *map(MAKERS[name], range(3))))
    code, data = said(place, "f", *TOKYO)
    assert (code, data["added"], data["bad"]) == (0, 3, 0)
    assert said(place, "f", *TOKYO)[1]["known"] == 3
    words = ("export", "--format", name, *TOKYO, "-o", "out")
    assert place.run(*words).exit_code == 0
    assert place.run("init", "--store", "jsonl:b.jsonl").exit_code == 0
    code, data = said(place, "out", *TOKYO, "--store", "jsonl:b.jsonl")
    assert (code, data["added"]) == (0, 3)
    own = place.run("export").stdout
    assert place.run("export", "--store", "jsonl:b.jsonl").stdout == own


def test_one_file_may_hold_every_kind_of_record(place: Shop) -> None:
    own = place.run("export").stdout.encode()
    data = b"".join(lines(make(number)) for number in (1, 2) for make in MAKERS.values())
    Path("f").write_bytes(data + own + b"what?\n")
    code, told = said(place, "f", *TOKYO)
    assert (code, told["added"], told["bad"]) == (6, 10, 1)
    [bad] = map(json.loads, Path("f.bad").read_text().splitlines())
    assert (bad["line"], bad["offset"], bad["text"]) == (11, len(data), "what?")
    assert "not JSON" in bad["reason"]


def test_strict_is_all_or_nothing(place: Shop) -> None:
    """X1, F112."""
    Path("f").write_bytes(lines(hook(1), hook(2)) + b"what?\n")
    code, told = said(place, "f", "--strict")
    assert (code, told["added"], told["left"], told["bad"]) == (6, 0, 2, 1)
    assert place.run("list", "--ids").stdout == ""
    Path("f").write_bytes(lines(hook(1), hook(2)))
    code, told = said(place, "f", "--strict")
    assert (code, told["added"]) == (0, 2)


def test_strict_takes_nothing_in_when_a_key_is_another_jobs(place: Shop) -> None:
    with place.app() as app:
        app.handler("other")(lambda hook: None).options(key=hook(2)["jobId"]).submit(hook=1)
    Path("f").write_bytes(lines(hook(1), hook(2)))
    refused = place.run("import", "f", "--strict", "--force")
    assert refused.exit_code == 4
    assert hook(2)["jobId"] in refused.stderr
    assert len(place.run("list", "--ids").stdout.split()) == 1
    code, told = said(place, "f")
    assert (code, told["added"], told["bad"]) == (6, 1, 1)


def test_a_dry_run_counts_by_state_and_writes_nothing(place: Shop) -> None:
    """X4."""
    Path("f").write_bytes(lines(hook(1), hook(2, state="exhausted"), hook(3, state="resolved")))
    before = set(place.names())
    code, told = said(place, "f", "--dry-run", "--endpoint", "https://api.example/hooks")
    assert (code, told["added"]) == (0, 3)
    assert told["states"] == {"pending": 1, "completed": 1, "dead": 1}
    assert set(place.names()) - {"redrive.db-shm", "redrive.db-wal"} == before


def test_a_time_without_a_zone_stops_the_import(place: Shop) -> None:
    """X4: exit 2, nothing taken in, and the way to say it."""
    Path("f").write_bytes(file_of("articles", article()))
    stopped = place.run("import", "f")
    assert stopped.exit_code == 2
    assert "--assume-tz" in stopped.stderr
    assert place.run("list", "--ids").stdout == ""
    assert place.run("import", "f", "--assume-tz", "Atlantis/Center").exit_code == 2
    assert place.run("import", "f", "--assume-tz", "+09:00", "--force").exit_code == 0


def test_an_export_needs_no_zone(place: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """X5: times without a zone go out as the clock on the wall here shows them."""
    Path("f").write_bytes(file_of("articles", article()))
    assert said(place, "f", *TOKYO)[0] == 0
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        done = place.run("export", "--format", "articles")
        with place.app() as app:
            lines = list(app.desk.transfer.export_lines(app.desk.jobs.each(), format="articles"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert done.exit_code == 0, done.stderr
    [item] = json.loads(done.stdout)["queue"]["items"]
    assert item["created_at"] == article()["created_at"]
    assert json.loads("".join(lines))["queue"]["items"] == [item]


def test_on_a_terminal_the_zone_is_asked_for(place: Shop) -> None:
    Path("f").write_bytes(file_of("articles", article(1), article(2)))
    shown = on_terminal("import", "f", "--force", typed=b"Asia/Tokyo\n")
    assert shown.code == 0
    assert shown.text.count("Which one is it") == 1
    with place.app() as app:
        assert {job.created for job in app.desk.jobs.each()} == {1_700_000_000 - 1 - 9 * 3600}


URL = "https://api.example/hooks"
PROGRAM = """
from redrive import Redrive
app = Redrive("redrive.db")
app.handler("hook.post")(lambda hook, endpoint: None)
"""


def test_what_no_known_handler_runs_is_refused_before_anything_is_written(place: Shop) -> None:
    """R-HOOKS 9: with the options that help; with --force it waits."""
    good = lines(hook(1), hook(2, state="exhausted"))
    Path("f").write_bytes(good + b"what?\n")
    Path("g").write_bytes(good)
    for words in (("f",), ("g", "--strict"), ("f", "--handler", "nobody")):
        refused = place.run("import", *words)
        assert refused.exit_code == 4
        assert "1 pending records" in refused.stderr
        assert all(way in refused.stderr for way in ("--app", f"--endpoint {URL}", "--force"))
        assert not list(Path().glob("*.bad"))
        assert place.run("list", "--ids").stdout == ""
    new = place.run("import", "f", "--store", "new.db")
    assert (new.exit_code, Path("new.db").exists()) == (4, False)
    code, told = said(place, "f")
    assert (code, told["states"]) == (6, {"pending": 1, "dead": 1})
    assert told["unserved"] == [{"handler": "hook.post", "url": URL, "jobs": 1}]
    assert "hook.post" in place.run("status").stdout


def test_a_pipe_is_looked_at_first_too(place: Shop) -> None:
    text = lines(hook(1)).decode()
    assert place.run("import", "-", stdin=text).exit_code == 4
    done = place.run("import", "-", "--endpoint", URL, stdin=text)
    assert (done.exit_code, place.run("list", "--state", "pending", "--ids").stdout != "") == (
        0,
        True,
    )


@pytest.mark.parametrize("way", ["--endpoint", "--app", "app", "worker", "--handler"])
def test_hooks_that_a_known_handler_runs_are_taken_in(
    place: Shop, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-HOOKS 9: handlers of --app, of redrive.toml and of live workers; URLs of --endpoint."""
    monkeypatch.syspath_prepend(str(place.folder))
    monkeypatch.delitem(sys.modules, "hookprogram", raising=False)
    Path("hookprogram.py").write_text(PROGRAM)
    Path("f").write_bytes(lines(hook(1)))
    words: tuple[str, ...] = ()
    if way == "--endpoint":
        words = ("--endpoint", URL)
    elif way == "--app":
        words = ("--app", "hookprogram:app")
    elif way == "app":
        Path("redrive.toml").write_text('app = "hookprogram:app"\n')
    elif way == "--handler":
        Path("redrive.toml").write_text(f'[endpoints.api]\nurl = "{URL}"\n')
        assert "--handler api" in place.run("import", "f").stderr
        words = ("--handler", "api")
    else:
        with place.app() as app:
            app.handler("hook.post")(lambda hook, endpoint: None)
            app.run_due()
    done = place.run("import", "f", *words)
    assert done.exit_code == 0, done.stderr
    with place.app() as app:
        [job] = app.desk.jobs.each()
    assert (job.state, job.handler) == ("pending", "api" if way == "--handler" else "hook.post")


def test_a_hook_for_another_url_than_the_endpoints_is_not_taken_in_for_it(place: Shop) -> None:
    Path("redrive.toml").write_text('[endpoints.api]\nurl = "https://other.example/hooks"\n')
    Path("f").write_bytes(lines(hook(1)))
    assert place.run("import", "f", "--handler", "api").exit_code == 4


def test_lines_of_our_own_need_no_handler_that_is_known(place: Shop) -> None:
    Path("f").write_bytes(lines(hook(1)))
    said(place, "f")
    assert place.run("export", "-o", "own").exit_code == 0
    done = place.run("import", "own", "--store", "new.db")
    assert done.exit_code == 0, done.stderr


def test_who_runs_them_can_be_said(place: Shop) -> None:
    Path("f").write_bytes(lines(row(1)))
    assert said(place, "f", "--handler", "summary.make")[0] == 0
    assert place.run("export", "--handler", "summary.make").stdout.count("\n") == 1


def test_jobs_that_a_format_cannot_hold_are_counted(place: Shop) -> None:
    """X5."""
    Path("f").write_bytes(lines(hook(1), row(1)))
    said(place, "f")
    done = place.run("export", "--format", "hooks", "-o", "out")
    assert done.exit_code == 6
    assert "left out, because hooks cannot hold them: 1 (its payload has no hook)" in done.stderr
    assert len(Path("out").read_text().splitlines()) == 1


def test_a_wrong_call_says_what_is_missing(place: Shop) -> None:
    assert place.run("import").exit_code == 2
    assert place.run("import", "f", "--table", "t").exit_code == 2
    assert place.run("import", "f", "--format", "csv").exit_code == 2


TABLE = """
CREATE TABLE {name} (job_id bigserial PRIMARY KEY, article_id text NOT NULL, status text NOT NULL,
    retry_count int NOT NULL DEFAULT 0, max_retries int NOT NULL DEFAULT 3, error_message text,
    created_at {kind} NOT NULL DEFAULT now(), started_at {kind}, completed_at {kind}, note jsonb);
INSERT INTO {name} (article_id, status, retry_count, error_message, note) VALUES
    ('a1', 'pending', 0, NULL, NULL), ('a2', 'running', 1, 'timed out', NULL),
    ('a3', 'failed', 3, 'timed out', NULL), ('a3', 'dead_letter', 3, 'timed out', '{{"n": 1}}'),
    ('a4', 'completed', 1, 'timed out', NULL), ('a5', 'lost', 0, NULL, NULL);
"""


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp"])
def test_a_table_of_jobs_comes_in(place: Shop, kind: str) -> None:
    """R-SUMMARIES 8: from an existing table, into another store or beside it."""
    name = pgkit.fresh_name()
    place.clock = ManualClock(2_000_000_000)
    with pgkit.connect() as db:
        db.execute(TABLE.format(name=name, kind=kind).encode())
        words = ("--table", f"public.{name}", "--from", pgkit.url_of())
        if kind == "timestamp":
            assert place.run("import", *words).exit_code == 2
        code, told = said(place, *words, "--assume-tz", "UTC")
        assert (code, told["added"], told["bad"]) == (6, 5, 1)
        assert told["states"] == {"pending": 2, "completed": 1, "dead": 2}
        assert said(place, *words, "--assume-tz", "UTC")[1]["known"] == 5
        assert json.loads(Path(f"public.{name}.bad").read_text())["line"] == 6
        assert db.execute(f"SELECT count(*) FROM {name}".encode()).fetchone() == (6,)
        db.execute(f"DROP TABLE {name}".encode())
    exported = place.run("export", "--format", "summaries").stdout
    assert '"note":{"n":1}' in exported
    gone = place.run("import", *words)
    assert (gone.exit_code, name in gone.stderr) == (5, True)


@pytest.mark.parametrize("name", ['a"b', "a.b.c", ""])
def test_a_table_s_name_is_a_name(place: Shop, name: str) -> None:
    words = ("--table", name, "--from", "postgresql://nowhere.invalid/x")
    assert place.run("import", *words).exit_code == 2


def test_what_is_in_quarantine_can_be_mended_and_taken_in(place: Shop) -> None:
    """X1."""
    Path("f").write_bytes(lines(hook(1, state="gone"), hook(2)) + b"\xff\xfe\n")
    assert said(place, "f")[1]["bad"] == 2
    mended = Path("f.bad").read_text().replace('\\"gone\\"', '\\"exhausted\\"')
    Path("mended").write_text(mended)
    code, told = said(place, "mended")
    assert (code, told["added"], told["bad"]) == (6, 1, 1)
    assert len(Path("mended.bad").read_text().splitlines()) == 1


def test_a_handler_that_cannot_be_is_refused_before_anything_is_read(place: Shop) -> None:
    Path("f").write_bytes(lines(hook(1)))
    assert place.run("import", "f", "--handler", "no name").exit_code == 2


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nowhere/out.jsonl", "no such directory: nowhere"),
        ("folder", "Is a directory: folder"),
        ("file/out.jsonl", "Not a directory: file/out.jsonl"),
    ],
)
def test_a_file_that_cannot_be_made_is_named_as_it_was_asked_for(
    place: Shop, where: str, said: str
) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    done = place.run("export", "-o", where, "--force")
    assert done.exit_code == 1
    assert said in done.stderr
    assert ".part-" not in done.stderr
    assert not list(Path().rglob("*.part-*"))
