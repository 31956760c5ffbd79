"""Group commit: nobody is left waiting, whenever threads are interrupted."""

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
