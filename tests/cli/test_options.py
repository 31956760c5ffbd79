"""The options that all commands share, and what the environment says about colours."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from ptykit import on_terminal
from shopkit import Shop, name


def piped(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "redrive", *words],
        env={**os.environ, "TERM": "xterm-256color", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_jsonl_has_one_thing_a_line(shop: Shop) -> None:
    lines = shop.run("list", "state:dead", "--jsonl").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [name(4), name(3), name(2), name(1)]
    [status] = shop.run("--jsonl", "status").stdout.splitlines()
    assert json.loads(status)["dead_letter_queue"] == 4


def test_jsonl_says_on_stderr_where_it_goes_on_and_errors_are_json(shop: Shop) -> None:
    done = shop.run("list", "--jsonl", "--limit", "2")
    assert len(done.stdout.splitlines()) == 2
    assert "--cursor" in done.stderr
    wrong = shop.run("show", "01ZZZZ", "--jsonl")
    assert json.loads(wrong.stderr)["error"]["code"] == "job_not_found"


def test_options_stand_before_or_after_the_command(shop: Shop) -> None:
    for option in ("--plain", "--json", "--jsonl", "--no-color", "-q", "-v"):
        for words in ([option, "dlq"], ["dlq", option]):
            assert shop.run(*words).exit_code == 0


def test_yes_may_stand_before_the_command(shop: Shop) -> None:
    assert shop.run("resolve", "G1").exit_code == 2
    assert shop.run("--yes", "resolve", "G1").exit_code == 0
    assert shop.state_of(name(1)) == "resolved"
    assert shop.run("--yes", "dlq").exit_code == 0


def test_quiet_leaves_out_the_next_command_and_the_bar(shop: Shop) -> None:
    assert "next:" in on_terminal("dlq").text
    assert "next:" not in on_terminal("dlq", "-q").text
    assert "%" not in on_terminal("export", "-o", "f", "-q").text


def test_no_color_by_option_is_as_by_environment(shop: Shop) -> None:
    assert b"\x1b" in on_terminal("dlq").raw
    shown = on_terminal("dlq", "--no-color")
    assert b"\x1b" not in shown.raw
    assert shown.raw == on_terminal("dlq", env={"NO_COLOR": "1"}).raw


def test_force_color_draws_into_a_pipe_unless_plain_is_asked_for(shop: Shop) -> None:
    assert "\x1b" not in piped("dlq").stdout
    assert "\x1b" in piped("dlq", FORCE_COLOR="1").stdout
    assert piped("dlq", "--plain", FORCE_COLOR="1").stdout == piped("dlq").stdout
    assert piped("dlq", FORCE_COLOR="0").stdout == piped("dlq").stdout
