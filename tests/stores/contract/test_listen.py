"""Hints: whoever listens hears at once that something may be due, and needs nothing of it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import START, make_failure
from redrive.jobs.job import State
from redrive.stores.contract import Store
from redrive.stores.listening import HintListener
from stores.contract.kinds import Place
from stores.contract.verbs import DEAD, add_one, claim_one, move, settle

TESTS = Path(__file__).resolve().parents[2]
LONG, SHORT = 10.0, 0.15
"""Seconds within which a hint must come, and without one after which there is none."""

Listen = Callable[[Store], HintListener]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Listen to a store until the test ends."""
    opened: list[HintListener] = []

    def hear(store: Store) -> HintListener:
        listener = store.listen()
        assert listener is not None
        opened.append(listener)
        return listener

    yield hear
    for listener in opened:
        listener.close()


def hears(listener: HintListener, within: float = LONG) -> bool:
    """Whether a hint comes; it is taken in."""
    poll = select.poll()
    poll.register(listener.fileno(), select.POLLIN)
    heard = bool(poll.poll(within * 1000))
    end = time.monotonic() + LONG
    while poll.poll(0) and time.monotonic() < end:
        listener.drain()
    assert not poll.poll(0), "drained, and still not quiet"
    return heard


def test_a_submit_is_heard_and_then_it_is_quiet(store: Store, listen: Listen) -> None:
    listener = listen(store)
    assert not hears(listener, SHORT)
    for n in range(3):
        add_one(store, f"a{n}")
        assert hears(listener)
    assert not hears(listener, SHORT)


@pytest.mark.needs("shared")
def test_a_submit_by_another_store_object_is_heard(place: Place, listen: Listen) -> None:
    listener = listen(place.open())
    add_one(place.open(), "a")
    assert hears(listener)


PROGRAM = """
import sys
from pathlib import Path
sys.path += [sys.argv[1], sys.argv[1] + "/kits"]
from stores.contract.kinds import KINDS
from kit import make_job
from redrive.jobs.clock import SystemClock
kind = next(kind for kind in KINDS if kind.name == sys.argv[3])
store = kind.open(Path(sys.argv[2]), SystemClock())
store.add([make_job("from afar")])
"""


@pytest.mark.needs("shared")
def test_a_submit_by_a_process_that_ends_at_once_is_heard(place: Place, listen: Listen) -> None:
    listener = listen(place.open())
    where = [str(TESTS), str(place.directory), place.kind.name]
    subprocess.run([sys.executable, "-c", PROGRAM, *where], check=True, timeout=60)
    assert hears(listener)


def test_a_waiting_poll_is_woken(store: Store, listen: Listen) -> None:
    listener = listen(store)
    later = threading.Timer(0.1, add_one, [store, "a"])
    later.start()
    assert hears(listener)
    later.join()


def test_all_who_listen_hear(store: Store, listen: Listen) -> None:
    both = [listen(store), listen(store)]
    add_one(store, "a")
    assert [hears(listener) for listener in both] == [True, True]


def test_one_who_stops_listening_disturbs_nobody(store: Store, listen: Listen) -> None:
    gone, listener = listen(store), listen(store)
    gone.close()
    gone.close()
    gone.drain()
    assert gone.fileno() == -1
    add_one(store, "a")
    assert hears(listener)


def test_one_who_never_drains_holds_nobody_up(store: Store, listen: Listen) -> None:
    deaf, listener = listen(store), listen(store)
    for n in range(30):
        add_one(store, f"a{n}")
    assert hears(listener)
    assert hears(deaf)


def test_only_what_can_be_claimed_is_hinted_at(store: Store, listen: Listen) -> None:
    listener = listen(store)
    add_one(store, "later", due=START + 60)
    add_one(store, "dead", state=State.DEAD, failure=make_failure(), finished=START)
    assert not hears(listener, SHORT)
    add_one(store, "a")
    assert hears(listener)
    settle(store, claim_one(store, only=["a"]), DEAD, make_failure())
    move(store, "resolve", "a")
    assert not hears(listener, SHORT)


def test_a_retry_by_a_person_and_the_end_of_a_pause_are_hinted_at(
    store: Store, listen: Listen
) -> None:
    add_one(store, "a")
    settle(store, claim_one(store), DEAD, make_failure())
    store.note("pause:mail", "broken", durable=True)
    listener = listen(store)
    move(store, "retry", "a", delays=[60.0])
    assert not hears(listener, SHORT)
    move(store, "discard", "a")
    move(store, "reopen", "a")
    move(store, "retry", "a")
    assert hears(listener)
    store.note("turn", None)
    assert not hears(listener, SHORT)
    store.note("pause:mail", None)
    assert hears(listener)


@contextlib.contextmanager
def child(work: Callable[[], bool]) -> Iterator[int]:
    """Run work in a forked child while the parent goes on; it must come out true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test run are about
        process = os.fork()
    if process == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if work() else 1
        os._exit(code)
    try:
        yield process
    finally:
        assert os.waitpid(process, 0)[1] == 0


def test_a_forked_child_is_deaf_and_leaves_its_parents_ears_alone(
    store: Store, listen: Listen
) -> None:
    listener = listen(store)
    before = listener.fileno()

    def work() -> bool:
        deaf = listener.fileno() == -1
        listener.drain()
        listener.close()
        mine = store.listen()
        assert mine is not None
        mine.close()
        return deaf

    with child(work):
        pass
    assert listener.fileno() == before
    assert not hears(listener, SHORT), "not even the end of a connection"
    add_one(store, "a")
    assert hears(listener)


@pytest.mark.needs("shared")
def test_parent_and_child_wake_each_other(store: Store, listen: Listen) -> None:
    listener = listen(store)
    ready, told = os.pipe()

    def work() -> bool:
        mine = store.listen()
        assert mine is not None
        add_one(store, "from the child")
        hears(mine, SHORT)
        os.write(told, b"x")
        return hears(mine)

    with child(work):
        os.read(ready, 1)
        assert hears(listener)
        add_one(store, "from the parent")
    os.close(ready)
    os.close(told)


def test_many_who_come_and_go_leave_no_descriptor(store: Store) -> None:
    def opened() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    def once(n: int) -> None:
        listener = store.listen()
        assert listener is not None
        add_one(store, f"a{n}")
        listener.close()

    once(0)
    before = opened()
    for n in range(1, 20):
        once(n)
    assert opened() == before
