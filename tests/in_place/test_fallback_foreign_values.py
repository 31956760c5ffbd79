"""What providers return and raise: nothing of it is run, changed or taken for an answer."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any

import pytest

from redrive import fallback
from redrive.classify import classify
from redrive.errors import AllProvidersFailed, UsageError
from redrive.stores.memory import MemoryStore
from tablekit import each_row


def test_an_error_that_carries_a_store_does_not_ask_it_for_keys() -> None:
    class Server:
        asked: list[object] = []  # noqa: RUF012

        def __getitem__(self, key: object) -> object:
            self.asked.append(key)
            return None

    class Lost(Exception):
        response, body, details = Server(), defaultdict[str, Any](dict), Server()

    classify(Lost("x"))
    assert (Server.asked, dict(Lost.body)) == ([], {})


def test_a_coroutine_that_nobody_awaited_is_no_answer() -> None:
    made: list[Coroutine[Any, Any, str]] = []

    async def real() -> str:
        raise ConnectionResetError

    def wrapped() -> Coroutine[Any, Any, str]:
        made.append(real())
        return made[0]

    with pytest.raises(UsageError, match="openai returned a coroutine, which was not awaited"):
        fallback(openai=wrapped, claude=wrapped)()
    with pytest.raises(RuntimeError, match="cannot reuse already awaited"):
        made[0].send(None)  # for it was closed


class Limited(Exception):
    def __init__(self, status: int, retry_after: float | None) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        if retry_after is not None:
            self.retry_after = retry_after


def both_fail(first: float | None, second: float | None) -> tuple[MemoryStore, list[str]]:
    """Let two callers be asked at once; the second one's failure comes after the first one's."""
    store, together, after = MemoryStore(), threading.Barrier(2), threading.Event()
    asked: list[str] = []

    def ask(who: str) -> str:
        asked.append(who)
        if who == "later":
            return who
        together.wait(10)
        if who == "second":
            assert after.wait(10)
        wait = first if who == "first" else second
        raise Limited(503 if wait is None else 429, wait)

    call = fallback(openai=ask, store=store)

    def run(who: str) -> None:
        with pytest.raises(AllProvidersFailed):
            call(who)
        if who == "first":
            after.set()

    threads = [threading.Thread(target=run, args=(who,)) for who in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return store, asked


@each_row(
    "first, second, left",
    [(5, 3600, 3600), (None, 3600, 3600), (3600, 5, 3600), (30, 30, 30), (3600, None, 3600)],
)
def test_the_longer_of_two_waits_that_a_server_tells_counts(
    first: float | None, second: float | None, left: float
) -> None:
    store, asked = both_fail(first, second)
    assert sorted(asked) == ["first", "second"]
    (pause,), (memory,) = store.notes("pause:provider:"), store.notes("cooled:")
    assert pause.expires_in == pytest.approx(left, abs=3)
    assert memory.expires_in == pytest.approx(left + 3600, abs=3)
    assert '"count": 1' in memory.value
