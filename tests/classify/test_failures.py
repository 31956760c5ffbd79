"""A failure says what an error means, in masked words, whatever the error does."""

from __future__ import annotations

import errno
import gc
import ssl
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from redrive.classify import classify
from redrive.errors import GiveUp, RetryLater
from redrive.jobs.job import Failure
from redrive.policies.policy import When, when
from tablekit import each_row

NOW = 1_750_000_000.0


def like(path: str, *bases: type[BaseException], **attributes: object) -> type[Any]:
    """Make a class that looks like one of a library."""
    module, _, name = path.rpartition(".")
    return type(name, bases or (Exception,), {"__module__": module, **attributes})


def caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def caught(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as again:  # noqa: BLE001 - also what is no Exception
        return again


class MyError(Exception):
    code = 77
    status_code = 503


class MyOtherError(MyError):
    pass


def raises(error: BaseException) -> bool:
    raise LookupError(str(error))


@each_row(
    "rule, why",
    [
        (when(MyError, "auth"), f"your rule for {MyError.__module__}.MyError"),
        (when("MyError", "auth"), "your rule for MyError"),
        (when(f"{__name__}.MyError", "auth"), f"your rule for {__name__}.MyError"),
        (when(status=503, then="auth"), "your rule for status 503"),
        (when(code="77", then="auth"), "your rule for code 77"),
        (when(lambda error: "boom" in str(error), "auth"), "your rule for <lambda>"),
        (when(MyError, "auth", status=503), f"your rule for {__name__}.MyError, status 503"),
    ],
)
def test_the_users_rules_come_first(rule: When, why: str) -> None:
    """By type, dotted name, status, code and test, for subclasses too."""
    failure = classify(MyOtherError("boom"), rules=[rule])
    assert (failure.category, failure.why) == ("auth", why)


@each_row(
    "rule",
    [
        when(KeyError, "auth"),
        when("elsewhere.MyError", "auth"),
        when(status=404, then="auth"),
        when(code="78", then="auth"),
        when(MyError, "auth", status=404),
    ],
)
def test_rules_that_do_not_match_say_nothing(rule: When) -> None:
    assert classify(MyError("boom"), rules=[rule]).why == "status 503"


def test_a_name_matches_wherever_below_its_package_the_class_is() -> None:
    error = like("openai._exceptions.RateLimitError")()
    assert classify(error, rules=[when("openai.RateLimitError", "quota")]).category == "quota"
    assert classify(error, rules=[when("open.RateLimitError", "quota")]).category == "rate_limit"


def test_a_rule_for_a_code_finds_it_in_the_body() -> None:
    error = like("vendor.Busy", body={"error": {"code": "try_later"}})()
    assert classify(error, rules=[when(code="try_later", then="transient")]).category == "transient"


def test_the_first_rule_wins_and_reaches_errors_inside() -> None:
    rules = [when(MyError, "quota"), when(MyError, "auth")]
    assert classify(caused(RuntimeError(), MyError()), rules=rules).category == "quota"


def test_a_rule_for_everything_does_not_undo_a_signal() -> None:
    """What the handler says outright ends a job, or delays it, under every policy."""
    rules = [when(Exception, "transient")]
    assert classify(GiveUp("no"), rules=rules).final
    assert classify(RetryLater(after=5), rules=rules).hint == 5.0


@each_row(
    "after, hint",
    [
        (90, (90.0, "RetryLater")),
        ("2m", (120.0, "RetryLater")),
        (timedelta(days=3), (259200.0, "RetryLater")),
        (None, (None, None)),
        (-1, (None, None)),
        (float("nan"), (None, None)),
        (1e300, (None, None)),
        ("soon", (None, None)),
        (object(), (None, None)),
    ],
)
def test_retry_later_names_its_own_delay(
    after: object, hint: tuple[float | None, str | None]
) -> None:
    """A delay that cannot be read is left to the policy."""
    failure = classify(RetryLater(after=after))
    assert (failure.hint, failure.hint_source) == hint
    assert not failure.final


def test_all_fields_of_a_failure() -> None:
    error = like("openai._exceptions.RateLimitError")("slow down, key sk-abcdefgh12345678")
    error.response = SimpleNamespace(
        status_code=429, headers={"X-Request-Id": "req_1", "Retry-After": "20"}
    )
    error.body = {"error": {"code": "rate_limit_exceeded"}}
    failure = classify(caught(error), now=NOW)
    assert failure.type == "openai.RateLimitError"
    assert failure.message == "slow down, key •••"
    assert (failure.code, failure.status) == ("rate_limit_exceeded", 429)
    assert (failure.hint, failure.hint_source) == (20.0, "retry-after")
    assert failure.request_id == "req_1"
    assert failure.fingerprint.startswith("v1:")
    assert failure.title.startswith("RateLimitError: slow down")
    assert not failure.final


def test_the_cause_lends_status_code_and_hint() -> None:
    inner = like("vendor.Busy", code="slow_down", status_code=429)("busy")
    inner.headers = {"Retry-After": "7", "Request-Id": "req_2"}
    failure = classify(caused(RuntimeError("could not"), inner), now=NOW)
    assert (failure.status, failure.code, failure.hint) == (429, "slow_down", 7.0)
    assert failure.request_id == "req_2"


def test_a_system_error_has_its_name_as_code() -> None:
    assert classify(ConnectionRefusedError(errno.ECONNREFUSED, "no")).code == "ECONNREFUSED"
    assert classify(ssl.SSLError(1, "bad record")).code is None


def test_secrets_are_masked_everywhere() -> None:
    """In the message, the traceback, notes, causes, codes and ids."""
    error = ValueError("password hunter2hunter2 refused")
    error.add_note("tried hunter2hunter2")
    vars(error).update(code="hunter2hunter2", request_id="hunter2hunter2")
    failure = classify(
        caught(caused(error, KeyError("hunter2hunter2"))), secrets=["hunter2hunter2"]
    )
    assert "hunter2hunter2" not in repr(failure)
    assert "•••" in failure.message


def blow_up(*_: object) -> NoReturn:
    raise SystemExit


def recurse(self: object, *rest: object) -> object:
    return recurse(self, *rest)


NAMES = (
    *("status_code", "status", "code", "response", "body", "headers", "reason", "cause"),
    *("args", "retry_after", "sqlstate", "errno", "__cause__"),
    *("__context__", "__notes__", "redrive_category", "request_id", "exceptions"),
)


def cyclic() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def nested(depth: int) -> BaseException:
    error: Exception = TimeoutError("deep")
    for _ in range(depth):
        error = ExceptionGroup("g", [error])
    return error


def chained(length: int) -> BaseException:
    error: BaseException = TimeoutError("far")
    for _ in range(length):
        error = caused(ValueError("link"), error)
    return error


def with_properties(getter: Callable[..., object]) -> BaseException:
    return like("vendor.Hostile", **dict.fromkeys(NAMES, property(getter)))("x")  # type: ignore[no-any-return]


HOSTILE: dict[str, Callable[[], BaseException]] = {
    "every property raises": lambda: with_properties(blow_up),
    "every property recurses": lambda: with_properties(recurse),
    "every property is itself": lambda: with_properties(lambda self: self),
    "every property is a function": lambda: with_properties(lambda _: blow_up),
    "every property is another error": lambda: with_properties(lambda _: OSError()),
    "__getattr__ recurses": lambda: like("vendor.Hostile", __getattr__=recurse)("x"),
    "__getattribute__ raises": lambda: like("vendor.Hostile", __getattribute__=blow_up)("x"),
    "__str__ raises": lambda: like("vendor.Hostile", __str__=blow_up)("x"),
    "__str__ recurses": lambda: like("vendor.Hostile", __str__=recurse, __repr__=recurse)("x"),
    "__str__ is no text": lambda: like("vendor.Hostile", __str__=lambda _: 7)("x"),
    "__str__ is huge": lambda: ValueError("x" * 50_000_000),
    "surrogates and NUL": lambda: ValueError("\ud800 \0 \x1b[2J"),
    "module is no text": lambda: type("E", (Exception,), {"__module__": 7})("x"),
    "causes in a circle": cyclic,
    "a thousand causes": lambda: chained(1000),
    "a thousand groups deep": lambda: nested(1000),
    "ten thousand members": lambda: ExceptionGroup("g", [ValueError(i) for i in range(10_000)]),
    "equal to nothing": lambda: like("v.E", __eq__=blow_up, __hash__=blow_up)("x"),
}


def test_never_raises() -> None:
    """Whatever an error does, there is a failure, and it is bounded."""
    rules = [when(status=418, then="auth")]
    for make in HOSTILE.values():
        assert_bounded(classify(make(), rules=rules, secrets=["pw123456"], now=NOW))


def test_a_real_interrupt_is_not_swallowed() -> None:
    def interrupt(_: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        classify(with_properties(interrupt))


def assert_bounded(failure: Failure) -> None:
    assert failure.why
    assert failure.fingerprint
    assert len(failure.message) <= 2000
    assert len(failure.traceback) <= 16384
    assert all(len(text) <= 300 for text in (failure.why, failure.type, failure.code or ""))
    repr(failure).encode()


def test_nothing_of_the_error_is_kept() -> None:
    """A failure is plain data: it keeps neither the error nor its frames alive."""
    error = caught(ValueError("x"))
    failure = classify(error)
    assert not any(error is held for held in gc.get_referents(failure))
    assert type(failure.message) is str


def test_deep_evidence_is_left_alone() -> None:
    assert classify(chained(8)).category == "transient"
    assert classify(chained(9)).category == "unknown"


def test_a_rule_that_raises_is_logged_once_a_minute_and_named_in_the_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = [when(raises, "transient")]
    failures = [classify(ValueError("hunter2"), rules=rules) for _ in range(3)]
    assert {failure.category for failure in failures} == {"unknown"}
    assert failures[0].why == (
        "nothing known about ValueError; your rule for raises raised LookupError"
    )
    nested = classify(ExceptionGroup("all", [ValueError("a"), ValueError("b")]), rules=rules)
    assert nested.why.count("your rule for raises") == 1
    (line,) = caplog.messages
    assert "the rule for raises (" in line
    assert "test_failures.py:" in line
    assert "raised LookupError" in line
    assert "hunter2" not in line
