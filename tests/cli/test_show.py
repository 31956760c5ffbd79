"""W6, C2: one attempt, the payload alone, and a program that reproduces a failure."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from shopkit import Shop, dead_letter, name

PROGRAM = """
from redrive import Redrive

app = Redrive("redrive.db")

@app.handler("mail.send")
{kind} send(to: str, password: str) -> str:
    return f"sent to {{to}} with {{len(password)}} letters"
"""


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_program_it_prints_runs_and_holds_nothing_of_the_payload(shop: Shop, kind: str) -> None:
    Path("shop.py").write_text(PROGRAM.format(kind=kind), encoding="utf-8")
    result = shop.run("show", name(1), "--repro", "--app", "shop:app")
    assert result.exit_code == 0, result.stderr
    assert "ada@example.com" not in result.stdout
    assert "hunter22" not in result.stdout
    Path("repro.py").write_text(result.stdout, encoding="utf-8")
    done = subprocess.run([sys.executable, "repro.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "sent to ada@example.com with 8 letters\n", done.stderr
    assert shop.state_of(name(1)) == "dead"


def test_the_program_is_found_from_the_settings_or_asked_for(shop: Shop) -> None:
    assert shop.run("show", name(1), "--repro").exit_code == 2
    for wrong in ("shop", "shop:", ":app", "shop:app()", "x;import os:app"):
        assert shop.run("show", name(1), "--repro", "--app", wrong).exit_code == 2
    Path("redrive.toml").write_text('app = "shop.jobs:app"\n', encoding="utf-8")
    text = json.loads(shop.run("show", name(1), "--repro", "--json").stdout)["data"]["repro"]
    assert "from shop.jobs import app\n" in text


def test_a_hostile_name_cannot_leave_its_place_in_the_program(empty: Shop) -> None:
    evil = 'x\'\nimport os\n"""\u202e'
    empty.add(dead_letter(1, handler=evil))
    text = empty.run("show", name(1), "--repro", "--app", "shop:app").stdout
    assert text.isascii()
    assert not any(line.startswith("import os") for line in text.splitlines())
    compile(text, "repro", "exec")


def test_one_attempt_is_shown_in_full(shop: Shop) -> None:
    text = shop.run("show", name(1), "--attempt", "2").stdout
    assert "\nnumber\t2\n" in text
    assert "traceback\tConnectionError: mail.example refused the connection\n" in text
    data = json.loads(shop.run("show", name(1), "--attempt", "2", "--json").stdout)["data"]
    assert (data["id"], data["number"], data["error"]["type"]) == (name(1), 2, "ConnectionError")
    missing = shop.run("show", name(1), "--attempt", "9")
    assert missing.exit_code == 3
    assert "kept are: 3, 2, 1" in missing.stderr


def test_the_payload_alone_is_masked_json(shop: Shop) -> None:
    shown = json.loads(shop.run("show", name(1), "--payload").stdout)
    assert shown == {"to": "ada@example.com", "password": "•••"}


@pytest.mark.parametrize("run", [12, -12])
def test_a_job_says_which_run_it_belongs_to(empty: Shop, run: int) -> None:
    empty.add(replace(dead_letter(1), run=run))
    assert "\nrun\tR12\n" in empty.run("show", name(1)).stdout
    assert json.loads(empty.run("list", "R12", "--json").stdout)["data"][0]["run"] == "R12"
