"""notes and actions: small shared values with compare-and-set and expiry, and the audit log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kit import make_action
from redrive.jobs.job import State
from redrive.stores.contract import Store
from redrive.stores.note_verbs import Note
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import bring_to, move
from tablekit import each_row


def write(store: Store, name: str, value: str | None, **options: object) -> Note:
    note = store.note(name, value, **options)  # type: ignore[arg-type]
    assert note is not None
    return note


def test_a_note_is_given_back_as_written(store: Store) -> None:
    note = write(store, "turn", "w1")
    assert (note.name, note.value, note.expires_in) == ("turn", "w1", None)
    assert note.version > 0
    assert store.notes() == [note]


def test_every_write_raises_the_version(store: Store) -> None:
    versions = [write(store, "turn", value).version for value in ("a", "b", "b")]
    assert versions == sorted(set(versions))
    assert [note.value for note in store.notes()] == ["b"]


def test_a_write_takes_only_if_the_version_is_still_the_expected(store: Store) -> None:
    first = write(store, "turn", "w1", expected=0)
    assert store.note("turn", "w2", expected=0) is None
    assert store.note("turn", "w2", expected=first.version + 1) is None
    assert store.notes() == [first]
    second = write(store, "turn", "w2", expected=first.version)
    assert store.note("turn", "w3", expected=first.version) is None
    assert store.note("turn", None, expected=first.version) is None
    assert store.notes() == [second]


def test_nothing_is_version_0(store: Store) -> None:
    assert store.note("turn", "w1", expected=1) is None
    assert store.notes() == []


def test_none_removes_a_note(store: Store) -> None:
    first = write(store, "turn", "w1")
    assert write(store, "turn", None, expected=first.version).version == 0
    assert store.notes() == []
    assert write(store, "turn", None).version == 0
    assert write(store, "turn", "w2", expected=0).value == "w2"


def test_a_note_ends_by_the_stores_clock(store: Store, clock: ManualClock) -> None:
    note = write(store, "beat", "x", expires_in=30)
    assert note.expires_in == pytest.approx(30)
    clock.advance(20)
    (shown,) = store.notes()
    assert shown.expires_in == pytest.approx(10)
    clock.advance(11)
    assert store.notes() == []


def test_an_ended_note_counts_as_none(store: Store, clock: ManualClock) -> None:
    """So whoever comes next can take the turn, and the one who had it cannot."""
    old = write(store, "turn", "w1", expires_in=30)
    clock.advance(31)
    assert store.note("turn", "w1", expected=old.version) is None
    new = write(store, "turn", "w2", expected=0, expires_in=30)
    assert [note.value for note in store.notes()] == ["w2"]
    assert store.note("turn", "w3", expected=0) is None
    assert store.note("turn", "w1", expected=new.version, expires_in=30) is not None


def test_a_write_renews_or_lifts_the_end(store: Store, clock: ManualClock) -> None:
    note = write(store, "beat", "x", expires_in=30)
    clock.advance(20)
    note = write(store, "beat", "x", expires_in=30, expected=note.version)
    clock.advance(20)
    assert len(store.notes()) == 1
    write(store, "beat", "x", expected=note.version)
    clock.advance(1e6)
    assert [shown.expires_in for shown in store.notes()] == [None]


def test_notes_are_listed_by_prefix_and_name(store: Store) -> None:
    for name in ("pause:b", "pause:a", "beat:1", "paus", "p%use:z", "pause_x", "Pause:c"):
        write(store, name, name)
    assert [note.name for note in store.notes("pause:")] == ["pause:a", "pause:b"]
    assert [note.name for note in store.notes("p%")] == ["p%use:z"]
    assert [note.name for note in store.notes("pause_")] == ["pause_x"]
    assert store.notes("nothing") == []
    every = [note.name for note in store.notes()]
    assert every == sorted(every)
    assert len(every) == 7


@each_row("value", ["", "{}", "é\u2028\x85\x1c'\"\\", "x" * 5000, "a\nb\r\n"])
def test_the_value_is_kept_letter_for_letter(store: Store, value: str) -> None:
    write(store, "n", value, durable=True)
    assert store.notes()[0].value == value


def test_one_of_eight_threads_gets_the_turn(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: store.note("turn", f"w{n}", expected=0), range(8)))
    winners = [note for note in won if note is not None]
    assert winners == store.notes()


@pytest.mark.needs("shared")
def test_of_many_who_may_send_an_alert_once_an_hour_one_does(
    place: Place, clock: ManualClock
) -> None:
    """Over threads and store objects, and each hour anew."""
    stores = [place.open() for _ in range(4)]

    def may_send(store: Store) -> bool:
        return bool(store.note("alert:G1:ops", "", expected=0, expires_in=3600, durable=True))

    for wait, winners in ((0, 1), (3599, 0), (1, 1)):
        clock.advance(wait)
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(may_send, stores * 5)) == winners, wait
    assert not may_send(place.open())


@pytest.mark.needs("persistent")
def test_notes_survive_reopening(place: Place) -> None:
    note = write(place.open(), "alert:G1:ops", "v", expires_in=60, durable=True)
    (kept,) = place.reopen().notes()
    assert (kept.value, kept.version) == (note.value, note.version)


@pytest.mark.needs("shared")
def test_two_store_objects_share_notes(place: Place) -> None:
    one, two = place.open(), place.open()
    note = write(one, "turn", "w1", expected=0)
    assert two.note("turn", "w2", expected=0) is None
    assert two.notes() == [note]
    write(two, "turn", None, expected=note.version)
    assert one.notes() == []


def test_an_act_gets_its_number_and_time(store: Store, clock: ManualClock) -> None:
    action = make_action("pause", target="mail", detail={"until": 5, "why": ["é", None]})
    kept = store.record(action)
    assert kept == replace(action, number=kept.number, at=clock.now())
    assert kept.number > 0
    assert store.actions() == [kept]


def test_acts_come_newest_first_in_pages(store: Store, clock: ManualClock) -> None:
    for n in range(5):
        clock.advance(1)
        store.record(make_action("pause", reason=f"r{n}"))
    bring_to(store, State.DEAD, "a")
    move(store, "retry", "a")
    actions = store.actions()
    assert [action.reason for action in actions] == ["because", "r4", "r3", "r2", "r1", "r0"]
    numbers = [action.number for action in actions]
    assert numbers == sorted(set(numbers), reverse=True)
    first = store.actions(limit=4)
    assert first == actions[:4]
    assert store.actions(limit=4, before=first[-1].number) == actions[4:]
    assert store.actions(before=numbers[-1]) == []


def test_acts_are_kept_letter_for_letter(store: Store) -> None:
    kept = store.record(make_action("pause", actor="zoë'; --", reason="a\nb\u2028", target="%"))
    assert store.actions() == [kept]
    assert (kept.actor, kept.reason) == ("zoë'; --", "a\nb\u2028")


@pytest.mark.needs("shared")
def test_acts_of_two_store_objects_are_numbered_together(place: Place) -> None:
    one, two = place.open(), place.open()
    numbers = [store.record(make_action("pause")).number for store in (one, two, one, two)]
    assert numbers == sorted(set(numbers))
    assert one.actions() == two.actions()
