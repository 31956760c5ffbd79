"""No selection means more jobs than were asked for."""

from __future__ import annotations

import json

from shopkit import HOUR, Shop, name
from tablekit import each_row


@each_row(
    "words",
    [
        ["discard", "-", "state:dead", "--reason", "test data", "--yes"],
        ["retry", "-", "handler:mail.*", "--yes"],
        ["purge", "-", "state:completed", "--yes"],
        ["export", "-"],
        ["list", "-", "--ids"],
    ],
)
def test_no_ids_on_standard_input_are_no_jobs(shop: Shop, words: list[str]) -> None:
    """A pipe that gives nothing must not leave the other words alone."""
    result = shop.run(*words, stdin="")
    assert (result.exit_code, result.stdout) == (3, "")
    assert shop.run("list", "--ids").stdout.count("\n") == 7
    assert shop.state_of(name(1)) == "dead"


def test_a_state_taken_away_brings_no_other_in(shop: Shop) -> None:
    """Somebody closed them on purpose: only a state that is named brings them back."""
    shop.run("discard", name(1), "--reason", "a test order")
    plan = shop.run("retry", "--dry-run", "--json", "--", "-state:pending")
    assert json.loads(plan.stdout)["data"]["matched"] == 3
    with shop.app() as app:
        app.desk.retry("-state:pending")
    assert shop.state_of(name(1)) == "resolved"
    listed = shop.run("list", "--ids", "--", "-state:pending").stdout
    assert name(1) in listed.split()


def test_of_two_ages_the_narrower_counts(shop: Shop) -> None:
    shop.clock.advance(HOUR)
    wide = shop.run("list", "--ids", "age:>1m").stdout.split()
    assert wide
    for ages in ([">1000h", ">1m"], [">1m", ">1000h"], ["<1s", "<1000h"], ["<1000h", "<1s"]):
        assert shop.run("list", "--ids", *(f"age:{age}" for age in ages)).stdout == ""
