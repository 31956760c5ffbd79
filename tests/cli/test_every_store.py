"""Looking after a store is the same on every kind of store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgkit
from shopkit import Shop, name, shop_jobs
from tablekit import each_row


@pytest.fixture(params=["sqlite", "jsonl", "postgresql"])
def place(empty: Shop, request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A shop full of jobs, in a store of each kind."""
    schema = ""
    if request.param == "postgresql":
        schema = pgkit.fresh_name()
        empty.url = pgkit.url_of(schema)
    else:
        empty.url = f"{request.param}:shop"
    empty.add(*shop_jobs())
    yield empty
    if schema:
        pgkit.drop(schema)


def ask(shop: Shop, *words: str, code: int = 0) -> dict[str, object]:
    done = shop.run(*words, "--json", "--store", shop.url)
    assert done.exit_code == code, done.output
    data: dict[str, object] = json.loads(done.stdout)["data"]
    return data


def test_out_gone_and_in_again(place: Shop) -> None:
    assert ask(place, "export", "-o", "all")["exported"] == 7
    assert ask(place, "purge", "state:dead", "--yes")["done"] == 4
    back = ask(place, "import", "all")
    assert (back["added"], back["known"]) == (4, 3)
    assert ask(place, "export", "-o", "again")["exported"] == 7
    assert sorted(Path("again").read_text().splitlines()) == sorted(
        Path("all").read_text().splitlines()
    )
    assert ask(place, "verify")["ok"] is True


def test_edited_checked_and_examined(place: Shop) -> None:
    Path("new.json").write_text('{"to":"bob"}')
    assert ask(place, "edit", name(1), "--payload", "new.json", "--yes")["version"] == 2
    found = ask(place, "doctor", code=1)["findings"]
    assert isinstance(found, list)
    levels = {one["what"]: one["level"] for one in found}
    assert levels["store"] == levels["clock"] == levels["durability"] == "ok"
    assert levels["lanes"] == "bad"


@each_row("word", ["01ZZZZZZ", "G99", "R99"])
@each_row("command", ["retry", "resolve", "reopen", "list", "export", "purge"])
def test_an_unknown_group_or_run_ends_a_command_as_an_unknown_id_does(
    place: Shop, command: str, word: str
) -> None:
    done = place.run(command, word, "--store", place.url)
    assert (done.exit_code, done.stdout) == (3, "")
    named = {"0": f"no job '{word}'", "G": "no group G99", "R": "no run R99"}[word[0]]
    assert named in done.stderr
