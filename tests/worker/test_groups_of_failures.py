"""The handler is part of a failure's group by the rule of its final category."""

from __future__ import annotations

import dataclasses

from kit import START, make_job
from redrive.attempts import executions
from redrive.attempts.executions import Execution
from redrive.errors import BadPayload
from redrive.jobs.job import Category, Failure
from redrive.jobs.outcomes import Failed
from redrive.registry import Entry
from redrive.testing import ManualClock
from tablekit import each_row


def entry_of(name: str, *formerly: str) -> Entry:
    return dataclasses.replace(Entry.unregistered(name), formerly=formerly, timeout=5.0)


def execution_of(name: str, *formerly: str) -> Execution:
    return Execution(entry_of(name, *formerly), make_job(handler=name), ManualClock(START))


def caught(kind: type[Exception]) -> Exception:
    try:
        raise kind("order 7")
    except kind as error:
        return error


def failure(execution: Execution, error: Exception, *, timed_out: bool = False) -> Failure:
    execution.timed_out = timed_out
    execution.fail(error)
    assert isinstance(execution.outcome, Failed)
    return execution.outcome.failure


@each_row(
    "kind, timed_out, category, groups",
    [
        (ConnectionResetError, False, Category.TRANSIENT, 1),
        (ConnectionResetError, True, Category.TIMEOUT, 2),
        (BadPayload, False, Category.INVALID, 2),
        (ValueError, False, Category.UNKNOWN, 2),
    ],
)
def test_the_final_category_decides(
    kind: type[Exception], timed_out: bool, category: Category, groups: int
) -> None:
    found = [
        failure(execution_of(name), caught(kind), timed_out=timed_out) for name in ("pay", "mail")
    ]
    assert {one.category for one in found} == {category}
    assert len({one.fingerprint for one in found}) == groups


def test_failures_without_an_error_follow_the_same_rule() -> None:
    late = [executions.late(entry_of(name)) for name in ("pay", "mail")]
    assert len({one.fingerprint for one in late}) == 2
    assert executions.crash("worker 7 vanished") != executions.crash("worker 8 vanished")
    prints = {executions.crash(f"worker {n} vanished").failure.fingerprint for n in (7, 8)}
    assert len(prints) == 1


def test_a_renamed_handler_keeps_its_groups() -> None:
    error = caught(ValueError)
    names = [("pay",), ("invoice.pay", "pay"), ("billing", "pay", "invoice.pay")]
    prints = {failure(execution_of(*each), error).fingerprint for each in names}
    assert len(prints) == 1
