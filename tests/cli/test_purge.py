"""C3, F114: finished jobs are removed for good only as previewed, and only after the number was typed."""

from __future__ import annotations

import json

import pytest

from ptykit import on_terminal
from redrive.cli import purge
from shopkit import Shop, name


def ids(shop: Shop) -> set[str]:
    return set(shop.run("list", "--ids").stdout.split())


def test_a_dry_run_counts_and_removes_nothing(shop: Shop) -> None:
    before = ids(shop)
    done = shop.run("purge", "--handler", "pay.*", "--dry-run", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["data"] == {
        "dry_run": True,
        "matched": 3,
        "eligible": 1,
        "states": {"dead": 1},
        "ineligible": {"pending": 2},
    }
    assert ids(shop) == before


def test_finished_jobs_go_pending_ones_stay_and_it_is_recorded(shop: Shop) -> None:
    before = ids(shop)
    done = shop.run("purge", "--handler", "pay.*", "--yes", "--reason", "test", "--json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)["data"]
    assert (data["removed"], data["skipped"]) == (1, 2)
    assert before - ids(shop) == {name(3)}
    [action] = json.loads(shop.run("log", "--json").stdout)["data"]
    assert (action["verb"], action["done"], action["reason"]) == ("purge", 1, "test")
    assert action["target"] == "handler:pay.*"


def test_one_job_and_a_group_can_be_named(shop: Shop) -> None:
    assert shop.run("purge", name(7), "--yes").exit_code == 0
    assert shop.run("purge", "G1", "--state", "dead", "--yes").exit_code == 0
    assert ids(shop) == {name(3), name(4), name(5), name(6)}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["purge", "--yes"], 2),
        (["purge", name(1)], 2),
        (["purge", "--lane", "nowhere", "--yes"], 3),
        (["purge", name(5), "--yes"], 4),
    ],
)
def test_without_a_selection_a_person_or_a_finished_job_nothing_goes(
    shop: Shop, words: list[str], code: int
) -> None:
    before = ids(shop)
    assert shop.run(*words).exit_code == code
    assert ids(shop) == before


def test_the_number_must_be_typed(shop: Shop) -> None:
    no = on_terminal("purge", "--state", "dead", typed=b"yes\n")
    assert (no.code, len(ids(shop))) == (1, 7)
    assert "Type 4 to remove them permanently" in no.text
    yes = on_terminal("purge", "--state", "dead", typed=b"4\n")
    assert (yes.code, len(ids(shop))) == (0, 3)


def test_a_job_that_is_driven_again_meanwhile_stays(shop: Shop) -> None:
    with shop.app() as app:
        frozen = [job.id for job in app.desk.jobs.each(state="dead")]
        app.desk.retry(name(1))
        assert app.desk.jobs.purge(frozen) == 3
        assert app.get(name(1)).state == "pending"


def test_what_changed_while_one_thought_stays(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody reopened it, or mended its payload: it is no longer what was previewed."""

    def meanwhile(*_: object) -> None:
        shop.clock.advance(1)
        with shop.app() as app:
            app.desk.resolve(name(1))
            app.desk.reopen(name(1))
            app.desk.edit(name(2), '{"to":"bob@example.com"}')

    monkeypatch.setattr(purge, "_ask", meanwhile)
    done = shop.run("purge", "state:dead age:>1h", "--json")
    data = json.loads(done.stdout)["data"]
    assert (done.exit_code, data["matched"], data["removed"], data["skipped"]) == (6, 4, 2, 2)
    assert {name(1), name(2)} <= ids(shop)


def test_what_a_run_still_counts_stays(shop: Shop) -> None:
    """A run takes what is gone for completed: a dead job of its own must be there to be counted."""
    shop.run("retry", "G1", "--yes")
    done = shop.run("purge", "--state", "dead", "--yes", "--json")
    assert json.loads(done.stdout)["data"]["ineligible"] == {"R1": 2}
    assert {name(1), name(2)} <= ids(shop)
