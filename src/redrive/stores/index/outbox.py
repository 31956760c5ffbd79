"""The events that wait to be delivered, and which of them come next.

Of one subscription and job only the oldest event may be taken. Those lie in a heap of the subscription by
the time they are due, so taking some looks at these and at what is leased, however many wait. What changed
since it was pushed is dropped when it comes to the top.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from redrive.stores.index.changes import Change, Handed, Queued
from redrive.stores.outbox_verbs import WaitingEvents

Place = Change | int
"""A change, or where the journal has its line: offset and length in one number."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event in the outbox, without its body."""

    subscription: str
    job: str
    at: float
    due: float
    place: Place
    attempts: int = 0
    lost: int = 0
    holder: str | None = None
    end: float | None = None


class Outbox:
    """All events that wait."""

    def __init__(self) -> None:
        self.waiting: dict[int, Waiting] = {}
        self._lines: dict[tuple[str, str], list[int]] = {}
        """The numbers of one subscription and job, oldest first."""
        self._due: dict[str, list[tuple[float, int]]] = {}  # for each subscription
        self._held: set[int] = set()

    def add(self, event: Queued, place: Place) -> None:
        """Put an event behind the others of its job."""
        number = event.number
        self.waiting[number] = Waiting(event.subscription, event.job, event.at, event.at, place)
        line = self._lines.setdefault((event.subscription, event.job), [])
        line.append(number)
        if line[0] == number:
            self._push(number)

    def _push(self, number: int) -> None:
        one = self.waiting[number]
        heapq.heappush(self._due.setdefault(one.subscription, []), (one.due, number))

    def hand(self, to: Handed) -> None:
        """Lease events to a holder, or put them off."""
        for number in to.numbers:
            one = self.waiting.get(number)
            if one is None:
                continue
            self.waiting[number] = replace(
                one,
                due=one.due if to.due is None else to.due,
                attempts=one.attempts if to.attempts is None else to.attempts,
                lost=one.lost if to.lost is None else to.lost,
                holder=to.holder,
                end=to.end,
            )
            if to.holder is None:
                self._held.discard(number)
                self._push(number)
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
                self._push(line[0])
            else:
                del self._lines[one.subscription, one.job]

    def drop(self, subscription: str) -> None:
        """Forget all events of a subscription."""
        waiting = self.waiting.items()
        self.remove([number for number, one in waiting if one.subscription == subscription])

    def free(self, limit: int, *, of: Collection[str], now: float) -> list[int]:
        """Return the events that may be taken, longest due first."""
        found = [item for name in of for item in self._first(name, limit, now)]
        for number in self._held:
            one = self.waiting[number]
            if one.subscription in of and (one.end is None or one.end <= now):
                found.append((one.due, number))
        return [number for _, number in sorted(found)[: max(limit, 0)]]

    def _first(self, subscription: str, limit: int, now: float) -> list[tuple[float, int]]:
        """Return the first events of a subscription that are due and not leased."""
        due, found = self._due.get(subscription, []), list[tuple[float, int]]()
        while due and len(found) < limit and due[0][0] <= now:
            item = heapq.heappop(due)
            if self._is_next(item) and item not in found[-1:]:  # the same may lie there twice
                found.append(item)
        for item in found:
            heapq.heappush(due, item)  # for the operation may fail; later it is a leftover
        return found

    def counted(self) -> dict[str, WaitingEvents]:
        """Return how many events wait for each subscription, and the time of the oldest."""
        times: dict[str, list[float]] = {}
        for one in self.waiting.values():
            times.setdefault(one.subscription, []).append(one.at)
        return {name: WaitingEvents(len(each), min(each)) for name, each in times.items()}

    def _is_next(self, item: tuple[float, int]) -> bool:
        one = self.waiting.get(item[1])
        return (
            one is not None
            and one.holder is None
            and one.due == item[0]
            and self._lines[one.subscription, one.job][0] == item[1]
        )
