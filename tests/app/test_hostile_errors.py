"""An error that cannot even be printed is kept and retried like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from redrive import Policy, Redrive, State, constant


def blow_up(*_: object) -> NoReturn:
    raise RuntimeError("from inside the error")


def recurse(self: object) -> str:
    return str(self)


def endless(self: object) -> str:
    return repr(self)


def made(**names: Any) -> Callable[[], Exception]:
    return lambda: type("Hostile", (Exception,), names)("x")


def circular() -> Exception:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


ERRORS: dict[str, Callable[[], BaseException]] = {
    "str raises": made(__str__=blow_up),
    "str and repr raise": made(__str__=blow_up, __repr__=blow_up),
    "str loops": made(__str__=recurse, __repr__=endless),
    "str is no text": made(__str__=lambda _: 7),
    "every attribute raises": made(__getattribute__=blow_up),
    "fifty million letters": lambda: ValueError("x" * 50_000_000),
    "no text at all": lambda: ValueError("\ud800\0\x1b[2J"),
    "causes in a circle": circular,
    "a system exit": lambda: SystemExit("bye"),
    "a generator's end": lambda: StopIteration(7),
}


@pytest.mark.parametrize("make", ERRORS.values(), ids=ERRORS)
def test_whatever_is_raised_the_job_is_kept_retried_and_its_record_stays_small(
    app: Redrive, make: Callable[[], BaseException]
) -> None:
    """And the job beside it runs."""
    left = [make(), None]

    @app.handler("odd", policy=Policy(attempts=3, wait=constant(0)))
    def odd() -> None:
        error = left.pop(0)
        if error is not None:
            raise error

    ran: list[int] = []
    job = odd.submit()
    app.handler("plain")(lambda: ran.append(1)).submit()
    assert app.run_due().taken == 2
    kept = app.get(job.id)
    assert (kept.state, kept.attempts) == (State.PENDING, 1)
    (attempt,) = kept.history
    assert attempt.failure is not None
    assert len(attempt.failure.message) < 2100
    assert len(attempt.failure.traceback) < 17_000
    attempt.failure.message.encode()
    assert ran == [1]
    assert app.run_due().succeeded == 1
    assert app.get(job.id).state is State.COMPLETED
