"""JSON Lines: submits against the bare disk, and how long it takes to open a long journal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import ours
from jobs import new_job
from measure import Contestant, Goal, Measure, Round, Stage, Submit, seconds, submitting
from peers import filehuey
from sqlite import drain

from redrive.stores.jsonl import JsonlStore


def a_line(stage: Stage) -> bytes:
    """Give a line as the store writes it."""
    place = stage.fresh() / "jobs.jsonl"
    with closing(JsonlStore(place)) as store:
        store.add([new_job()])
    lines = [line for line in place.read_bytes().splitlines(keepends=True) if b'"job":' in line]
    return lines[-1]


@contextmanager
def raw(stage: Stage) -> Iterator[Submit]:
    """Append the same bytes and sync them: what any file has to pay."""
    line = a_line(stage)
    descriptor = os.open(stage.fresh() / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(number: int, bulk: int) -> None:
        for _ in range(number // bulk):
            os.write(descriptor, line * bulk)
            os.fdatasync(descriptor)

    yield append
    os.close(descriptor)


def long_journal(stage: Stage) -> Path:
    """Write a journal of many entries; the same file serves all who open it."""
    place = stage.directory / "long.jsonl"
    if not place.exists():
        with closing(JsonlStore(place)) as store:
            for _ in range(stage.many // 1000):
                store.add([new_job() for _ in range(1000)])
    return place


def reading(work: Callable[[Path], object]) -> Callable[[Stage], AbstractContextManager[Round]]:
    """Make a contestant of someone who reads a long journal: how many seconds."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        place = long_journal(stage)
        yield lambda: seconds(lambda: work(place))

    return prepare


def open_and_ask(place: Path) -> None:
    """Open the store and ask it something, so that nothing is put off."""
    with closing(JsonlStore(place)) as store:
        assert store.counts()


def parse_all(place: Path) -> None:
    """Parse every line and keep nothing of it."""
    with place.open("rb") as lines:
        for line in lines:
            json.loads(line)


SUBMIT = Measure(
    name="jsonl-submit",
    title="JSON Lines: submit",
    unit="/s",
    contestants=(
        Contestant("Redrive", "P", submitting(ours.adding(ours.jsonl))),
        Contestant("raw write + fdatasync", "P", submitting(raw)),
        Contestant("FileHuey", "K", submitting(filehuey.opened)),
        Contestant(
            "Redrive, handler.submit",
            "P",
            submitting(ours.handing(lambda place: f"jsonl:{place / 'jobs.jsonl'}")),
        ),
    ),
    goals=(
        Goal(
            "Redrive",
            "raw write + fdatasync",
            0.7,
            0.9,
            why="records, keys and the index take 100 µs",
        ),
    ),
    note="One thread, one job a call. Raw: the same bytes, line by line.",
    plotted=True,
)

SHARED = Measure(
    name="jsonl-shared",
    title="JSON Lines: submit, many jobs to a sync",
    unit="/s",
    contestants=(
        Contestant("Redrive, 1 thread", "P", submitting(ours.adding(ours.jsonl))),
        Contestant(
            "Redrive, 32 threads",
            "P",
            submitting(ours.adding(ours.jsonl, threads=32), full=9600, quick=960),
        ),
        Contestant(
            "Redrive, 1000 a call",
            "P",
            submitting(ours.adding(ours.jsonl), full=20_000, quick=3000, bulk=1000),
        ),
    ),
)

SETTLE = Measure(
    name="jsonl-settle",
    title="JSON Lines: claim 100 and settle 100, with the record of each attempt",
    unit="/s",
    contestants=(Contestant("Redrive", "K", drain(ours.jsonl)),),
)

OPEN = Measure(
    name="jsonl-open",
    title="JSON Lines: open a full store (file in the page cache)",
    unit="s",
    contestants=(
        Contestant("Redrive, open and count", "", reading(open_and_ask)),
        Contestant("json.loads over every line", "", reading(parse_all)),
    ),
    goals=(Goal("Redrive, open and count", "json.loads over every line", 1.5, 0.5, at_most=True),),
    plotted=True,
)
