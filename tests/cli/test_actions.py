"""C3, F114: acts preview, ask, touch exactly what was previewed, and report."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

import pytest

from kit import make_job
from redrive import Reason, State
from redrive.cli import actions
from redrive.cli._cli import Cli
from redrive.cli._errors import Stop
from redrive.desk.plans import Plan
from shopkit import Shop, dead_letter, name

Asked = Callable[[Callable[[], None]], None]


def let_go(shop: Shop) -> None:
    """Do what a worker does for runs; no handler is here, so nothing is run."""
    with shop.app() as app:
        app.run_due()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Stand for a person: do something between the preview and the answer, which is yes."""

    def set_up(meanwhile: Callable[[], None]) -> None:
        def ask(face: Cli, plan: Plan) -> None:
            meanwhile()

        monkeypatch.setattr(actions, "ask", ask)

    return set_up


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["retry", "--all"], [1, 2, 3, 4, 5, 6]),
        (["retry", "G1"], [1, 2, 6]),
        (["retry", "--category", "auth"], [3]),
        (["resolve", "--all"], [1, 2, 3, 4]),
        (["resolve", "G1", "G3"], [1, 2, 4]),
        (["resolve", "G1", "--state", "pending"], [6]),
        (["discard", "--all", "--reason", "x"], [1, 2, 3, 4]),
        (["discard", name(1), name(2), "--reason", "x"], [1, 2]),
    ],
)
def test_an_act_takes_what_it_is_meant_for(
    shop: Shop, words: list[str], numbers: list[int]
) -> None:
    before = {number: shop.state_of(name(number)) for number in range(1, 8)}
    result = shop.run(*words, "--yes", "--json")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)["data"]
    assert (data["matched"], data["done"]) == (len(numbers), len(numbers))
    let_go(shop)
    with shop.app() as app:
        moved = {
            job.id
            for job in app.desk.jobs.find(
                state="pending" if words[0] == "retry" else "resolved"
            ).jobs
        }
    for number in range(1, 8):
        if number in numbers:
            assert name(number) in moved
        else:
            assert shop.state_of(name(number)) == before[number]


def test_a_closed_job_comes_back_only_by_its_id_or_its_state(shop: Shop) -> None:
    shop.run("resolve", name(1))
    shop.run("retry", "G1", "--yes")
    let_go(shop)
    assert shop.state_of(name(1)) == "resolved"
    shop.run("retry", "G1", "--state", "resolved", "--yes")
    let_go(shop)
    assert shop.state_of(name(1)) == "pending"


def test_reopen_undoes_a_discard(shop: Shop) -> None:
    shop.run("discard", "G2", "--reason", "x", "--yes")
    assert shop.run("reopen", "G2", "--yes").exit_code == 0
    with shop.app() as app:
        assert app.get(name(3)).reason is Reason.PERMANENT


def test_a_job_that_is_closed_already_says_so(shop: Shop) -> None:
    assert shop.run("resolve", name(1)).exit_code == 0
    done = shop.run("discard", name(1), "--reason", "spam")
    assert (done.exit_code, "is already resolved" in done.stdout) == (4, True), done.output


def test_a_single_id_needs_no_question(shop: Shop) -> None:
    assert shop.run("retry", name(1)).exit_code == 0
    assert shop.state_of(name(1)) == "pending"


@pytest.mark.parametrize(
    "words", [["retry", "--all"], ["resolve", "G2"], ["retry", name(1), name(2)]]
)
def test_without_a_terminal_there_is_nobody_to_ask(shop: Shop, words: list[str]) -> None:
    result = shop.run(*words)
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert result.stdout == ""
    with shop.app() as app:
        assert app.desk.log.actions() == []


def test_a_dry_run_shows_the_plan_and_changes_nothing(shop: Shop) -> None:
    result = shop.run("retry", name(1), name(5), name(7), "--dry-run", "--json")
    data = json.loads(result.stdout)["data"]
    assert result.exit_code == 0
    assert (data["matched"], data["eligible"]) == (3, 2)
    assert data["handlers"] == {"mail.send": 1, "pay.charge": 1}
    assert data["ineligible"] == [{"id": name(7), "why": "is completed and cannot become pending"}]
    with shop.app() as app:
        assert app.desk.log.actions() == []
    assert shop.state_of(name(1)) == "dead"


@pytest.mark.parametrize(
    "words",
    [["retry"], ["resolve", "--yes"], ["retry", "--all", "G1"], ["discard", "--all", "--yes"]],
)
def test_an_act_needs_a_selection_and_a_discard_a_reason(shop: Shop, words: list[str]) -> None:
    assert shop.run(*words).exit_code == 2


@pytest.mark.parametrize(
    "words",
    [["retry", "G99"], ["retry", "--tag", "nobody"], ["retry", "ZZZZZZZZ"], ["reopen", "--all"]],
)
def test_nothing_matched_is_exit_3(shop: Shop, words: list[str]) -> None:
    result = shop.run(*words, "--yes")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert words[0] != "reopen" or "only resolved jobs" in result.stderr


def test_all_skipped_is_exit_4_and_says_why(shop: Shop) -> None:
    result = shop.run("retry", name(7), "--yes")
    assert result.exit_code == 4
    assert "is completed and cannot become pending" in result.stdout


