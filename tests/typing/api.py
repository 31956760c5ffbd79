"""Right and wrong uses of the typed API, read by mypy and pyright and never run.

Right uses must pass. Each wrong use carries the error both checkers must find: an ignore that is not
needed is itself an error, so a mistake that is no longer caught fails `make check`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_type

from redrive import (
    Handler,
    Job,
    Policy,
    Reason,
    Redrive,
    Tried,
    constant,
    fallback,
    retry,
    retrying,
)
from redrive.delivery.endpoint import Endpoint
from redrive.in_place.fallback import Answer
from redrive.policies import presets
from redrive.testing import in_memory, simulate

app = Redrive("memory:")


@app.handler("greet", policy=presets.WEBHOOKS)
def greet(name: str, *, times: int = 1) -> str:
    """Say hello."""
    return name * times


@app.handler("agreet", attempts=3)
async def agreet(name: str) -> int:
    """Say hello later."""
    return len(name)


@retry
def fetch(url: str, *, tries: int = 1) -> bytes:
    """Get a page."""
    return url.encode() * tries


@retry(presets.EVENTS, max_age="30s")
async def afetch(url: str) -> bytes:
    """Get a page later."""
    return url.encode()


@retry(
    on=(ConnectionError, "timeout", lambda error: bool(error.args)),
    timeout="5s",
    wait=lambda error: error.seconds,
    on_result=lambda page: not page,
    on_retry=lambda event: event.attempt,
    fallback=None,
)
async def find(url: str) -> bytes | None:
    """Get a page, or nothing."""
    return url.encode()


@retry(on=OSError)
def lines(url: str) -> Iterator[str]:
    """Read a page line by line."""
    yield url


class Client:
    """A class whose methods are retried."""

    @retry(attempts=3, sleep=lambda seconds: None)
    def get(self, url: str) -> bytes:
        """Get a page."""
        return url.encode()

    @classmethod
    @retry(policy=presets.SYNC)
    def named(cls, name: str) -> str:
        """Name one."""
        return name


def right_retries() -> None:
    """Types are kept through @retry, with and without a policy."""
    assert_type(fetch("u", tries=2), bytes)
    assert_type(Client().get("u"), bytes)
    assert_type(Client.named("n"), str)
    assert_type(lines("u"), Iterator[str])
    for attempt in retrying(presets.SYNC, on=(OSError, "quota"), attempts=3):
        with attempt:
            assert_type(attempt.number, int)
    shout: Callable[[str], str] = retry(attempts=2)(str.upper)
    shout("u")
    assert_type(simulate(presets.WEBHOOKS, ["transient", OSError()]).delays, tuple[float, ...])
    assert_type(simulate(presets.WEBHOOKS, []).reason, Reason | None)


async def right_async_retries() -> None:
    """An async function stays one."""
    assert_type(await afetch("u"), bytes)
    assert_type(await find("u"), bytes | None)
    async for attempt in retrying(wait=constant(1)):
        with attempt:
            assert_type(attempt.number, int)


def right_fallbacks() -> None:
    """One function of several keeps their types."""
    ask = fallback(first=fetch, second=fetch, on=["quota"], longest="5m")
    assert_type(ask("u", tries=2), Answer[bytes])
    assert_type(ask("u").value, bytes)


async def right_async_fallbacks() -> None:
    """Async ones give what is awaited."""
    assert_type((await fallback(first=afetch, second=afetch)("u")).value, bytes)


def wrong_fallbacks() -> None:
    """Mistakes both checkers must catch."""
    fallback(first=fetch)(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fallback(first="gpt")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def wrong_retries() -> None:
    """Mistakes both checkers must catch."""
    fetch(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    fetch("u", times=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Client().get()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    retry(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    retry(onn=OSError)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    retrying(on=[OSError])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    retrying(fallback=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    retry(max_age=fetch)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    simulate("WEBHOOKS", [])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def right_uses() -> None:
    """Everything a program may write."""
    assert_type(greet("ada"), str)
    assert_type(greet.submit("ada", times=2), Job)
    assert_type(greet.submit_many([{"name": "ada"}, greet.options(key="k").item("bob")]), list[Job])
    assert_type(app.submit("other", {"name": "ada"}, key="k", tags=["x"], delay="5m"), Job)
    assert_type(greet.try_now("ada"), Tried[str])
    assert_type(greet.try_now("ada").value, str)
    assert_type(greet.options(key="k", delay="5m").submit("ada"), Job)
    keyed: Handler[..., str] = greet.options(tags=["vip"], attempts=2)
    keyed.submit("ada")
    Policy(attempts=3, wait=constant(5))


async def right_async_uses() -> None:
    """The same from async code."""
    assert_type(await agreet("ada"), int)
    assert_type(await agreet.asubmit("ada"), Job)
    assert_type((await agreet.atry_now("ada")).value, int)
    assert_type(await app.aio(app.get, "01J"), Job)
    await app.aio(app.desk.retry, "G7", reason="fixed")


def wrong_uses() -> None:
    """Mistakes both checkers must catch."""
    greet.submit(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet.submit()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    greet.submit("ada", loud=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    greet.item(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet.submit_many(["ada"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    app.submit("other", {}, keys="k")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    greet.options(key=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet.options(key="k").submit("ada", times="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.handler()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Policy(3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    app.desk.jobs.find(sate="dead")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def wrong_async_uses() -> None:
    """A sync handler has nothing to await."""
    await greet.atry_now("ada")  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


railway = app.endpoint("railway", url="https://api.example.org/", token_env="T", allow=["http"])
assert_type(railway, Endpoint)
assert_type(railway.send({"n": 1}, key="k"), Job)
assert_type(railway.try_now([1]).value.status, int)
app.endpoint("wrong", uri="https://api.example.org/")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
railway.send({1, 2})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

with in_memory() as jobs:
    assert_type(jobs.run_all(advance="1h").succeeded, int)
    assert_type(jobs.submitted(greet, name="ada").one(), Job)
    assert_type(jobs.dead("greet")[0].attempts, int)
    jobs.run_all(advance=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
