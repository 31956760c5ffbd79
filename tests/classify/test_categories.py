"""Each kind of evidence gives the right category, with the reason in words.

The classes here only look like those of the client libraries: same root module, name and
attributes. The libraries themselves are tried in an environment of their own.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import ssl
import subprocess
from http.client import IncompleteRead, RemoteDisconnected
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

from redrive.classify import classify, tables
from redrive.errors import GiveUp, RetryLater
from redrive.jobs.job import Category
from tablekit import each_row

NOW = 1_750_000_000.0


def like(path: str, *bases: type[BaseException], **attributes: object) -> type[Any]:
    """Make a class that looks like one of a library."""
    module, _, name = path.rpartition(".")
    return type(name, bases or (Exception,), {"__module__": module, **attributes})


def carrying(**attributes: object) -> Exception:
    return like("vendor.errors.VendorError", **attributes)("it failed")


def caused(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__cause__ = inner
    return outer


def during(outer: BaseException, inner: BaseException) -> BaseException:
    outer.__context__ = inner
    return outer


def code_in_body(in_body: str, /, **attributes: object) -> Exception:
    return carrying(body={"error": {"code": in_body}}, **attributes)


def headers(status: int, **said: str) -> Exception:
    named = {name.replace("_", "-"): value for name, value in said.items()}
    return carrying(status_code=status, response=SimpleNamespace(headers=named))


BAD_CERTIFICATE = ssl.SSLCertVerificationError(1, "certificate verify failed")
ConnectError = like("httpx.ConnectError", like("httpx.NetworkError"))
MaxRetryError = like("urllib3.exceptions.MaxRetryError", like("urllib3.exceptions.PoolError"))
DBAPIError = like("sqlalchemy.exc.OperationalError", like("sqlalchemy.exc.StatementError"))
MySQLError = like("pymysql.err.OperationalError")
RpcError = like(
    "grpc.RpcError",
    code=lambda _: SimpleNamespace(name="UNAVAILABLE"),
    trailing_metadata=lambda _: (("grpc-retry-pushback-ms", "1200"),),
)
RetryError = like(
    "tenacity.RetryError", last_attempt=SimpleNamespace(exception=lambda: TimeoutError("late"))
)


@each_row(
    "error, category, why",
    [
        # what is said outright (E3)
        (RetryLater(), "transient", "the handler asked to be run later"),
        (GiveUp("no such user"), "permanent", "the handler gave up"),
        (carrying(redrive_category="quota"), "quota", "redrive_category is quota"),
        (
            carrying(redrive_category="unknown", status=503),
            "unknown",
            "redrive_category is unknown",
        ),
        (carrying(redrive_category="whatever", status=503), "transient", "status 503"),
        # the server's word on retrying
        (headers(503, x_should_retry="false"), "permanent", "x-should-retry false, status 503"),
        (headers(429, x_should_retry="false"), "quota", "x-should-retry false, status 429"),
        (headers(429, x_should_retry="true"), "rate_limit", "status 429"),
        (headers(404, x_should_retry="true"), "transient", "x-should-retry true, status 404"),
        (
            headers(500, stripe_should_retry="False"),
            "permanent",
            "stripe-should-retry false, status 500",
        ),
        (
            headers(503, grpc_retry_pushback_ms="-1"),
            "permanent",
            "grpc-retry-pushback-ms says not to retry",
        ),
        (
            code_in_body(
                "slow_down",
                status=429,
                response=SimpleNamespace(headers={"x-should-retry": "false"}),
            ),
            "rate_limit",
            "code slow_down in response body",
        ),
        # databases
        (carrying(sqlstate="40P01"), "transient", "SQLSTATE 40P01"),
        (carrying(sqlstate="42501"), "auth", "SQLSTATE 42501"),
        (carrying(pgcode="42P01"), "permanent", "SQLSTATE 42P01"),
        (carrying(sqlstate="28P01"), "auth", "SQLSTATE 28P01"),
        (MySQLError(1213, "deadlock"), "transient", "MySQL error 1213"),
        (MySQLError(1045, "denied"), "auth", "MySQL error 1045"),
        (MySQLError(9999, "?"), "transient", "pymysql.err.OperationalError"),
        (carrying(sqlite_errorname="SQLITE_BUSY"), "transient", "code SQLITE_BUSY"),
        # codes, the body's before the wrapper's, before types (E4)
        (
            code_in_body("insufficient_quota", status_code=429, code="429"),
            "quota",
            "code insufficient_quota in response body",
        ),
        (carrying(code="insufficient_quota"), "quota", "code insufficient_quota"),
        (
            carrying(
                error_code="enforced_spend_limit_reached",
                body={"error": {"type": "rate_limit_error"}},
            ),
            "quota",
            "code enforced_spend_limit_reached",
        ),
        (
            carrying(status_code=200, body={"error": {"type": "overloaded_error"}}),
            "transient",
            "code overloaded_error in response body",
        ),
        (
            carrying(
                response={
                    "Error": {"Code": "ThrottlingException"},
                    "ResponseMetadata": {"HTTPStatusCode": 400},
                }
            ),
            "rate_limit",
            "code ThrottlingException",
        ),
        (carrying(response={"error": "invalid_auth"}), "auth", "code invalid_auth"),
        (carrying(code=429, status="RESOURCE_EXHAUSTED"), "rate_limit", "code RESOURCE_EXHAUSTED"),
        (
            carrying(grpc_status_code=SimpleNamespace(name="NOT_FOUND")),
            "permanent",
            "code NOT_FOUND",
        ),
        (
            carrying(code=403, errors=[{"reason": "rateLimitExceeded"}]),
            "rate_limit",
            "code rateLimitExceeded",
        ),
        (RpcError(), "transient", "code UNAVAILABLE"),
        (
            carrying(
                response=SimpleNamespace(_content=b'{"error": {"code": "insufficient_quota"}}')
            ),
            "quota",
            "code insufficient_quota in response body",
        ),
        (carrying(body='{"code": "slow_down"}'), "rate_limit", "code slow_down in response body"),
        (carrying(body="{broken", status=500), "transient", "status 500"),
        (carrying(body="[" * 70_000, status=500), "transient", "status 500"),
        (carrying(code="UNKNOWN"), "unknown", "code UNKNOWN"),
        (carrying(code="UNKNOWN", status_code=503), "transient", "status 503"),
        # classes along their bases
        (like("openai.APIConnectionError")(), "transient", "openai.APIConnectionError"),
        (ConnectError("x"), "transient", "httpx.ConnectError"),
        (
            like("app.Gone", like("openai.APITimeoutError"))(),
            "transient",
            "app.Gone, a kind of openai.APITimeoutError",
        ),
        (
            like(
                "redis.exceptions.AuthenticationError", like("redis.exceptions.ConnectionError")
            )(),
            "auth",
            "redis.exceptions.AuthenticationError",
        ),
        (
            like("requests.exceptions.InvalidURL", OSError)(),
            "permanent",
            "requests.exceptions.InvalidURL",
        ),
        (
            like("litellm.types.router.RouterRateLimitError", ValueError)(),
            "rate_limit",
            "litellm.types.router.RouterRateLimitError",
        ),
        (
            like("pydantic_core._pydantic_core.ValidationError", ValueError)(),
            "invalid",
            "pydantic_core.ValidationError",
        ),
        (like("stripe._error.CardError", http_status=402)(), "invalid", "stripe.CardError"),
        (
            like("aiohttp.ContentTypeError", status=200)(),
            "unknown",
            "aiohttp.ContentTypeError",
        ),
        (like("aiohttp.ContentTypeError", status=502)(), "transient", "status 502"),
        # errors that wrap another one ask it first
        (like("sqlalchemy.exc.TimeoutError")(), "transient", "sqlalchemy.exc.TimeoutError"),
        (
            vars(error := DBAPIError()).update(orig=MySQLError(1045, "denied")) or error,
            "auth",
            "caused by pymysql.err.OperationalError: MySQL error 1045",
        ),
        (
            vars(error := DBAPIError()).update(orig=ValueError()) or error,
            "transient",
            "sqlalchemy.exc.OperationalError",
        ),
        (
            vars(error := MaxRetryError()).update(reason=BAD_CERTIFICATE) or error,
            "permanent",
            "caused by ssl.SSLCertVerificationError",
        ),
        # the standard library
        (ConnectionResetError(errno.ECONNRESET, "reset"), "transient", "ConnectionResetError"),
        (TimeoutError(), "transient", "TimeoutError"),
        (socket.gaierror(-2, "no such name"), "transient", "socket.gaierror"),
        (ssl.SSLError(1, "bad record"), "transient", "ssl.SSLError"),
        (BAD_CERTIFICATE, "permanent", "ssl.SSLCertVerificationError"),
        (IncompleteRead(b"half"), "transient", "http.client.IncompleteRead"),
        (
            RemoteDisconnected(),
            "transient",
            "http.client.RemoteDisconnected, a kind of ConnectionError",
        ),
        (subprocess.TimeoutExpired("ls", 1), "transient", "subprocess.TimeoutExpired"),
        (URLError(ConnectionRefusedError()), "transient", "caused by ConnectionRefusedError"),
        (OSError(errno.ENETUNREACH, "unreachable"), "transient", "errno ENETUNREACH"),
        (OSError(errno.ENOSPC, "disk full"), "transient", "errno ENOSPC"),
        (FileNotFoundError(errno.ENOENT, "x"), "unknown", "nothing known about FileNotFoundError"),
        # a refused certificate hides inside lost connections
        (
            caused(ConnectError("x"), caused(like("httpcore.ConnectError")(), BAD_CERTIFICATE)),
            "permanent",
            "caused by ssl.SSLCertVerificationError",
        ),
        (
            caused(ConnectionError("x"), BAD_CERTIFICATE),
            "permanent",
            "caused by ssl.SSLCertVerificationError",
        ),
        (URLError(BAD_CERTIFICATE), "permanent", "caused by ssl.SSLCertVerificationError"),
        (
            caused(ConnectError(inner := ValueError()), inner),
            "transient",
            "httpx.ConnectError",
        ),
        # errors inside errors
        (caused(RuntimeError(), TimeoutError()), "transient", "caused by TimeoutError"),
        (
            caused(RuntimeError(), carrying(status_code=503)),
            "transient",
            "caused by vendor.errors.VendorError: status 503",
        ),
        (
            caused(RuntimeError(), caused(ValueError(), EOFError())),
            "transient",
            "caused by EOFError",
        ),
        (during(KeyError("x"), ConnectionError()), "transient", "caused by ConnectionError"),
        (RuntimeError(TimeoutError()), "transient", "caused by TimeoutError"),
        (RetryError(), "transient", "caused by TimeoutError"),
        (like("grpc.RpcError", code=7)(), "unknown", "nothing known about grpc.RpcError"),
        # plain Python errors
        (ValueError("x"), "unknown", "nothing known about ValueError"),
        (
            json.JSONDecodeError("x", "", 0),
            "unknown",
            "nothing known about json.decoder.JSONDecodeError",
        ),
        # wishes to stop
        (
            KeyboardInterrupt(),
            "unknown",
            "KeyboardInterrupt is a request to stop, not a failure of the job",
        ),
        (
            asyncio.CancelledError(),
            "unknown",
            "asyncio.exceptions.CancelledError is a request to stop, not a failure of the job",
        ),
        # groups: the worst speaks
        (
            ExceptionGroup("g", [TimeoutError(), carrying(status=400), carrying(status=429)]),
            "invalid",
            "status 400, the worst of 3 errors",
        ),
        (
            ExceptionGroup("g", [TimeoutError(), ValueError()]),
            "unknown",
            "ValueError, the worst of 2 errors",
        ),
        (ExceptionGroup("g", [ExceptionGroup("h", [TimeoutError()])]), "transient", "TimeoutError"),
        (
            ExceptionGroup("g", [TimeoutError() for _ in range(500)]),
            "transient",
            "TimeoutError, the worst of 500 errors",
        ),
        (
            ExceptionGroup("g", [BAD_CERTIFICATE, BAD_CERTIFICATE]),
            "permanent",
            "ssl.SSLCertVerificationError, the worst of 2 errors",
        ),
        (
            ExceptionGroup("g", [carrying(status=400), GiveUp("x")]),
            "permanent",
            "the handler gave up, the worst of 2 errors",
        ),
    ],
)
def test_category_and_why(error: BaseException, category: str, why: str) -> None:
    """Each kind of evidence, in the order of its strength, and why in words."""
    failure = classify(error, now=NOW)
    assert (failure.category, failure.why) == (category, why)


STATUSES = {
    Category.TRANSIENT: [408, 409, 421, 423, 424, 425, 499, 500, 502, 503, 504, 520, 529, 598, 599],
    Category.RATE_LIMIT: [429],
    Category.QUOTA: [402],
    Category.AUTH: [401, 403, 407, 511],
    Category.INVALID: [400, 406, 411, 413, 414, 415, 416, 422, 428, 431],
    Category.PERMANENT: [404, 405, 410, 412, 418, 426, 451, 501, 505, 508],
    Category.UNKNOWN: [100, 200, 304, 399, 600, -1],
}


@each_row("category, status", [(c, status) for c, all_of in STATUSES.items() for status in all_of])
def test_status(category: Category, status: int) -> None:
    assert classify(carrying(status_code=status)).category is category


@each_row(
    "attributes",
    [
        {"status_code": 503},
        {"http_status": 503},
        {"status": 503},
        {"code": 503, "headers": {}},
        {"status": 200, "response": SimpleNamespace(status_code=503)},
        {"response": SimpleNamespace(status=503)},
        {"response": {"ResponseMetadata": {"HTTPStatusCode": 503}}},
        {"resp": SimpleNamespace(status=503)},
        {"meta": SimpleNamespace(status=503)},
        {"raw_response": SimpleNamespace(status_code=503)},
    ],
)
def test_status_is_found_wherever_libraries_put_it(attributes: dict[str, object]) -> None:
    failure = classify(carrying(**attributes))
    assert (failure.category, failure.status) == (Category.TRANSIENT, 503)


@each_row(
    "said, category",
    [
        ({"retry_after": "60"}, "rate_limit"),
        ({"x_ratelimit_remaining": "0"}, "rate_limit"),
        ({"x_ratelimit_remaining": "7"}, "auth"),
    ],
)
def test_forbidden_may_mean_too_often(said: dict[str, str], category: str) -> None:
    assert classify(headers(403, **said)).category == category


def test_a_real_answer_of_urllib() -> None:
    failure = classify(HTTPError("http://x", 503, "busy", {"Retry-After": "9"}, None), now=NOW)  # type: ignore[arg-type]
    assert (failure.category, failure.hint, failure.hint_source) == (
        "transient",
        9.0,
        "retry-after",
    )


def test_no_class_has_rows_in_both_tables() -> None:
    assert not set(tables.CLASSES) & set(tables.STDLIB)
    assert set(tables.WORST_FIRST) == set(Category)