def test_ids_come_from_standard_input(shop: Shop) -> None:
    listed = shop.run("list", "--state", "dead", "--ids").stdout
    result = shop.run("resolve", "-", "--yes", "--json", stdin=listed)
    assert json.loads(result.stdout)["data"]["done"] == 4
    assert shop.run("resolve", "-", "--yes", stdin="\n").exit_code == 3
    assert shop.run("retry", "-", stdin=listed).exit_code == 2


def test_an_id_that_is_gone_does_not_stop_the_others(shop: Shop) -> None:
    result = shop.run("resolve", "-", "--yes", "--json", stdin=f"{name(1)}\nZZZZZZZZ\n{name(1)}\n")
    data = json.loads(result.stdout)["data"]
    assert (data["matched"], data["done"]) == (2, 1)
    assert data["skipped"] == [{"id": "ZZZZZZZZ", "why": "there is no such job"}]


def test_what_arrives_after_the_preview_is_left_alone(shop: Shop, asked: Asked) -> None:
    asked(lambda: shop.add(dead_letter(8)) and None)
    result = shop.run("resolve", "G1", "--json")
    assert json.loads(result.stdout)["data"]["done"] == 2
    assert shop.state_of(name(8)) == "dead"


def test_what_changed_after_the_preview_is_skipped_and_listed(shop: Shop, asked: Asked) -> None:
    def meanwhile() -> None:
        with shop.app() as app:
            app.desk.resolve(name(1), reason="settled by another")

    asked(meanwhile)
    result = shop.run("retry", "G1", "--json")
    data = json.loads(result.stdout)["data"]
    assert result.exit_code == 6
    assert (data["matched"], data["done"]) == (3, 2)
    assert [skipped["id"] for skipped in data["skipped"]] == [name(1)]
    assert shop.state_of(name(1)) == "resolved"


def test_growing_older_while_one_thinks_changes_nothing(shop: Shop, asked: Asked) -> None:
    asked(lambda: shop.clock.advance(10_000))
    result = shop.run("retry", "--age", "<23h30m", "--json")
    assert json.loads(result.stdout)["data"]["done"] == 1


def test_if_all_of_it_changed_it_is_a_conflict(shop: Shop, asked: Asked) -> None:
    def meanwhile() -> None:
        with shop.app() as app:
            app.desk.resolve("G2", state="dead")

    asked(meanwhile)
    assert shop.run("resolve", "G2").exit_code == 4


def test_an_answer_of_no_changes_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def declined(face: Cli, plan: Plan) -> None:
        raise Stop("declined", "nothing was changed", exits=1)

    monkeypatch.setattr(actions, "ask", declined)
    assert shop.run("retry", "--all").exit_code == 1
    assert shop.state_of(name(1)) == "dead"


def test_matched_is_always_done_plus_skipped(empty: Shop) -> None:
    many = [dead_letter(number) for number in range(1, 150)]
    closed = [
        make_job(name(number), state=State.COMPLETED, reason=Reason.DONE, finished=1.0)
        for number in range(150, 300)
    ]
    empty.add(*many, *closed)
    ids = "\n".join(name(number) for number in range(1, 301))
    data = json.loads(empty.run("retry", "-", "--yes", "--json", stdin=ids).stdout)["data"]
    assert (data["matched"], data["done"], len(data["skipped"])) == (300, 149, 151)
    preview = empty.run("retry", "-", "--dry-run", stdin=ids).stdout.splitlines()
    assert "left\t150\tis completed and cannot become pending" in preview


def test_a_resolve_of_three_groups_is_undone_by_its_number(shop: Shop) -> None:
    shop.run("resolve", "G1", "G2", "G3", "--yes", "--reason", "all done")
    (resolved, *_) = json.loads(shop.run("log", "--verb", "resolve", "--json").stdout)["data"]
    shop.run("retry", name(2), "--reason", "this one too")  # has had another action since
    which = f"action:{resolved['action']}"
    listed = shop.run("list", which, "--ids").stdout.split()
    assert listed == [name(4), name(3), name(1)]
    assert shop.run("reopen", which, "--yes", "--reason", "a mistake").exit_code == 0
    states = [shop.state_of(name(number)) for number in (1, 2, 3, 4)]
    assert states == ["dead", "pending", "dead", "dead"]
    assert shop.run("list", which, "--ids").stdout == ""
    shown = shop.run("show", name(2)).stdout
    rows = [line.split("\t")[1:] for line in shown.splitlines() if line.startswith("action\t")]
    assert [(row[0], *row[2:]) for row in rows] == [
        ("A5", "ada", "retry", "this one too"),
        (resolved["action"], "ada", "resolve", "all done"),
    ]
    data = json.loads(shop.run("show", name(1), "--json").stdout)["data"]
    assert [action["verb"] for action in data["actions"]] == ["reopen", "resolve"]
    assert data["actions"][1] == {k: v for k, v in resolved.items() if k != "run"}


def test_an_action_that_the_log_has_lost_is_shown_by_its_number(shop: Shop) -> None:
    shop.run("resolve", name(1), "--yes")
    with sqlite3.connect("redrive.db") as connection:
        connection.execute("DELETE FROM acts")
    result = shop.run("show", name(1))
    assert result.exit_code == 0, result.stderr
    assert "\naction\tA1\t-\t-\t-\t-\n" in result.stdout
    assert shop.run("reopen", "action:A1", "--yes").exit_code == 0
    assert shop.state_of(name(1)) == "dead"
