"""The part of the store contract about events and actions.

**Events.** A change that `jobs.reports.events_of` reports is stored once for each subscription to its kind,
in the transaction that changes the job; nothing is stored for kinds without a subscription. A process may
keep the list of subscriptions for SUBSCRIBED seconds: a new subscription takes effect at once for changes
by the store object it was made with, and within that time for changes by others. Events of one job reach one subscription in order, one at a time;
delivery is at least once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple

from redrive.jobs.job import Action
from redrive.jobs.reports import EventKind

SUBSCRIBED = 5.0  # seconds for which a process may rely on the subscriptions that it has read


class OutboxEvent(NamedTuple):
    """One event for one subscription, leased to the process that delivers it."""

    number: int
    """Grows from event to event of one job."""
    subscription: str
    job_id: str
    kind: EventKind
    at: float
    """When it happened."""
    attempts: int
    """How often its delivery was put off before."""
    lost: int
    """How often its lease ended without an answer: the process that delivered it is gone."""
    body: str
    """The job as it was then, in the form of the journal: JSON, with its payload, without history."""


class WaitingEvents(NamedTuple):
    """The events that wait for one subscription."""

    number: int
    oldest: float
    """When the oldest of them happened."""


class OutboxVerbs(ABC):
    """What a store can do with events and actions."""

    @abstractmethod
    def subscribe(self, name: str, kinds: Collection[EventKind]) -> None:
        """Store events of these kinds for this subscription from now on, instead of others, durably."""

    @abstractmethod
    def unsubscribe(self, name: str) -> None:
        """Remove a subscription and its events; nothing happens if there is none."""

    @abstractmethod
    def subscriptions(self) -> dict[str, frozenset[EventKind]]:
        """Return the kinds of each subscription by name."""

    @abstractmethod
    def take_events(
        self, *, subscriptions: Collection[str], holder: str, lease_for: float, limit: int
    ) -> list[OutboxEvent]:
        """Lease up to `limit` due events of these subscriptions, longest due first.

        Of one subscription and job only the oldest that is stored, so a delivery that waits holds
        up later events of that job. Events whose lease has ended are returned again, as `lost` once
        more; so are those whose answer was lost on the way.
        """

    @abstractmethod
    def renew_events(self, numbers: Sequence[int], *, holder: str, lease_for: float) -> int:
        """Renew the leases that this holder still has; return how many that were."""

    @abstractmethod
    def waiting_events(self) -> dict[str, WaitingEvents]:
        """Return how many events wait for each subscription that has some."""

    @abstractmethod
    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> int:
        """Remove delivered events; put others off by so many seconds, one attempt more.

        Only those that this holder still has leased; returns how many that were.
        """

    @abstractmethod
    def record(self, action: Action) -> Action:
        """Record an action that moved no job; returns it with its number and time."""

    @abstractmethod
    def actions(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        numbers: Collection[int] | None = None,
    ) -> list[Action]:
        """Return actions, newest first, from before that number; with `numbers` only these."""
