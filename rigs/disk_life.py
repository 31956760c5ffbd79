"""A small life of a file store, played by a child that tells what it was promised, and judged after.

The clock stands still and every id is fixed, so the store after each step is known beforehand: a
**picture** of everything that can be seen of it. Whatever happens to the child, the store must then
equal the picture after some step between the last one that was promised and the last one that was
begun. That is the whole judgement: nothing lost, nothing half, nothing twice.

The child tells its steps on a socket, by `send`: no rig makes that call fail.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

from kit import make_action, make_failure, make_job, make_settlement
from redrive.errors import StoreError, StoreLost
from redrive.jobs.groups import LaneCount
from redrive.jobs.job import Claim, Completed, Dead, Failure, Reason, Retry, State, Verdict
from redrive.stores.contract import PurgeRule, Store
from redrive.stores.jsonl import JsonlStore
from redrive.stores.sqlite import SqliteStore, opening
from redrive.testing import ManualClock
from stores.contract.verbs import everything

KINDS = {"jsonl": "jobs.jsonl", "sqlite": "jobs.db"}
"""The file stores, and what their file is called here."""

_HOLDER = "o1"
"""Who delivers events."""

_SETTINGS = opening._WRITER_SETTINGS  # noqa: SLF001


def checkpoint_every(pages: int) -> None:
    """Let SQLite take its log over after so many pages, in place of 10,000."""
    opening._WRITER_SETTINGS = tuple(  # type: ignore[assignment]  # noqa: SLF001
        f"PRAGMA wal_autocheckpoint = {pages}" if "autocheckpoint" in setting else setting
        for setting in _SETTINGS
    )


checkpoint_every(24)
logging.getLogger("redrive").setLevel(logging.CRITICAL)

Broken = Callable[[], None]
"""Breaks the code of this process; for negative controls."""


Picture = dict[str, Any]
"""Everything that can be seen of a store."""


def picture(store: Store) -> Picture:
    """Look at everything but those counts that may be lost."""
    records = store.group_records()
    return everything(store) | {
        "records": records,
        "curves": store.group_curve(3600, 24, records),
        "deaths": {lane: count.deaths for lane, count in counted(store).items() if count.deaths},
        "subscriptions": store.subscriptions(),
        "events": [event[1:] for event in events(store)],
    }


def counted(store: Store) -> dict[str, LaneCount]:
    """Return what is counted of each lane."""
    curve = store.lane_curve(3600, 24)
    return {lane: LaneCount(*map(sum, zip(*counts, strict=True))) for lane, counts in curve.items()}


def events(store: Store) -> list[tuple[int, str, str, str | None, int]]:
    """Return the outbox: number, subscription, job, holder and attempts, oldest first."""
    if isinstance(store, SqliteStore):
        text = "SELECT n, subscription, job, holder, attempts FROM outbox ORDER BY n"
        return [tuple(row) for row in store._file.read(lambda tx: tx.execute(text))]  # noqa: SLF001
    assert isinstance(store, JsonlStore)
    store.subscriptions()  # brings what is known up to date
    return [
        (number, one.subscription, one.job, one.holder, one.attempts)
        for number, one in sorted(store._journal.index.outbox.waiting.items())  # noqa: SLF001
    ]


@dataclass(frozen=True)
class Step:
    """One call, and whether it is promised to survive a power cut once it returns."""

    do: Callable[[Store], object]
    durable: bool = False


def open_store(kind: str, directory: Path) -> Store:
    """Open the store of this kind in a directory, with a clock that stands still."""
    place = directory / "home" / KINDS[kind]
    make: type[JsonlStore | SqliteStore] = JsonlStore if kind == "jsonl" else SqliteStore
    return make(place, clock=ManualClock(), patience=5.0)


def _claim(*ids: str) -> Step:
    return Step(lambda store: store.claim(["mail"], limit=9, holder="w1", lease_for=30, only=ids))


def _settle(job_id: str, verdict: Verdict, failure: Failure | None = None) -> Step:
    return _settle_all([job_id], verdict, failure)


def _settle_all(ids: list[str], verdict: Verdict, failure: Failure | None = None) -> Step:
    def do(store: Store) -> None:
        jobs = [job for one in ids if (job := store.get(one))]
        store.settle([make_settlement(Claim(job), verdict, failure) for job in jobs])

    return Step(do)


def _take(store: Store) -> None:
    store.take_events(subscriptions=store.subscriptions(), holder=_HOLDER, lease_for=30, limit=2)


def _deliver(store: Store) -> None:
    """Remove one of the events that were taken, and put the others off."""
    taken = [number for number, _, _, holder, _ in events(store) if holder == _HOLDER]
    store.settle_events(taken[:1], [(number, 5.0) for number in taken[1:]], holder=_HOLDER)


def _note_group(store: Store) -> None:
    record = min(store.group_records().values(), key=lambda one: one.number)
    changes = {"note": f"seen {record.deaths} times"}
    store.change_group(record.number, changes, make_action("note"), expected=record.version)


def _tidy(store: Store) -> None:
    """Rewrite the journal. SQLite takes its log over when it is closed, which every life ends with."""
    if isinstance(store, JsonlStore):
        store.compact()


def chapter(name: str) -> list[Step]:
    """Lead one job and a batch through every verb; batches are several pages long."""
    one, bulk = f"{name}.one", [f"{name}.{at}" for at in range(9)]
    jobs = [make_job(job, key=job, payload=f'{{"text":"{"x" * 1500}"}}') for job in bulk]
    purge = PurgeRule(state=State.COMPLETED, older_than=-1)
    return [
        Step(lambda store: store.subscribe(name, ["died", "retried", "purged"]), durable=True),
        Step(lambda store: store.add([make_job(one, key=one)]), durable=True),
        Step(lambda store: store.add(jobs), durable=True),
        _claim(one, *bulk[:3]),
        _settle(one, Completed(Reason.DONE)),
        _settle(bulk[0], Retry(0.0), make_failure()),
        _settle(bulk[1], Dead(Reason.EXHAUSTED), make_failure("quota", traceback="x" * 3000)),
        _settle(bulk[2], Dead(Reason.PERMANENT), make_failure("auth")),
        Step(_take),
        Step(_note_group, durable=True),
        Step(lambda store: store.move([bulk[1], "nobody"], "retry", make_action()), durable=True),
        Step(lambda store: store.note("pause:slow", name, durable=True), durable=True),
        _claim(bulk[1]),
        Step(lambda store: store.seize(by="w2", lease_for=30, holder="w1")),
        _settle(bulk[1], Completed(Reason.DONE)),
        Step(
            lambda store: store.amend(bulk[3], "{}", make_action("edit"), expected=0), durable=True
        ),
        Step(_deliver),
        Step(lambda store: store.fold()),
        Step(_tidy),
        Step(lambda store: store.move([bulk[2]], "resolve", make_action("resolve")), durable=True),
        Step(lambda store: store.note("pause:slow", None, durable=True), durable=True),
        Step(lambda store: store.purge([purge])),
        _claim(*bulk[3:]),
        _settle_all(bulk[3:], Retry(0.0), make_failure()),
        Step(lambda store: store.record(make_action("pause")), durable=True),
    ]


@dataclass(frozen=True)
class Life:
    """The steps for one kind of store, and what the store is before the first and after each."""

    kind: str
    steps: list[Step]
    seen: list[Picture]
    counted: list[dict[str, LaneCount]]
    """What has happened in each lane; after a crash less may be counted, never more."""

    @classmethod
    def of(cls, kind: str, chapters: int) -> Life:
        """Live it once, with nothing going wrong."""
        steps = [step for at in range(chapters) for step in chapter(f"c{at}")]
        with tempfile.TemporaryDirectory() as directory:
            store = open_store(kind, Path(directory))
            seen, counts = [picture(store)], [counted(store)]
            for step in steps:
                step.do(store)
                seen.append(picture(store))
                counts.append(counted(store))
            store.close()
        return cls(kind, steps, seen, counts)

    def durable(self, told: Told) -> int:
        """Give how many steps must be there after a power cut: all up to the last durable one."""
        return max((at + 1 for at in range(told.done) if self.steps[at].durable), default=0)

    def start(
        self, directory: Path, *, first: int = 0, tries: int = 1, broken: Broken | None = None
    ) -> tuple[int, socket.socket]:
        """Start a child that lives once a byte is sent to it; gives its process and its ledger.

        It begins with the first step, or goes on where another ended. A step is tried so often; a
        child that gives up just ends, and leaves the store as a crash does.
        """
        ours, theirs = socket.socketpair()
        child = os.fork()
        if not child:
            ours.close()
            Player(self, directory, theirs, tries).live(first, broken)
        theirs.close()
        return child, ours

    def judge(self, directory: Path, told: Told, least: int, *, faults: bool = False) -> str:
        """Open the store and compare it with what was promised; gives what is wrong, or nothing.

        Without faults no call had a reason to fail.
        """
        if told.wrong or (told.failed and not faults):
            return told.wrong or f"{told.failed[0]} out of nowhere"
        try:
            with closing(open_store(self.kind, directory)) as store:
                now, counts, report = picture(store), counted(store), store.verify()
                if not report.ok:
                    return f"verify found {report.problems[0]}"
                if now not in self.seen[least : told.begun + 1]:
                    return self._difference(now, least, told.begun)
                if wrong := self._miscounted(counts, told.begun):
                    return wrong
                store.add([make_job("later")])
            with closing(open_store(self.kind, directory)) as store:
                return "" if store.get("later") else "a job added afterwards is gone"
        except StoreError as error:
            return f"{type(error).__name__}: {error}"

    def _miscounted(self, counts: dict[str, LaneCount], begun: int) -> str:
        for lane, found in counts.items():
            most = self.counted[begun].get(lane, LaneCount())
            if any(not 0 <= value <= limit for value, limit in zip(found, most, strict=True)):
                return f"lane {lane} counts {found}, but only {most} happened"
        return ""

    def _difference(self, now: Picture, least: int, begun: int) -> str:
        if now in self.seen:
            after = self.seen.index(now)
            return f"{least} steps were promised, it is as after {after}: work is lost"
        missing = sorted(set(self.seen[least]["order"]) - set(now["order"]))
        return f"it is like after none of the steps {least} to {begun}; missing jobs: {missing}"


@dataclass
class Told:
    """What a child told of its life."""

    begun: int = 0
    """Steps it had begun."""
    done: int = 0
    """Steps that returned; those that failed and were repeated or had landed too."""
    failed: list[str] = field(default_factory=list[str])
    """The errors its calls gave, by the name of the type."""
    wrong: str = ""
    """What it found wrong itself."""
    finished: bool = False


def read(ledger: socket.socket) -> Told:
    """Read a ledger to its end."""
    told = Told()
    with ledger, ledger.makefile("r") as lines:
        for line in lines:
            word, _, rest = line.rstrip("\n").partition(" ")
            match word:
                case "begun":
                    told.begun = int(rest) + 1
                case "done":
                    told.done = int(rest) + 1
                case "failed":
                    told.failed.append(rest)
                case "wrong":
                    told.wrong = rest
                case _:
                    told.finished = True
    return told


class Player:
    """Lives the life in a child. A call that fails is looked into, and repeated if need be."""

    def __init__(self, life: Life, directory: Path, ledger: socket.socket, tries: int) -> None:
        self._life = life
        self._directory = directory
        self._ledger = ledger
        self._tries = tries
        self._store: Store | None = None

    def live(self, first: int, broken: Broken | None) -> NoReturn:
        """Wait for the word, live, and end the process."""
        try:
            self._ledger.recv(1)
            if broken is not None:
                broken()
            self._play(first)
        except BaseException:  # noqa: BLE001 - what a caller must never see is what we look for
            last = traceback.format_exc().strip().splitlines()
            self._say(f"wrong {last[-1]} {' '.join(last[-3:-1])}")
            os._exit(3)
        os._exit(0)

    def _play(self, first: int) -> None:
        """Take every step from one on; after too many failures of a step it ends early."""
        for at, step in list(enumerate(self._life.steps))[first:]:
            self._say(f"begun {at}")
            landed = at == first > 0 and self._landed(at)
            if not landed and not any(self._try(at, step) for _ in range(self._tries)):
                return
            self._say(f"done {at}")
        self._close()
        self._say("finished")

    def _try(self, at: int, step: Step) -> bool:
        """Take a step; also true if it failed and turns out to have happened."""
        try:
            step.do(self._open())
        except StoreError as error:
            self._failed(error)
            return self._landed(at)
        return True

    def _landed(self, at: int) -> bool:
        """Look what became of a step that failed: all of it, or nothing."""
        try:
            now = picture(self._open())
        except StoreError as error:
            self._failed(error)
            return False
        before, after = self._life.seen[at : at + 2]
        if now not in (before, after):
            self._say(f"wrong after step {at} failed, the store is neither before nor after it")
            os._exit(3)
        return now == after != before

    def _failed(self, error: StoreError) -> None:
        self._say(f"failed {type(error).__name__}")
        if isinstance(error, StoreLost) and self._tries > 1:
            self._close()

    def _open(self) -> Store:
        if self._store is None:
            self._store = open_store(self._life.kind, self._directory)
        return self._store

    def _close(self) -> None:
        store, self._store = self._store, None
        try:
            if store is not None:
                store.close()
        except StoreError as error:
            self._failed(error)

    def _say(self, words: str) -> None:
        self._ledger.send(f"{words}\n".encode())


def directories(root: Path) -> Iterator[Path]:
    """Give one new directory after the other."""
    for at in itertools.count():
        place = root / str(at)
        place.mkdir()
        yield place
