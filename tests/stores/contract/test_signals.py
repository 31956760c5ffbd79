"""A signal handler in the middle of its own thread's call: told so, instead of waiting for itself."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import make_job
from redrive.errors import StoreError
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.kinds import Kind, Place
from stores.contract.verbs import add_one, claim, found, ids


class RingingClock(ManualClock):
    """Sends this process a signal when a store asks for the time, once."""

    armed = False

    def now(self) -> float:
        if self.armed:
            self.armed = False
            signal.raise_signal(signal.SIGUSR1)
        return super().now()


@pytest.fixture
def clock() -> RingingClock:
    return RingingClock()


@pytest.fixture
def store(kind: Kind, tmp_path: Path, clock: RingingClock) -> Iterator[Store]:
    place = Place(kind, tmp_path, clock)
    yield place.open()
    place.remove()


@pytest.mark.needs("local")
@pytest.mark.parametrize("verb", ["add", "claim"])
def test_a_signal_handler_cannot_use_a_store_in_the_middle_of_its_own_write(
    store: Store, clock: RingingClock, verb: str
) -> None:
    said: list[str] = []
    verbs: dict[str, Callable[[], object]] = {
        "add": lambda: store.add([make_job("handler")]),
        "claim": lambda: claim(store),
    }

    def handle(number: int, frame: object) -> None:
        try:
            verbs[verb]()
        except StoreError as error:
            said.append(str(error))

    add_one(store, "a")
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        clock.armed = True
        assert ids(claim(store)) == ["a"]
    finally:
        signal.signal(signal.SIGUSR1, before)
    (why,) = said
    assert "signal handler" in why
    assert "hand the work to a thread" in why
    add_one(store, "after")
    assert found(store) == ["after", "a"]


@pytest.mark.needs("local")
def test_a_signal_handler_cannot_hang_a_store_that_is_read_or_closed(
    store: Store, clock: RingingClock
) -> None:
    said: list[object] = []

    def handle(number: int, frame: object) -> None:
        for call in (lambda: store.get("a"), store.close):
            try:
                said.append(call())
            except StoreError as error:
                said.append(error)

    add_one(store, "a")
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        clock.armed = True
        assert ids(claim(store)) == ["a"]
        assert len(said) == 2
        clock.armed = True
        store.notes()
        assert len(said) == 4
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.needs("local")
def test_a_signal_handler_that_raises_leaves_the_store_in_order(
    store: Store, clock: RingingClock
) -> None:
    def handle(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    add_one(store, "a")
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        clock.armed = True
        with pytest.raises(KeyboardInterrupt):
            claim(store)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ids(claim(store)) == ["a"]
    assert store.verify().ok
