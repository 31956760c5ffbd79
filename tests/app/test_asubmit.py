"""Coroutines that submit at the same time share a write, and nothing else."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redrive import Handler, Job, Redrive
from redrive.errors import BadPayload, KeyConflict, StoreBusy, UsageError
from tablekit import each_row


@pytest.fixture
def note(app: Redrive) -> Handler[[int], None]:
    """A handler that takes a number."""

    @app.handler("note")
    def note(number: int) -> None: ...

    return note


@pytest.fixture
def adds(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each write to the store brought."""
    sizes: list[int] = []
    real = app.store.add

    def add(jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        sizes.append(len(jobs))
        return real(jobs, within=within)

    monkeypatch.setattr(app.store, "add", add)
    return sizes


@contextmanager
def closed_gate(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Semaphore]:
    """Let this process's writes wait at a gate; gives the count of those that have come there."""
    there, gate, real = threading.Semaphore(0), threading.Event(), app.store.add
    here = os.getpid()

    def add(jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        if os.getpid() == here:
            there.release()
            assert gate.wait(30)
        return real(jobs, within=within)

    with monkeypatch.context() as patch:
        patch.setattr(app.store, "add", add)
        yield there
        gate.set()


async def arrival(there: threading.Semaphore) -> None:
    """Wait on this loop until a write has come to the gate."""
    assert await asyncio.get_running_loop().run_in_executor(None, there.acquire, True, 30)


async def turns(number: int) -> None:
    """Let the loop go on a little."""
    for _ in range(number):
        await asyncio.sleep(0)


def numbers(app: Redrive) -> list[int]:
    return sorted(int(job.payload.partition(":")[2][:-1]) for job in app.desk.jobs.each())


def test_a_crowd_shares_one_write_and_each_gets_its_own_job(
    app: Redrive, note: Handler[[int], None], adds: list[int]
) -> None:
    async def program() -> list[Job]:
        return await asyncio.gather(*(note.asubmit(n) for n in range(100)))

    jobs = asyncio.run(program())
    assert adds == [100]
    assert [job.payload for job in jobs] == [f'{{"number":{n}}}' for n in range(100)]
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert numbers(app) == list(range(100))


def test_an_app_can_be_closed_from_async_code(app: Redrive) -> None:
    note = app.handler("note")(lambda number: None)

    async def use() -> None:
        await note.asubmit(1)
        await app.aio(app.close)
        await note.asubmit(2)

    asyncio.run(use())
    assert app.desk.jobs.counts()[0].jobs == (1 if app.store.url == "memory:" else 2)


def test_a_conflict_of_keys_is_the_error_of_that_one_only(
    app: Redrive, note: Handler[[int], None], adds: list[int]
) -> None:
    """M8; and the few who are wrong cost few more writes."""
    note.options(key="k40").submit(7)
    adds.clear()

    async def program() -> list[Job | BaseException]:
        calls = (note.options(key=f"k{n}").asubmit(n) for n in range(64))
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(program())
    assert [n for n, one in enumerate(answers) if isinstance(one, KeyConflict)] == [40]
    assert all(isinstance(one, Job) for n, one in enumerate(answers) if n != 40)
    assert len(adds) == 1 + 2 * 6
    assert numbers(app) == sorted([7, *(n for n in range(64) if n != 40)])


def test_equal_keys_in_a_crowd_are_one_job_and_the_first_one_wins(
    app: Redrive, note: Handler[[int], None]
) -> None:
    keyed = note.options(key="k")

    async def program() -> list[Job | BaseException]:
        calls = (keyed.asubmit(1), keyed.asubmit(1), keyed.asubmit(2), note.asubmit(3))
        return await asyncio.gather(*calls, return_exceptions=True)

    first, second, third, other = asyncio.run(program())
    assert isinstance(first, Job)
    assert isinstance(second, Job)
    assert isinstance(other, Job)
    assert (second.id, first.is_new, second.is_new) == (first.id, True, False)
    assert isinstance(third, KeyConflict)
    assert numbers(app) == [1, 3]


def test_what_cannot_be_kept_or_collected_is_refused_alone(
    app: Redrive, note: Handler[[int], None], adds: list[int]
) -> None:
    bad: Any = object()

    async def program() -> list[Job | BaseException]:
        within = note.options(within=object())
        calls = (note.asubmit(1), note.asubmit(bad), within.asubmit(2), note.asubmit(3))
        return await asyncio.gather(*calls, return_exceptions=True)

    one, unfit, joining, three = asyncio.run(program())
    assert isinstance(unfit, BadPayload)
    assert isinstance(joining, UsageError)
    assert (type(one), type(three)) == (Job, Job)
    assert sorted(adds) == [1, 2]
    assert numbers(app) == [1, 3]


@pytest.mark.parametrize("error", [StoreBusy("another program holds it"), ZeroDivisionError()])
def test_a_store_that_takes_nothing_is_everybodys_error(
    app: Redrive, note: Handler[[int], None], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def add(jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        raise error

    async def program() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(app.store, "add", add)
            calls = (note.asubmit(n) for n in range(20))
            answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in answers] == [type(error)] * 20
        await note.asubmit(20)

    asyncio.run(program())
    assert numbers(app) == [20]


def test_cancelling_one_takes_nothing_from_the_others(
    app: Redrive, note: Handler[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of the one who was cancelled on the way is stored all the same."""

    async def program() -> None:
        with closed_gate(app, monkeypatch) as there:
            calls = [asyncio.ensure_future(note.asubmit(n)) for n in range(3)]
            await arrival(there)
            calls[0].cancel()
            await turns(2)
            assert [call.done() for call in calls] == [True, False, False]
        assert [type(one) for one in await asyncio.gather(*calls[1:])] == [Job, Job]
        with pytest.raises(asyncio.CancelledError):
            await calls[0]

    asyncio.run(program())
    assert numbers(app) == [0, 1, 2]


def test_whoever_has_an_answer_has_a_job_whatever_is_cancelled_around_it(
    app: Redrive, note: Handler[[int], None]
) -> None:
    chance = random.Random(4)

    async def one(n: int) -> Job:
        await turns(chance.randrange(20))
        return await note.options(key=f"k{n}" if n % 3 == 0 else None).asubmit(n)

    async def program() -> list[Job | BaseException]:
        calls = [asyncio.ensure_future(one(n)) for n in range(300)]
        for call in chance.sample(calls, 100):
            await turns(chance.randrange(3))
            call.cancel()
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(program())
    kept = {n for n, answer in enumerate(answers) if isinstance(answer, Job)}
    assert len(kept) >= 200
    assert all(type(one) in {Job, asyncio.CancelledError} for one in answers)
    stored = numbers(app)
    assert kept <= set(stored)
    assert len(stored) == len(set(stored))


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked child; gives its exit code."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@each_row("kind", ["jsonl:jobs.jsonl", "jobs.db"])
def test_a_child_forked_in_the_middle_of_a_batch_submits_by_itself(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent's batch, half collected or on its way, is the parent's alone."""
    monkeypatch.chdir(tmp_path)
    app = Redrive(kind)

    @app.handler("note")
    def note(number: int) -> None: ...

    async def crowd(start: int) -> None:
        await asyncio.gather(*(note.asubmit(n) for n in range(start, start + 10)))

    async def program() -> None:
        with closed_gate(app, monkeypatch) as there:
            under_way = asyncio.ensure_future(crowd(0))
            await arrival(there)
            collecting = asyncio.ensure_future(crowd(10))
            await turns(2)  # it has asked, and leaves in the next turn
            assert in_child(lambda: asyncio.run(crowd(20))) == 0
        await asyncio.gather(under_way, collecting)

    asyncio.run(program())
    assert numbers(app) == list(range(30))
    app.close()
