"""`redrive listeners`: what waits for whom, and the removal of one that no program has any more."""

from __future__ import annotations

import json

import pytest

from redrive import Event, Redrive
from shopkit import Shop


def tell(event: Event) -> None:
    raise ConnectionError("the receiver is down")


@pytest.fixture
def shop(empty: Shop) -> Shop:
    """A store with one listener, for which two events wait."""
    with empty.app() as app:
        app.on("died", "resolved")(tell)
        for number in range(2):
            with app.capture("mail", {"number": number}, reraise=False):
                raise ValueError(number)
    return empty


def listed(shop: Shop) -> list[dict[str, object]]:
    data: list[dict[str, object]] = json.loads(shop.run("listeners", "--json").stdout)["data"]
    return data


def test_listeners_are_shown_with_what_waits(shop: Shop) -> None:
    (row,) = listed(shop)
    assert (row["name"], row["kinds"], row["waiting"]) == ("tell", ["died", "resolved"], 2)
    assert "tell\tdied, resolved\t2\t" in shop.run("listeners", "--plain").stdout


def test_a_store_without_listeners_says_so(empty: Shop) -> None:
    with empty.app() as app:
        assert app.store.subscriptions() == {}
    assert "No listener is registered." in empty.run("listeners").stdout


def test_removing_one_needs_a_yes_and_is_recorded(shop: Shop) -> None:
    assert shop.run("listeners", "--remove", "tell").exit_code == 2
    assert len(listed(shop)) == 1
    done = shop.run("listeners", "--remove", "tell", "--yes", "--reason", "not used any more")
    assert done.exit_code == 0, done.output
    assert listed(shop) == []
    with shop.app() as app:
        assert app.store.waiting_events() == {}
        action = app.desk.log.actions()[0]
    assert (action.verb, action.target, action.reason) == (
        *("remove_listener", "tell"),
        "not used any more",
    )


def test_removing_an_unknown_one_changes_nothing(shop: Shop) -> None:
    done = shop.run("listeners", "--remove", "other", "--yes")
    assert (done.exit_code, len(listed(shop))) == (3, 1)


def test_the_doctor_names_a_listener_whose_events_wait_too_long(shop: Shop) -> None:
    assert "listener" not in shop.run("doctor").stdout
    shop.clock.advance(700)
    said = shop.run("doctor").stdout
    assert "tell: 2 events wait, the oldest for 1" in said
    assert "redrive listeners --remove tell" in said


def test_a_failing_delivery_waits_and_the_rest_of_the_pass_goes_on(shop: Shop) -> None:
    with shop.app() as app:
        app.on("died", "resolved")(tell)
        app.run_due()
        assert isinstance(app, Redrive)
    assert listed(shop)[0]["waiting"] == 2
