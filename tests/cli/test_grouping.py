"""However the words vary, failures of three causes are three groups, from the handler to the view."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable

import pytest

from kit import make_job
from redrive import Job, Policy, Redrive
from shopkit import Shop

MANY = 2_000
ONCE = Policy(attempts=1)


class ApiError(Exception):
    pass


def connect(host: str, order: int) -> None:
    raise ConnectionError(
        f"{host}:443 timed out after {order % 9}.{order % 7}s [{uuid.UUID(int=order)}]"
    )


async def ask(host: str, order: int) -> None:
    await asyncio.sleep(0)
    try:
        connect(host, order)
    except ConnectionError as error:
        raise ApiError(
            f"order {order} via {host} at 2026-11-{order % 28 + 1:02d}T02:41:07Z"
        ) from error


def three(order: int, host: str) -> None:
    """Fail of one of three causes: a nested one in async code, a missing field, bad JSON."""
    if order % 3 == 0:
        asyncio.run(ask(host, order))
    if order % 3 == 1:
        {"a": 1}[f"vat_{order:x}"]
    json.loads("{" + "x" * (order % 50) + str(order))


def same_words(order: int, host: str) -> None:
    """Fail of causes that differ in the line of code and in nothing else."""
    words = f"order {order} refused by {host}"
    if order % 3 == 0:
        raise ApiError(words)
    if order % 3 == 1:
        raise ApiError(words)
    raise ApiError(words)


def job_of(handler: str, order: int) -> Job:
    host = f"api{order % 11}.eu{order % 5}.example.com"
    payload = json.dumps({"order": order, "host": host})
    return make_job(f"ORDER{order:06d}", handler=handler, payload=payload)


@pytest.mark.parametrize(("function", "number"), [(three, MANY), (same_words, 300)])
def test_three_causes_are_three_groups(
    empty: Shop, function: Callable[[int, str], None], number: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "redrive")
    with Redrive("redrive.db", clock=empty.clock) as app:
        handler = app.handler("orders", policy=ONCE)(function)
        app.store.add([job_of(handler.name, order) for order in range(number)])
        assert app.run_due().died == number
    found = json.loads(empty.run("groups", "--json").stdout)["data"]
    assert sum(group["jobs"] for group in found) == number
    assert len(found) == 3, [group["title"] for group in found]
    assert max(g["jobs"] for g in found) - min(g["jobs"] for g in found) <= 1
