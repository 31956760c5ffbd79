"""Judging an error and finding its hint stays cheap. Calls are counted: they do not vary."""

from __future__ import annotations

import sys
from typing import Any

import clients as web
import pytest
from loopback import CUT, Ask, error_of, nobody
from wires import postgres

from redrive.classify.hints import find_hint
from redrive.classify.judge import Judge

MOST_CALLS = 600
LIMITED = {"error": {"message": "no", "type": "requests", "code": "rate_limit_exceeded"}}
USUAL = {f"x-header-{n}": "value" for n in range(12)}
ERRORS: dict[str, Ask] = {
    "a plain ValueError": lambda: int("x"),
    "httpx, three deep": nobody(web.httpx.get),
    "requests, four deep": web.requests_get(CUT),
    "openai, with a body": web.openai_chat(429, LIMITED, {"retry-after": "20", **USUAL}),
    "sqlalchemy on psycopg": postgres("SELECT 1/0", by="sqlalchemy"),
}


def judge(error: BaseException) -> None:
    judged = Judge(())
    found = judged.judge(error)
    find_hint(found.clues if found else judged.seen[id(error)], 0.0)


def calls(error: BaseException) -> int:
    """Count the calls of Python and C functions; a time would depend on the machine."""
    count = 0

    def note(_frame: object, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        judge(error)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", ERRORS)
def test_cost(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(ERRORS[name])
    judge(error)  # the first time fills caches
    found = calls(error)
    with capsys.disabled():
        print(f"\n{name}: {found} calls")
    assert found < MOST_CALLS
