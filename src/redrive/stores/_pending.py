"""Verbs of the contract that stores do not have yet. This module goes when the last one is written.

Whoever implements a store takes `Pending` out of its bases (then the type checker and `ABC` name what is
missing), in:

- SQLite: `SqliteStore` in `stores/sqlite/store.py`, and `no_new_filters` in `stores/sql/lists.py`
- PostgreSQL: `PostgresStore` in `stores/postgres/store.py`, and the same line
- memory and JSON Lines: `EngineStore` in `stores/index/verbs.py`, and `no_new_filters` there

The last of the three deletes this file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from redrive.jobs.groups import GroupRecord, LaneCount, Span, Variant
from redrive.jobs.job import Act
from redrive.jobs.reports import EventKind
from redrive.stores.contract import Query, Store
from redrive.stores.outbox_verbs import OutboxEvent, PlannedJob, SentAlert, StoredPlan


def no_new_filters(query: Query) -> None:
    """Raise NotImplementedError for filters that a store does not know yet."""
    if query.event or query.variant is not None or query.action is not None:
        raise NotImplementedError


class Pending(Store):
    """The new verbs, each of which raises NotImplementedError."""

    def group_records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """See the contract; the same holds for all below."""
        raise NotImplementedError

    def variants(self, group: int) -> list[Variant]:
        raise NotImplementedError

    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        raise NotImplementedError

    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        raise NotImplementedError

    def change_group(
        self, number: int, changes: Mapping[str, object], action: Act, *, expected: int
    ) -> GroupRecord | None:
        raise NotImplementedError

    def fold(self) -> bool:
        raise NotImplementedError

    def subscribe(self, name: str, kinds: Collection[EventKind]) -> None:
        raise NotImplementedError

    def unsubscribe(self, name: str) -> None:
        raise NotImplementedError

    def subscriptions(self) -> dict[str, frozenset[EventKind]]:
        raise NotImplementedError

    def take_events(self, *, holder: str, lease_for: float, limit: int) -> list[OutboxEvent]:
        raise NotImplementedError

    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> int:
        raise NotImplementedError

    def claim_alert(
        self,
        group: int,
        channel: str,
        kind: str,
        *,
        every: float,
        more: Mapping[str, object] | None = None,
    ) -> bool:
        raise NotImplementedError

    def alerts(self, group: int | None = None) -> list[SentAlert]:
        raise NotImplementedError

    def put_plan(self, plan: StoredPlan, chunks: Iterable[Sequence[PlannedJob]]) -> StoredPlan:
        raise NotImplementedError

    def plan(self, plan_id: str) -> StoredPlan | None:
        raise NotImplementedError

    def plan_chunk(self, plan_id: str, chunk: int) -> list[PlannedJob]:
        raise NotImplementedError

    def drop_plan(self, plan_id: str) -> None:
        raise NotImplementedError

    def action_jobs(self, number: int) -> Iterator[tuple[str, dict[str, object]]]:
        raise NotImplementedError
