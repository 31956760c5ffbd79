"""Text from jobs can neither drive the terminal nor forge a line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product

import pytest
from rich.cells import cell_len

from kit import make_failure
from ptykit import on_terminal
from redrive.jobs.job import Category
from shopkit import Shop, dead_letter, name

ATTACKS = {
    "clear screen": "\x1b[2J\x1b[H",
    "window title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "C1": "\x9b31m\x9d0;owned\x9c",
    "overwrite": "good\rroot: granted\b\b\b",
    "forged line": "x\n2\tFORGED\tline\n",
    "bidi": "\u202eevil\u202c\u2066x\u2069\u200f",
    "no width": "a\u200bb\ufeffc\u00add",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "markup": "[/bold][red]x[/red][link=http://evil.example]y[/link] [/foo]",
    "delete": "\x7f\x00\x01",
}
SOUP = "".join(ATTACKS.values())

VIEWS = [
    ["status"],
    ["dlq"],
    ["list"],
    ["list", "--ids"],
    ["show", name(1)],
    ["show", name(1), "--payload"],
    ["groups"],
    ["group", "G1"],
    ["metrics"],
    ["run"],
    ["run", "R1"],
    ["log"],
    ["log", "--run", "R1"],
    ["retry", "--all", "--dry-run"],
]
# Everything below a space but line feed and tab, DEL, C1, and what reorders or hides text.
DRIVING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u00ad]"
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def fill(shop: Shop, text: str) -> None:
    failure = make_failure(
        Category.TRANSIENT,
        type=text,
        message=text,
        why=text,
        code=text,
        title=text,
        request_id=text,
        fingerprint="f",
        traceback=f"Traceback\n  {text}\n{text}\n",
    )
    job = dead_letter(
        1,
        failure,
        handler=text,
        payload=json.dumps({text: text, "list": [text]}),
        detail=text,
        key=text,
        tags=(text,),
        release=text,
        origin={"from": text},
    )
    history = tuple(replace(a, worker=text, provider=text) for a in job.history)
    shop.add(replace(job, history=history))
    with shop.app() as app:
        app.desk.lanes.pause("mail", reason=text, actor=text)
        app.desk.groups.mark("G1", resolved=True, note=text, reason=text, actor=text)
        value = json.dumps({"host": text, "pid": text, "lanes": [text]})
        app.store.note("worker:x", value, expires_in=1e9)
        app.desk.runs.start("G1", name=text, reason=text, actor=text)


@pytest.mark.parametrize("attack", ATTACKS)
def test_plain_text_and_json_show_it_as_escapes(empty: Shop, attack: str) -> None:
    text = ATTACKS[attack].replace("\x00", "")
    fill(empty, text)
    for words, output in product(VIEWS, ("--plain", "--json")):
        result = empty.run(*words, output)
        assert result.exit_code == 0, result.stderr
        assert not DRIVING.search(result.output)
        assert "\n2\tFORGED" not in result.stdout
        if output == "--json":
            assert result.stdout.isascii()
            json.loads(result.stdout)


def test_a_terminal_gets_nothing_but_colours_of_our_own(empty: Shop) -> None:
    fill(empty, SOUP.replace("\x00", ""))
    for words in VIEWS:
        drawn = empty.drawn(*words, width=100)
        assert "\x1b" in drawn or "list" in words or "--payload" in words, words
        seen = COLOUR.sub("", drawn)
        assert not DRIVING.search(seen)
        assert not re.search(r"^2\tFORGED", seen, re.MULTILINE)


def test_a_megabyte_in_one_line_does_no_harm(empty: Shop) -> None:
    text = "".join(wide * (250_000 // len(wide)) for wide in ("x", "漢", "👩‍🚀", "e\u0301\u0302"))
    failure = make_failure(Category.TRANSIENT, message=text, title=text)
    empty.add(dead_letter(1, failure, payload=json.dumps({"text": text})))
    assert len(empty.run("dlq", "--plain").stdout) >= 1_000_000
    for words in (["dlq"], ["show", name(1)]):
        drawn = empty.drawn(*words, width=100)
        assert len(drawn) < 200_000
        assert max(cell_len(line) for line in COLOUR.sub("", drawn).splitlines()) <= 100


def test_what_a_person_types_is_made_harmless_too(empty: Shop) -> None:
    for words in ([ATTACKS["clear screen"]], ["show", SOUP], ["list", "--store", "x\x1b[2J.db"]):
        result = empty.run(*words)
        assert result.exit_code in {2, 5}
        assert not DRIVING.search(result.output)
        error = empty.run(*words, "--json").stderr
        assert not DRIVING.search(error)
        json.loads(error)


def test_the_question_before_an_act_is_harmless(empty: Shop) -> None:
    fill(empty, SOUP.replace("\x00", ""))
    shown = on_terminal("resolve", "--all", typed=b"n\n")
    seen = COLOUR.sub("", shown.raw.decode()).replace("\r\n", "\n")
    assert "Resolve 1 job?" in seen
    assert not DRIVING.search(seen)
