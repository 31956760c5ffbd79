"""Words of other tools, a bare `redrive`, help pages, plurals."""

from __future__ import annotations

import json

import pytest

from ptykit import on_terminal
from redrive.cli.help import topics
from shopkit import Shop, dead_letter, name


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("requeue", "retry"),
        ("replay", "retry"),
        ("rerun", "retry"),
        ("dead", "dlq"),
        ("ls", "list"),
        ("ps", "status"),
        ("logs", "log"),
        ("worker", "work"),
        ("statsu", "status"),
        ("retrry", "retry"),
    ],
)
def test_a_word_of_another_tool_suggests_the_command(empty: Shop, word: str, meant: str) -> None:
    result = empty.run(word)
    assert result.exit_code == 2
    assert f"Did you mean `redrive {meant}`?" in result.stderr


def test_a_word_like_nothing_names_the_help(empty: Shop) -> None:
    assert "`redrive --help` lists the commands" in empty.run("xyzzyq").stderr


@pytest.mark.parametrize("word", ["shop.jobs:app", "app"])
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
    result = shop.run("prometheus", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stderr)["error"]["hint"] == "redrive metrics --json"


def test_one_job_is_not_called_jobs(shop: Shop) -> None:
    assert "1 job\n" in shop.run("resolve", name(1)).stdout
    needs = shop.run("retry", "G2")
    assert "retry of 1 job needs confirmation" in needs.stderr
    assert "1 jobs" not in shop.run("doctor").stdout


def test_help_lists_its_pages_and_shows_the_help_of_a_command(empty: Shop) -> None:
    listed = empty.run("help").stdout
    assert all(f"{topic}\t" in listed for topic in topics())
    assert "Usage: redrive retry" in empty.run("help", "retry").stdout
    assert empty.run("help", "nonsense").exit_code == 2


def test_a_terminal_gets_a_rendered_page(empty: Shop) -> None:
    shown = on_terminal("help", "selectors")
    assert b"\x1b[" in shown.raw
    assert "| word |" not in shown.text
    assert "handler:mail.*" in shown.text
    assert on_terminal("help", "selectors", rich=False).code == 0
