"""Purge by age."""

from __future__ import annotations

import json

import pytest

from shopkit import HOUR, Shop


@pytest.mark.parametrize(("age", "left"), [("1", 0), ("24h57m30s", 2), ("30", 4)])
def test_purge_older_than_removes_old_dead_letters_only(shop: Shop, age: str, left: int) -> None:
    shop.clock.advance(HOUR)
    done = shop.run("purge", "--older-than", age, "--yes", "--json")
    assert done.exit_code in {0, 3}, done.output
    assert len(shop.run("list", "--state", "dead", "--ids").stdout.split()) == left
    assert len(shop.run("list", "--state", "completed", "--ids").stdout.split()) > 0
    if left < 4:
        data = json.loads(done.stdout)["data"]
        assert (data["removed"], data["dead_letters_kept"]) == (4 - left, left)


def test_purge_older_than_narrows_what_is_selected(shop: Shop) -> None:
    done = shop.run("purge", "--handler", "pay.*", "--older-than", "30d", "--dry-run")
    assert done.exit_code == 3
    assert "nothing matched" in done.stderr
    assert shop.run("purge", "--older-than", "soon", "--yes").exit_code == 2
