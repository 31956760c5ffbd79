"""The events that wait to be delivered, and which of them come next.

Of one subscription and job only the oldest event may be taken. Those lie in a heap by the time they are due,
so taking some looks at these and at what is leased, however many wait. What changed since it was pushed
is dropped when it comes to the top.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace

from redrive.stores.index.changes import Change, Handed, Queued

Place = Change | int
"""A change, or where the journal has its line: offset and length in one number."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event in the outbox, without its body."""

    subscription: str
    job: str
    due: float
    attempts: int
    place: Place
    holder: str | None = None
    end: float | None = None
    boot: str | None = None


class Outbox:
    """All events that wait."""

    def __init__(self) -> None:
        self.waiting: dict[int, Waiting] = {}
        self._lines: dict[tuple[str, str], list[int]] = {}
        """The numbers of one subscription and job, oldest first."""
        self._due: list[tuple[float, int]] = []
        self._held: set[int] = set()

    def add(self, event: Queued, place: Place) -> None:
        """Put an event behind the others of its job."""
        number = event.number
        self.waiting[number] = Waiting(event.subscription, event.job, event.at, 0, place)
        line = self._lines.setdefault((event.subscription, event.job), [])
        line.append(number)
        if line[0] == number:
            heapq.heappush(self._due, (event.at, number))

    def hand(self, to: Handed) -> None:
        """Lease events to a holder, or put them off."""
        for number in to.numbers:
            one = self.waiting.get(number)
            if one is None:
                continue
            due = one.due if to.due is None else to.due
            attempts = one.attempts if to.attempts is None else to.attempts
            one = replace(one, due=due, attempts=attempts)
            self.waiting[number] = replace(one, holder=to.holder, end=to.end, boot=to.boot)
            if to.holder is None:
                self._held.discard(number)
                heapq.heappush(self._due, (due, number))
            else:
                self._held.add(number)

    def remove(self, numbers: Iterable[int]) -> None:
        """Forget events; the next of each job comes forward."""
        for number in numbers:
            one = self.waiting.pop(number, None)
            if one is None:
                continue
            self._held.discard(number)
            line = self._lines[one.subscription, one.job]
            line.remove(number)
            if line:
                heapq.heappush(self._due, (self.waiting[line[0]].due, line[0]))
            else:
                del self._lines[one.subscription, one.job]

    def drop(self, subscription: str) -> None:
        """Forget all events of a subscription."""
        waiting = self.waiting.items()
        self.remove([number for number, one in waiting if one.subscription == subscription])

    def free(self, limit: int, *, now: float, boot: tuple[str, float]) -> list[int]:
        """Return the events that may be taken, longest due first; `boot` measures leases."""
        over = [number for number in self._held if _is_over(self.waiting[number], *boot)]
        taken: list[tuple[float, int]] = []
        while self._due and len(taken) < limit and self._due[0][0] <= now:
            item = heapq.heappop(self._due)
            if self._is_next(item) and item not in taken[-1:]:  # the same may lie there twice
                taken.append(item)
        for item in taken:
            heapq.heappush(self._due, item)  # for the operation may fail; later it is a leftover
        found = sorted([*taken, *((self.waiting[number].due, number) for number in over)])
        return [number for _, number in found[: max(limit, 0)]]

    def _is_next(self, item: tuple[float, int]) -> bool:
        one = self.waiting.get(item[1])
        return (
            one is not None
            and one.holder is None
            and one.due == item[0]
            and self._lines[one.subscription, one.job][0] == item[1]
        )


def _is_over(one: Waiting, boot: str, seconds: float) -> bool:
    return one.boot != boot or one.end is None or one.end <= seconds
