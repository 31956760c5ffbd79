"""Errors are one line with a remedy, on standard error, with the right exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from redrive.cli import lists
from redrive.cli._root import root
from redrive.errors import (
    BadPayload,
    KeyConflict,
    RedriveError,
    Refused,
    StoreBusy,
    StoreFull,
    StoreMissing,
    UsageError,
)
from shopkit import Shop, name
from tablekit import each_row

READING = [
    ["status"],
    ["dlq"],
    ["failed"],
    ["list"],
    ["show", "ABCDEF"],
    ["groups"],
    ["log"],
    ["verify"],
]
ACTING = [
    ["retry", "--all", "--yes"],
    ["retry", "--all", "--dry-run"],
    ["resolve", "G1", "--yes"],
    ["discard", "G1", "--yes", "--reason", "x"],
    ["reopen", "G1", "--yes"],
    ["pause", "mail"],
    ["resume", "mail"],
    ["purge", "state:dead", "--yes"],
    ["verify", "--repair"],
]


@each_row("url", ["redrive.db", "deep/er/x.db", "jsonl:x.jsonl"])
@each_row("words", READING + ACTING)
def test_no_command_but_init_makes_a_store(empty: Shop, words: list[str], url: str) -> None:
    result = empty.run(*words, "--store", url)
    assert result.exit_code == 5
    assert "no store at" in result.stderr
    assert "redrive init" in result.stderr
    assert empty.names() == []


def test_errors_of_json_are_a_document_on_standard_error(empty: Shop) -> None:
    result = empty.run("status", "--json")
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert error["code"] == "store_missing"
    assert set(error) == {"code", "message", "hint"}
    assert json.loads(empty.run("--json", "lst").stderr)["error"]["code"] == "usage"


@each_row(
    "error, code",
    [
        (UsageError("x"), 2),
        (BadPayload("x"), 2),
        (KeyConflict("x"), 4),
        (Refused("x"), 4),
        (StoreMissing("x"), 5),
        (StoreBusy("x"), 5),
        (StoreFull("x"), 5),
        (RedriveError("x"), 1),
        (PermissionError(13, "Permission denied", "f"), 1),
        (BrokenPipeError(32, "Broken pipe"), 0),
    ],
)
def test_each_error_has_its_exit_code(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.setattr(lists, "_show", lambda *_: (_ for _ in ()).throw(error))
    result = shop.run("list")
    assert result.exit_code == code
    assert "Traceback" not in result.stderr


def test_a_mistake_of_ours_is_shown_whole_but_harmless(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake = ZeroDivisionError("\x1b[2J")
    monkeypatch.setattr(lists, "_show", lambda *_: (_ for _ in ()).throw(mistake))
    result = shop.run("list")
    assert result.exit_code == 1
    assert "please report it" in result.stderr
    assert "\x1b" not in result.stderr


def test_every_help_starts_with_three_examples() -> None:
    commands = [[], *([command] for command in root.list_commands(None))]  # type: ignore[arg-type]
    assert len(commands) > 15
    for command in commands:
        for option in ("--help", "-h"):
            result = CliRunner().invoke(root, [*command, option])
            lines = result.stdout.splitlines()
            assert result.exit_code == 0, (command, result.output)
            assert lines[0] == "Examples:"
            assert [
                line.startswith("  redrive ") or " | redrive " in line for line in lines[1:4]
            ] == [True] * 3


def test_no_command_shows_the_help_and_version_the_version(empty: Shop) -> None:
    assert empty.run().stdout.startswith("Examples:")
    assert empty.run("--version").stdout == "redrive 0.1.0\n"


@each_row("option", ["--store="])
def test_an_empty_store_name_is_refused(empty: Shop, option: str) -> None:
    assert empty.run("list", option).exit_code == 2


def test_json_and_plain_together_are_refused(shop: Shop) -> None:
    for words in (["list", "--json", "--plain"], ["--plain", "list", "--json"]):
        result = shop.run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "not both" in json.loads(result.stderr)["error"]["message"]


def test_an_empty_filter_is_refused_by_its_name(shop: Shop) -> None:
    for term in ("handler", "lane", "group", "tag", "text", "category", "state", "age"):
        result = shop.run("list", f"{term}:")
        assert (result.exit_code, f"'{term}:' is empty" in result.stderr) == (2, True)


def test_a_wrong_age_is_shown_with_what_is_meant(shop: Shop) -> None:
    for age in (">2x", "2h", "soon", ">-1s"):
        result = shop.run("list", f"age:{age}")
        assert result.exit_code == 2
        said = f"age must be like age:>2h (older) or age:<1h30m (newer), with the units s, m, h, d, w; found 'age:{age}'"
        assert said in " ".join(result.stderr.split())


@each_row("command", ["list", "retry", "show"])
def test_the_shells_file_names_are_explained_where_an_id_was_expected(
    shop: Shop, command: str
) -> None:
    for file in ("mail.py", "z"):
        Path(file).touch()
    for word in ("mail.py", "z"):
        result = shop.run(command, word)
        assert result.exit_code in {2, 3}
        assert ("is a file here" in result.stderr) == (command != "show")


@each_row("command", ["list", "retry", "show"])
def test_a_word_that_is_no_job_is_always_answered_alike(shop: Shop, command: str) -> None:
    said = {word: shop.run(command, word).stderr for word in ("nonsense", "z", "a.b!")}
    for word, text in said.items():
        assert text.startswith(f"error: no job {word!r}; ids look like 01J")
        assert text == said["z"].replace("'z'", repr(word))


def test_an_ambiguous_beginning_lists_the_jobs_it_may_mean(shop: Shop) -> None:
    for command in ("list", "retry", "show"):
        result = shop.run(command, "01J9ZQ4B")
        assert result.exit_code == 2
        assert all(name(number) in result.stderr for number in range(3, 8))
        assert name(2) not in result.stderr
        assert "and more; type more of it" in result.stderr


def test_a_foreign_file_is_refused_with_its_path(empty: Shop) -> None:
    Path("notes.txt").write_text("shopping list, quite long enough to be a file of its own\n" * 50)
    for url in ("notes.txt", "jsonl:notes.txt"):
        for words in (["list"], ["retry", "--all", "--yes"], ["init"]):
            result = empty.run(*words, "--store", url)
            assert result.exit_code == 5, (url, words, result.output)
            assert "notes.txt" in result.stderr
    assert Path("notes.txt").read_text().startswith("shopping list")


def test_a_directory_is_no_store(empty: Shop) -> None:
    Path("folder").mkdir()
    assert empty.run("list", "--store", "folder").exit_code == 5


def test_whoever_reads_us_may_stop_reading(shop: Shop) -> None:
    """`redrive list | head -1`: no traceback, no complaint at exit."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "redrive", "list"],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_full_disk_behind_standard_output_is_an_error(shop: Shop) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "redrive", "show", name(1)],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert b"No space left" in ended.stderr
    assert b"Traceback" not in ended.stderr
