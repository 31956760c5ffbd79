"""Redrive as a contestant, through a store or through a handler."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from jobs import HANDLER, PAYLOAD, new_job
from measure import Stage, Submit

from redrive import Redrive
from redrive.stores.contract import Store
from redrive.stores.jsonl import JsonlStore
from redrive.stores.sqlite import SqliteStore

Open = Callable[[Stage], Store]


def sqlite(stage: Stage) -> Store:
    """Open a new store of the default kind."""
    return SqliteStore(stage.fresh() / "jobs.db")


def jsonl(stage: Stage) -> Store:
    """Open a new store of the readable kind."""
    return JsonlStore(stage.fresh() / "jobs.jsonl")


def adding(
    open_store: Open, *, threads: int = 1
) -> Callable[[Stage], AbstractContextManager[Submit]]:
    """Give jobs to a store, from one thread or many."""

    @contextmanager
    def opened(stage: Stage) -> Iterator[Submit]:
        with closing(open_store(stage)) as store:

            def add(number: int, bulk: int) -> None:
                for _ in range(number // bulk):
                    store.add([new_job() for _ in range(bulk)])

            yield add if threads == 1 else lambda number, bulk: spread(add, number, bulk, threads)

    return opened


def spread(submit: Submit, number: int, bulk: int, threads: int) -> None:
    """Share the work among threads that start at once."""
    each = number // threads
    pool = [threading.Thread(target=submit, args=(each, bulk)) for _ in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()


def handing(
    url: Callable[[Path], str],
) -> Callable[[Stage], AbstractContextManager[Submit]]:
    """Submit as a user does: arguments bound, checked and turned into JSON, one by one or many."""

    @contextmanager
    def opened(stage: Stage) -> Iterator[Submit]:
        with closing(Redrive(url(stage.fresh()))) as app:

            @app.handler(HANDLER)
            def send(**message: object) -> None:
                """Do nothing: it is never run here."""

            def submit(number: int, bulk: int) -> None:
                if bulk > 1:
                    send.submit_many([PAYLOAD] * number)
                else:
                    for _ in range(number):
                        send.submit(**PAYLOAD)

            yield submit

    return opened
