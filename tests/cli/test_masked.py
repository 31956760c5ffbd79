"""The command line without --reveal learns nothing that is masked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from redrive.payloads import secret_names
from shopkit import TIMEOUT, Shop, dead_letter, name
from tablekit import each_row


def plant(shop: Shop) -> None:
    leak = replace(
        TIMEOUT,
        message="login with hunter22 failed",
        title="with password=hunter22",
        fingerprint="leak",
    )
    payload = json.dumps({"password": "hunter22", "note": "try hunter22"})
    shop.add(dead_letter(11, leak, payload=payload, tags=("hunter22",), key="k-hunter22"))


@each_row("verb", ["list", "groups", "retry", "resolve", "discard", "export"])
@each_row("word", ["payload.password:h*", "-payload.password:h*"])
def test_a_masked_name_cannot_be_asked_for(shop: Shop, verb: str, word: str) -> None:
    more = {"retry": ["--dry-run"], "export": ["-o", "x"]}.get(verb, ["--reason", "x", "--dry-run"])
    done = shop.run(verb, *([] if verb in {"list", "groups"} else more), "--", word)
    assert done.exit_code == 2
    assert "'password' is a masked field" in done.stderr
    assert "reveal=True" in done.stderr


@each_row("form", ["--json", "--plain"])
@each_row(
    "words",
    [
        ('list "hunter2{}"',),
        ("list text:hunter2{}",),
        ("list tag:hunter2{}",),
        ("list key:k-hunter2{}",),
        ("list error:*hunter2{}*",),
        ("list --ids payload.note:*hunter2{}*",),
        ("groups error:*hunter2{}*",),
        ("retry --dry-run tag:hunter2{}",),
        ("resolve --dry-run payload.note:*hunter2{}",),
    ],
)
def test_right_and_wrong_guesses_have_the_same_answer(
    shop: Shop, words: tuple[str], form: str
) -> None:
    plant(shop)
    right, wrong = (shop.run(*words[0].format(last).split(), form) for last in ("2", "3"))
    assert right.exit_code == wrong.exit_code
    assert right.output.replace("hunter22", "hunter23") == wrong.output


@each_row("form", ["--json", "--plain"])
@each_row("words", ["list", "dlq", "groups", "status", f"show {name(11)}", "group G4"])
def test_every_text_of_a_job_is_masked(shop: Shop, words: str, form: str) -> None:
    """Whoever stored it: tags, keys and titles too."""
    plant(shop)
    done = shop.run(*words.split(), form)
    assert done.exit_code == 0, done.output
    assert "hunter22" not in done.output


def test_names_in_redrive_toml_are_masked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_names, "more", set[str]())
    shop.add(dead_letter(11, payload='{"kundennummer":"K-4711-99","n":1}'))
    assert "K-4711-99" in shop.run("show", name(11)).output
    Path("redrive.toml").write_text('[mask]\nnames = ["Kundennummer"]\n')
    assert "K-4711-99" not in shop.run("show", name(11)).output
    assert shop.run("list", "payload.kundennummer:K*").exit_code == 2
    assert "Kundennummer" in shop.run("doctor").output
    Path("redrive.toml").write_text('[mask]\nnames = "Kundennummer"\n')
    assert "must hold names" in shop.run("list").stderr
    secret_names._says_secret.cache_clear()


def test_reasons_and_notes_are_masked(shop: Shop) -> None:
    shop.run("group", "G1", "note", "use password=hunter22")
    shop.run("resolve", name(1), "--yes", "--reason", "rotated token=hunter22")
    shop.run("pause", "mail.send", "--reason", "api_key=hunter22")
    for words in ("log", "group G1", "groups", "status", f"show {name(1)}"):
        output = shop.run(*words.split(), "--json").output
        assert "hunter22" not in output, words
