"""What providers return and raise: nothing of it is run, changed or taken for an answer."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from redrive import fallback
from redrive.errors import UsageError


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
