"""Where a command finds its store, T6 and F35."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.config import Config, find
from redrive.errors import UsageError
from shopkit import Shop
from tablekit import each_row


def look(folder: Path, store: str | None = None, **environ: str) -> Config:
    return find(store=store, directory=folder, environ=environ)


def test_what_is_said_outright_wins_then_the_environment_then_the_file(tmp_path: Path) -> None:
    (tmp_path / "redrive.toml").write_text('store = "file.db"\napp = "shop:app"\n')
    said = look(tmp_path, "said.db", REDRIVE_STORE="env.db")
    assert (said.store, said.source, said.app) == ("said.db", "--store", "shop:app")
    env = look(tmp_path, REDRIVE_STORE="env.db")
    assert (env.store, env.source) == ("env.db", "REDRIVE_STORE")
    file = look(tmp_path, REDRIVE_STORE="")
    assert (file.store, file.source) == (f"{tmp_path}/file.db", f"{tmp_path}/redrive.toml")


def test_a_file_names_the_console(tmp_path: Path) -> None:
    (tmp_path / "redrive.toml").write_text('[web]\nname = "billing"\nenvironment = "production"\n')
    assert look(tmp_path).web == {"name": "billing", "environment": "production"}
    (tmp_path / "redrive.toml").write_text("[web]\nname = 3\n")
    with pytest.raises(UsageError, match=r"\[web\] in .* may hold name and environment"):
        look(tmp_path)


def test_without_anything_it_is_redrive_db_beside_you(tmp_path: Path) -> None:
    assert look(tmp_path) == Config()


@each_row(
    "file, text",
    [
        ("redrive.toml", '[redrive]\nstore = "x.db"\napp = "a:b"\n'),
        ("redrive.toml", 'store = "x.db"\napp = "a:b"\n'),
        ("pyproject.toml", '[tool.redrive]\nstore = "x.db"\napp = "a:b"\n'),
    ],
)
def test_a_file_above_counts_from_its_own_directory(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    found = look(tmp_path)
    assert (found.store, found.app, found.app_above) == (f"{tmp_path}/x.db", "a:b", None)
    found = look(below)
    assert (found.store, found.app, found.app_above) == (f"{tmp_path}/x.db", None, "a:b")


def test_the_nearest_file_wins_and_a_pyproject_about_others_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "redrive.toml").write_text('store = "above.db"\n')
    below = tmp_path / "below"
    below.mkdir()
    (below / "pyproject.toml").write_text("[tool.other]\nredrive = 1\n")
    assert look(below).store == f"{tmp_path}/above.db"
    (below / "pyproject.toml").write_text('[tool.redrive]\nstore = "below.db"\n')
    assert look(below).store == f"{below}/below.db"


@each_row(
    "text, words",
    [
        ("store = 7", "must be text"),
        ('store = ""', "must be text"),
        ("redrive = 7", "must be a table"),
        ("store = ", "not valid TOML"),
        ("\udcff", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "redrive.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=words) as caught:
        look(tmp_path)
    assert "redrive.toml" in str(caught.value)


def test_unknown_keys_are_named_on_standard_error(shop: Shop) -> None:
    Path("redrive.toml").write_text('stroe = "x.db"\n[redrive]\ncolour = 1\n')
    result = shop.run("status")
    assert result.exit_code == 0
    assert "stroe, colour" in result.stderr


def test_a_store_named_in_a_file_is_used_from_below(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("redrive.toml").write_text('store = "redrive.db"\n')
    below = shop.folder / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert shop.run("dlq").exit_code == 0
    monkeypatch.setenv("REDRIVE_STORE", "nowhere.db")
    assert shop.run("dlq").exit_code == 5


@pytest.mark.parametrize(
    "name",
    [
        "with space.db",
        "quo'te\".db",
        "new\nline.db",
        "per%cent?#.db",
        "-leading.db",
        "日本.db",
        "a:b.db",
        os.fsdecode(b"bytes\xff.db"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "jsonl:"])
def test_f35_odd_paths_work_or_are_refused_in_one_line(empty: Shop, name: str, scheme: str) -> None:
    store = f"--store={scheme}{'./' if not scheme else ''}{name}"
    made = empty.run("init", store)
    assert made.exit_code in {0, 2, 5}, made.output
    assert "Traceback" not in made.stderr
    if made.exit_code == 0:
        assert os.fsencode(name) in os.listdir(os.fsencode(empty.folder))  # noqa: PTH208
        assert empty.run("status", store).exit_code == 0
        assert empty.run("status", store, "--json").exit_code == 0
    assert len(made.stderr.splitlines()) <= 2


def shown(shop: Shop, *words: str) -> list[tuple[str, str, str]]:
    done = shop.run("doctor", "--json", *words)
    return [
        (one["name"], one["value"], one["source"])
        for one in json.loads(done.stdout)["data"]["settings"]
    ]


def test_doctor_shows_where_the_store_is_set_and_what_was_not_used(
    empty: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown(empty)[0] == ("store", "redrive.db", "default")
    Path("redrive.toml").write_text('store = "file.db"\napp = "shop:app"\n')
    file = str(empty.folder / "redrive.toml")
    assert shown(empty)[:2] == [
        ("store", str(empty.folder / "file.db"), file),
        ("app", "shop:app", file),
    ]
    monkeypatch.setenv("REDRIVE_STORE", "env.db")
    assert shown(empty)[:2] == [
        ("store", "env.db", "REDRIVE_STORE"),
        ("store (not used)", str(empty.folder / "file.db"), file),
    ]
    assert [name for name, _, _ in shown(empty, "--store", "said.db")][:3] == [
        "store",
        "store (not used)",
        "store (not used)",
    ]
    assert shown(empty, "--store", "said.db")[0] == ("store", "said.db", "--store")


def test_doctor_hides_secrets(empty: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_STORE", "postgresql://ada:hunter22@db/jobs?password=hunter33")
    monkeypatch.setenv("TOKEN_A", "hunter44")
    Path("redrive.toml").write_text(
        "[endpoints.api]\n"
        'url = "https://ada:hunter55@api.example/x?sig=hunter66"\n'
        'token_env = "TOKEN_A"\nsecret_env = ["ONE", "TWO"]\ntoken = "hunter77"\n'
        'headers = {X-Api-Key = "hunter88", X-Plain = "seen"}\n'
    )
    for words in (["--json"], ["--plain"]):
        assert "hunter" not in empty.run("doctor", *words).output
    found = {name: value for name, value, _ in shown(empty)}
    assert found["endpoints.api.token_env"] == "TOKEN_A (set)"
    assert found["endpoints.api.secret_env"] == "ONE (not set), TWO (not set)"
    assert found["endpoints.api.headers.X-Plain"] == "seen"


@pytest.mark.parametrize(
    "words",
    [
        "doctor",
        "alerts list",
        "work --once",
        "retry state:dead --inline --yes",
        "edit {job} --payload new.json --yes",
    ],
)
def test_an_app_that_a_file_above_names_is_not_imported(
    empty: Shop, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Whoever may write above must not choose what code runs here."""
    monkeypatch.setattr(sys, "path", [str(empty.folder), *sys.path])
    Path("above_program.py").write_text("raise SystemExit('imported')\n")
    Path("redrive.toml").write_text('store = "redrive.db"\napp = "above_program:app"\n')
    with Redrive("redrive.db") as app:
        job = app.handler("h")(lambda number: None).submit(1)
    Path("below").mkdir()
    monkeypatch.chdir("below")
    Path("new.json").write_text('{"number": 2}')
    done = empty.run(*words.format(job=job.id).split())
    assert "imported" not in done.output
    assert "not loaded" in done.output
    assert "above_program:app" in done.output


@each_row("words", ["status", "list", "groups", "pause mail", "init"])
def test_a_memory_store_is_refused_by_commands(empty: Shop, words: str) -> None:
    """It would be a new and empty one, which looks healthy."""
    done = empty.run("--store", "memory:", *words.split())
    assert done.exit_code == 2
    assert "a memory: store exists only inside one process" in done.output
    assert "name a file or a database with --store" in done.output


def test_a_pause_of_no_time_is_refused(empty: Shop) -> None:
    empty.run("init")
    done = empty.run("pause", "mail", "--for", "0")
    assert done.exit_code == 2
    assert "--for must be more than 0 seconds" in done.output
