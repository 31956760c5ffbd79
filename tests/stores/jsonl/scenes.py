"""A journal that holds every kind of line, and what the store was after each operation of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kit import make_action, make_failure, make_job, make_settlement
from redrive.jobs.job import Claim, Completed, Dead, Job, Reason, Retry, Return, State
from redrive.stores.contract import PurgeRule, Query
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock

EVERY_STATE = frozenset(State)
Operation = Callable[[JsonlStore], object]


def claim(store: JsonlStore, *ids: str) -> list[Claim]:
    """Lease these jobs."""
    return store.claim(["mail"], limit=9, holder="w1", lease_for=30, only=ids)


def take_events(store: JsonlStore, limit: int) -> object:
    """Lease events of the one subscription."""
    return store.take_events(subscriptions=["hook"], holder="w1", lease_for=30, limit=limit)


def scenario() -> list[Operation]:
    """Operations that write one batch each; together they write every kind of line."""
    held: dict[str, Claim] = {}

    def lease(*ids: str) -> Operation:
        return lambda store: held.update({one.job.id: one for one in claim(store, *ids)})

    def settle(one: str, *rest: Any) -> Operation:
        return lambda store: store.settle([make_settlement(held[one], *rest)])

    payloads = ['{"price":10.10,"name":"Zoë\u2028\x85"}', '{ "spaced" :\n [1, 2.50] }', "{}"]
    jobs = [make_job(f"job{at}", payload=text, key=f"k{at}") for at, text in enumerate(payloads)]
    failure = make_failure(message="Grüße\ud800", traceback="Traceback:\n  line 1")
    return [
        lambda store: store.add(jobs),
        lambda store: store.subscribe("hook", ["died", "retried", "purged"]),
        lease("job0", "job1"),
        settle("job0", Dead(Reason.EXHAUSTED, "10 attempts"), failure),
        settle("job1", Retry(5.0), make_failure("quota")),
        lambda store: store.note("pause:slow", "by ada", durable=True),
        lease("job2"),
        lambda store: store.renew([held["job2"]], lease_for=60),
        lambda store: held.update(job2=store.seize(by="w2", lease_for=30, holder="w1")[0]),
        settle("job2", Completed(Reason.DONE)),
        lambda store: store.move(["job0"], "enlist", make_action("enlist"), run=-7),
        lambda store: store.move(["job0", "nobody"], "retry", make_action(), run=7),
        lambda store: store.move(["job1"], "retry", make_action()),
        lambda store: store.amend("job1", '{"new":"Ä"}', make_action("edit"), expected=0),
        lambda store: take_events(store, limit=1),
        lambda store: store.settle_events([1], [], holder="w1"),
        lambda store: take_events(store, limit=9),
        lambda store: store.settle_events([], [(2, 5.5)], holder="w1"),
        lambda store: store.change_group(1, {"owner": "bö"}, make_action("own"), expected=0),
        lambda store: store.fold(),
        lambda store: store.subscribe("other", ["died"]),
        lambda store: store.unsubscribe("other"),
        lambda store: store.purge([PurgeRule(state=State.COMPLETED, older_than=-1)]),
        lambda store: store.note("pause:slow", None),
        lease("job0"),
        lambda store: store.settle([make_settlement(held["job0"], Return())]),
        lambda store: store.record(make_action("pause")),
    ]


def picture(store: JsonlStore) -> dict[str, Any]:
    """Everything that can be seen of a store."""
    found = store.find(Query(states=EVERY_STATE)).jobs
    return {
        "jobs": {job.id: store.get(job.id) for job in found},
        "counts": sorted(store.counts(), key=repr),
        "groups": store.groups(Query(states=EVERY_STATE)),
        "acts": store.actions(),
        "notes": store.notes(),
        "records": store.group_records(),
        "deaths": store.group_curve(60, 3, [0, 1, 2]),
        "subscriptions": store.subscriptions(),
        "outbox": outbox(store),
    }


def outbox(store: JsonlStore) -> list[object]:
    """The events that wait, with their leases and bodies."""
    journal = store._journal
    waiting = journal.index.outbox.waiting.items()
    return [(n, replace(one, place=0), journal.change_at(one.place)) for n, one in waiting]


@dataclass(frozen=True)
class Film:
    """The bytes of a journal, and a picture of the store for each operation in it."""

    data: bytes
    clock: ManualClock
    ends: list[int]
    """Where each operation ends; the first is the header."""
    pictures: list[dict[str, Any]]
    """What the store is once the operation before that place is whole."""

    def after(self, length: int) -> dict[str, Any]:
        """Give what a journal cut to this length must be."""
        whole = [at for at, end in enumerate(self.ends) if end <= length]
        return self.pictures[whole[-1] if whole else 0]

    def versions(self, job_id: str) -> list[Job]:
        """Give everything a job ever was."""
        return [one["jobs"][job_id] for one in self.pictures if job_id in one["jobs"]]

    def line_at(self, offset: int) -> tuple[int, int]:
        """Give where the line around an offset begins and ends."""
        start = self.data.rfind(b"\n", 0, offset) + 1
        return start, self.data.index(b"\n", offset) + 1


def film(directory: Path) -> Film:
    """Play the scenario."""
    clock = ManualClock()
    path = directory / "film.jsonl"
    store = JsonlStore(path, clock=clock)
    pictures = [picture(store)]
    for operation in scenario():
        operation(store)
        pictures.append(picture(store))
    data = path.read_bytes()
    store.close()
    last_lines = re.finditer(rb'.{17},"seq":\d+,"end":1,"(?!mark).*\n', data)
    ends = [data.index(b"\n") + 1, *(line.end() for line in last_lines)]
    assert len(ends) == len(pictures)
    return Film(data, clock, ends, pictures)
