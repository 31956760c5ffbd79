"""Actions preview, ask, take what was previewed and has not changed, and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import make_job
from ptykit import on_terminal
from redrive import Reason, State
from redrive.cli import act
from redrive.cli._errors import Stop
from shopkit import Shop, dead_letter, name

Asked = Callable[[Callable[[], object]], None]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, shop: Shop) -> Asked:
    """Stand for a person: do something between the preview and the answer, which is yes."""

    def set_up(meanwhile: Callable[[], object]) -> None:
        def ask(*_: object) -> None:
            shop.clock.advance(1)
            meanwhile()

        monkeypatch.setattr(act, "ask", ask)

    return set_up


def data_of(shop: Shop, *words: str, code: int = 0, stdin: str | None = None) -> dict[str, object]:
    result = shop.run(*words, "--json", stdin=stdin)
    assert result.exit_code == code, result.output
    data: dict[str, object] = json.loads(result.stdout)["data"]
    return data


def let_go(shop: Shop) -> None:
    """Do what a worker does for runs; no handler is here, so nothing is run."""
    with shop.app() as app:
        app.run_due()


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("retry --all", [1, 2, 3, 4, 5, 6]),
        ("retry G1", [1, 2, 6]),
        ("retry category:auth", [3]),
        ("resolve --all", [1, 2, 3, 4]),
        ("resolve G1 G3", [1, 2, 4]),
        ("resolve G1 state:pending", [6]),
        ("discard --all --reason x", [1, 2, 3, 4]),
        (f"discard {name(1)} {name(2)} --reason x", [1, 2]),
    ],
)
def test_an_action_takes_what_it_is_meant_for(shop: Shop, words: str, numbers: list[int]) -> None:
    before = {number: shop.state_of(name(number)) for number in range(1, 8)}
    data = data_of(shop, *words.split(), "--yes")
    assert (data["matched"], data["done"]) == (len(numbers), len(numbers))
    let_go(shop)
    state = "pending" if words.startswith("retry") else "resolved"
    now = {number: state if number in numbers else before[number] for number in range(1, 8)}
    assert {number: shop.state_of(name(number)) for number in range(1, 8)} == now


def test_a_closed_job_comes_back_only_by_its_id_or_its_state(shop: Shop) -> None:
    shop.run("resolve", name(1))
    for words, state in ((["G1"], "resolved"), (["G1", "state:resolved"], "pending")):
        shop.run("retry", *words, "--yes")
        let_go(shop)
        assert shop.state_of(name(1)) == state


def test_reopen_undoes_a_discard(shop: Shop) -> None:
    shop.run("discard", "G2", "--reason", "x", "--yes")
    assert shop.run("reopen", "G2", "--yes").exit_code == 0
    with shop.app() as app:
        assert app.get(name(3)).reason is Reason.PERMANENT


def test_a_single_id_needs_no_question(shop: Shop) -> None:
    assert shop.run("retry", name(1)).exit_code == 0
    assert shop.state_of(name(1)) == "pending"


def test_a_dry_run_shows_the_plan_and_changes_nothing(shop: Shop) -> None:
    data = data_of(shop, "retry", name(1), name(5), name(7), "--dry-run")
    assert (data["matched"], data["eligible"]) == (3, 2)
    assert data["handlers"] == {"mail.send": 1, "pay.charge": 1}
    why = "is completed and cannot become pending"
    assert data["ineligible"] == {
        "total": 1,
        "reasons": {why: 1},
        "samples": [{"id": name(7), "why": why}],
    }
    with shop.app() as app:
        assert app.desk.log.actions() == []
    assert shop.state_of(name(1)) == "dead"


def test_what_is_refused_exits_with_its_code_and_changes_nothing(shop: Shop) -> None:
    shop.run("resolve", name(4))
    with shop.app() as app:
        before = app.desk.log.actions()
    for words, code, said in [
        ("retry", 2, "name the jobs"),
        ("resolve --yes", 2, "--all for all dead jobs"),
        ("retry --all G1", 2, "not both"),
        ("discard --all --yes", 2, "needs a reason"),
        ("purge --yes", 2, "name the jobs"),
        ("retry --all", 2, "--yes"),
        ("resolve G2", 2, "--yes"),
        (f"retry {name(1)} {name(2)}", 2, "--yes"),
        (f"purge {name(1)}", 2, "--yes"),
        ("retry G99 --yes", 3, "no group G99"),
        ("retry ZZZZZZZZ --yes", 3, "no job 'ZZZZZZZZ'"),
        ("retry tag:nobody --yes", 3, "only dead and pending jobs"),
        ("purge lane:nowhere --yes", 3, "nothing matched"),
        (f"retry {name(7)} --yes", 4, "is completed and cannot become pending"),
        (f"discard {name(4)} --reason spam", 4, "is already resolved"),
        (f"purge {name(5)} --yes", 4, "is pending; only finished jobs can be purged"),
    ]:
        result = shop.run(*words.split())
        assert (result.exit_code, result.stdout) == (code, ""), words
        assert said in result.stderr, words
    with shop.app() as app:
        assert app.desk.log.actions() == before


def test_names_of_files_that_the_shell_put_in_are_explained(shop: Shop) -> None:
    Path("mail.py").touch()
    for words in (["retry", "mail.py"], ["resolve", "handler:mail.*", "mail.py"]):
        result = shop.run(*words)
        assert result.exit_code == 2
        assert "'mail.py' is a file here: the shell expanded a pattern; quote it" in result.stderr


def test_ids_come_from_standard_input(shop: Shop) -> None:
    listed = shop.run("list", "state:dead", "--ids").stdout
    some = data_of(shop, "resolve", "-", "--yes", stdin=f"{name(1)}\nZZZZZZZZ\n{name(1)}\n", code=0)
    assert (some["matched"], some["done"]) == (2, 1)
    assert some["skipped"]["samples"] == [{"id": "ZZZZZZZZ", "why": "there is no such job"}]  # type: ignore[index]
    shop.clock.advance(1)
    assert data_of(shop, "resolve", "-", "--yes", stdin=listed)["done"] == 3
    assert shop.run("resolve", "-", "--yes", stdin="\n").exit_code == 3
    assert shop.run("retry", "-", stdin=listed).exit_code == 2


def test_what_arrives_or_changes_after_the_preview_is_left_alone(shop: Shop, asked: Asked) -> None:
    def meanwhile() -> None:
        now = shop.clock.now()
        shop.add(dead_letter(8, updated=now, created=now, finished=now))
        with shop.app() as app:
            app.desk.resolve(name(1), reason="settled by another")

    asked(meanwhile)
    data = data_of(shop, "retry", "G1", code=6)
    assert (data["matched"], data["planned"], data["done"]) == (3, 3, 2)
    assert data["skipped"]["samples"] == [  # type: ignore[index]
        {"id": name(1), "why": "changed since the plan was made, now resolved"}
    ]
    assert (shop.state_of(name(1)), shop.state_of(name(8))) == ("resolved", "dead")


def test_if_all_of_it_changed_it_is_a_conflict(shop: Shop, asked: Asked) -> None:
    def meanwhile() -> None:
        with shop.app() as app:
            app.desk.resolve("G2", state="dead")

    asked(meanwhile)
    result = shop.run("resolve", "G2")
    assert (result.exit_code, "now resolved" in result.stdout) == (4, True)


def test_growing_older_while_one_thinks_changes_nothing(shop: Shop, asked: Asked) -> None:
    asked(lambda: shop.clock.advance(10_000))
    assert data_of(shop, "retry", "age:<23h30m")["done"] == 1


def test_an_answer_of_no_changes_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def declined(*_: object) -> None:
        raise Stop("declined", "nothing was changed", exits=1)

    monkeypatch.setattr(act, "ask", declined)
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
    data = data_of(empty, "retry", "-", "--yes", stdin=ids)
    assert (data["matched"], data["done"], data["skipped"]["total"]) == (300, 149, 151)  # type: ignore[index]
    preview = empty.run("retry", "-", "--dry-run", stdin=ids).stdout.splitlines()
    assert "left\t150\tis completed and cannot become pending" in preview


def ids(shop: Shop) -> set[str]:
    return set(shop.run("list", "--ids").stdout.split())


def test_finished_jobs_are_purged_others_stay_and_it_is_recorded(shop: Shop) -> None:
    before = ids(shop)
    plan = data_of(shop, "purge", "handler:pay.*", "--dry-run")
    assert (plan["matched"], plan["eligible"], plan["states"]) == (3, 1, {"dead": 1})
    reasons = {"is pending; only finished jobs can be purged": 2}
    assert plan["ineligible"]["reasons"] == reasons  # type: ignore[index]
    assert ids(shop) == before
    data = data_of(shop, "purge", "handler:pay.*", "--yes", "--reason", "test")
    assert (data["done"], data["skipped"]["total"]) == (1, 2)  # type: ignore[index]
    assert before - ids(shop) == {name(3)}
    [action] = json.loads(shop.run("log", "--json").stdout)["data"]
    assert (action["verb"], action["done"], action["reason"]) == ("purge", 1, "test")
    assert action["target"] == "handler:pay.*"
    assert shop.run("purge", name(7), "--yes").exit_code == 0
    assert shop.run("purge", "G1 state:dead", "--yes").exit_code == 0
    assert ids(shop) == {name(4), name(5), name(6)}


def test_the_number_to_purge_must_be_typed(shop: Shop) -> None:
    no = on_terminal("purge", "state:dead", typed=b"yes\n")
    assert (no.code, len(ids(shop))) == (1, 7)
    assert "Type 4 to remove them permanently" in no.text
    yes = on_terminal("purge", "state:dead", typed=b"4\n")
    assert (yes.code, len(ids(shop))) == (0, 3)


def test_what_changed_or_a_run_still_counts_is_not_purged(shop: Shop, asked: Asked) -> None:
    """A run takes what is gone for completed: a dead job of its own must be there to be counted."""

    def meanwhile() -> None:
        with shop.app() as app:
            app.desk.edit(name(4), '{"to":"bob@example.com"}')

    shop.run("retry", "G1", "--yes")
    asked(meanwhile)
    data = data_of(shop, "purge", "state:dead age:>1h", code=6)
    assert (data["matched"], data["planned"], data["done"]) == (4, 2, 1)
    assert data["skipped"]["reasons"] == {  # type: ignore[index]
        "is part of R1, which has not ended": 2,
        "changed since the plan was made, now dead": 1,
    }
    assert {name(1), name(2), name(4)} <= ids(shop)
