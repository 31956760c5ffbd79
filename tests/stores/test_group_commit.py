"""Group commit: nobody is left waiting, whenever threads are interrupted (J5)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from redrive.stores._combine import Combiner, Operation


@pytest.fixture
def hasty() -> Iterator[None]:
    """Have threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Paused:
    """A mutex after whose release the thread `second` waits until `first` is through."""

    def __init__(self, go_on: threading.Event) -> None:
        self._lock, self._go_on = threading.Lock(), go_on
        self.first: threading.Thread | None = None

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        first, self.first = self.first, None
        if threading.current_thread().name == "second" and first is not None:
            self._go_on.set()
            first.join(20)
        else:
            self.first = first


def test_a_thread_that_is_made_leader_before_it_looks_whether_it_leads() -> None:
    """It does not wait, so nothing may wake it twice."""
    inside, go_on = threading.Event(), threading.Event()
    found: list[object] = []

    def commit(batch: list[Operation[None]]) -> None:
        inside.set()
        go_on.wait(20)
        for one in batch:
            one.run(None)

    def run() -> None:
        name = threading.current_thread().name
        found.append(combiner.run(lambda _: name, durable=False))

    combiner = Combiner(commit)
    mutex = Paused(go_on)
    combiner._mutex = mutex  # type: ignore[assignment]
    threads = [threading.Thread(target=run, name=name) for name in ("first", "second", "third")]
    mutex.first = threads[0]
    threads[0].start()
    assert inside.wait(20)
    for thread in threads[1:]:
        thread.start()
        thread.join(20)
    assert found == ["first", "second", "third"]


@pytest.mark.usefixtures("hasty")
def test_many_threads_in_a_hurry_all_get_their_answers() -> None:
    answers: list[int] = []

    def commit(batch: list[Operation[None]]) -> None:
        time.sleep(0)
        for one in batch:
            one.run(None)

    def run() -> None:
        answers.extend(combiner.run(lambda _: 1, durable=False) for _ in range(3000))

    combiner = Combiner(commit)
    threads = [threading.Thread(target=run, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 8 * 3000
