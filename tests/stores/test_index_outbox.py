"""The outbox of memory and JSON Lines: taking events costs what is taken, not what waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from redrive.stores.index.changes import Handed, Queued
from redrive.stores.index.outbox import Outbox, Waiting

ALL = ("hook", "other")


class Counted(dict[int, Waiting]):
    """Counts how often an event is looked at."""

    looks = 0

    def __getitem__(self, number: int) -> Waiting:
        self.looks += 1
        return super().__getitem__(number)

    def get(self, number: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(number, default)

    def __iter__(self) -> Iterator[int]:
        self.looks += len(self)
        return super().__iter__()

    def items(self) -> Any:
        self.looks += len(self)
        return super().items()


def full(number: int) -> tuple[Outbox, Counted]:
    """An outbox with so many events, two of each job."""
    outbox = Outbox()
    outbox.waiting = counted = Counted()
    for at in range(number):
        job = f"job{at // 2}"
        outbox.add(Queued(at + 1, "hook", job, "died", float(at), "{}"), at)
    counted.looks = 0
    return outbox, counted


def test_taking_a_few_of_many_looks_at_few() -> None:
    outbox, counted = full(20_000)
    for _ in range(10):
        numbers = outbox.free(5, of=ALL, now=1e6)
        assert len(numbers) == 5
        outbox.hand(Handed(tuple(numbers), "w1", 2e6))
        outbox.remove(numbers)
    assert len(outbox.waiting) == 20_000 - 50
    assert counted.looks < 1000


def test_the_next_event_of_a_job_comes_forward_when_the_one_before_is_gone() -> None:
    outbox, _ = full(4)
    assert outbox.free(9, of=ALL, now=1e6) == [1, 3]
    outbox.remove([1])
    assert outbox.free(9, of=ALL, now=1e6) == [2, 3]
    outbox.hand(Handed((2,), due=50.0, attempts=1))
    assert outbox.free(9, of=ALL, now=1e6) == [3, 2]
    assert outbox.free(9, of=ALL, now=49.0) == [3]


def test_an_event_is_free_again_when_its_lease_is_over() -> None:
    outbox, _ = full(2)
    outbox.hand(Handed((1,), "w1", 200.0))
    assert outbox.free(9, of=ALL, now=199.0) == []
    assert outbox.free(9, of=ALL, now=200.0) == [1]


def test_a_subscription_that_goes_takes_its_events_along() -> None:
    outbox, _ = full(4)
    outbox.add(Queued(9, "other", "job0", "died", 0.0, "{}"), 0)
    outbox.drop("hook")
    assert list(outbox.waiting) == [9]
    assert outbox.free(9, of=ALL, now=1e6) == [9]
