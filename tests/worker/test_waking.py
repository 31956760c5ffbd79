"""Where a worker's steering thread waits (J4)."""

from __future__ import annotations

import time

from redrive.stores.memory import MemoryStore
from redrive.worker.schedule import Waiter


def test_a_look_that_is_due_already_does_not_cut_a_wait_for_room_short() -> None:
    with Waiter(MemoryStore(), poll=0.0) as waiter:
        waiter.claimed(1, asked=1)
        began = time.monotonic()
        waiter.wait(0.05, unless=lambda: False)
        assert time.monotonic() - began >= 0.05
