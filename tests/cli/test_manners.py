"""Words that people try, a bare `redrive`, help, plurals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

import redrive
from ptykit import on_terminal
from redrive.cli._root import root
from shopkit import Shop, dead_letter, name
from tablekit import each_row


def test_a_word_that_people_try_suggests_the_command(empty: Shop) -> None:
    known = {"requeue": "retry", "ls": "list", "cancel": "discard", "statsu": "status"}
    for word, meant in known.items():
        result = empty.run(word)
        assert result.exit_code == 2
        assert f"Did you mean `redrive {meant}`?" in result.stderr
    assert "Did you mean" not in empty.run("xyzzyq").stderr


@each_row("word", ["shop.jobs:app", "app"])
def test_run_with_a_program_names_the_worker(empty: Shop, word: str) -> None:
    result = empty.run("run", word)
    assert result.exit_code == 2
    assert f"{word!r} is not a run" in result.stderr
    assert "redrive work MODULE:APP" in result.stderr


def test_a_bare_redrive_is_status_where_there_is_a_store_else_the_help(empty: Shop) -> None:
    result = empty.run()
    assert result.exit_code == 0
    assert result.stdout.startswith("Examples:\n")
    assert empty.names() == []
    empty.add(dead_letter(1))
    assert empty.run().stdout == empty.run("status").stdout
    assert (
        empty.run("--json", "--store", "redrive.db").stdout == empty.run("status", "--json").stdout
    )
    assert "no store at" in empty.run("--store", "nowhere.db").stderr


def test_prometheus_refuses_json(shop: Shop) -> None:
    result = shop.run("metrics", "--prometheus", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["error"]["hint"] == "redrive metrics --json"


def test_one_job_is_not_called_jobs(shop: Shop) -> None:
    assert "1 job\n" in shop.run("resolve", name(1)).stdout
    needs = shop.run("retry", "G2")
    assert "retry of 1 job needs confirmation" in needs.stderr
    assert "1 jobs" not in shop.run("doctor").stdout


def test_help_is_markdown_on_a_terminal_and_plain_elsewhere(empty: Shop) -> None:
    assert "\n  retry " in empty.run("help").stdout
    plain = empty.run("help", "retry").stdout
    assert plain == empty.run("retry", "--help").stdout
    assert json.loads(empty.run("help", "retry", "--json").stdout)["data"]["help"] in plain
    assert empty.run("help", "nonsense").exit_code == 2
    shown = on_terminal("help", "retry")
    assert b"\x1b[" in shown.raw
    assert "```" not in shown.text
    assert "--canary N" in shown.text
    assert "Usage: redrive retry" in on_terminal("help", "retry", rich=False).text


def test_the_commands_that_texts_name_exist_with_their_options() -> None:
    named = set[str]()
    for file in Path(redrive.__file__).parent.rglob("*.py"):
        named |= {*re.findall(r"""["`](redrive [a-z][^"`{}…,;:(\n]*)""", file.read_text("utf-8"))}
    assert len(named) > 60
    for text in named:
        _, name, *words = text.split()
        command = root.get_command(click.Context(root), name)
        assert command, text
        known = {option for one in command.params for option in one.opts}
        assert {word for word in words if word.startswith("--")} <= known, text
