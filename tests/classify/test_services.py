"""Codes, reasons and words of services that a plain status would misread."""

from __future__ import annotations

import sqlite3
import urllib.error
from types import SimpleNamespace
from typing import Any

from redrive.classify import classify
from tablekit import each_row


def like(path: str, *bases: type[BaseException], **attributes: object) -> type[Any]:
    """Make a class that looks like one of a library."""
    module, _, name = path.rpartition(".")
    return type(name, bases or (Exception,), {"__module__": module, **attributes})


AWS = {
    "rate_limit": (
        *("KmsThrottled", "Throttled", "KMS.ThrottlingException", "Throttling.User"),
        *("TooManyRequests", "ClientLimitExceededException", "OverLimit"),
    ),
    "transient": (
        *("ConcurrentModificationException", "ReplicatedWriteConflictException"),
        *("IDPCommunicationError", "InternalFailure", "InternalServerError"),
        *("ServiceUnavailableException", "InsufficientInstanceCapacity"),
    ),
    "auth": (
        *("NotAuthorized", "NotAuthorizedException", "UnauthorizedAccess"),
        *("InvalidToken", "TokenRefreshRequired"),
    ),
}


@each_row("code, category", [(code, category) for category, codes in AWS.items() for code in codes])
def test_a_cloud_says_by_code_what_it_means_by_400(code: str, category: str) -> None:
    answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    failure = classify(like("botocore.exceptions.ClientError", response=answer)("no"))
    assert (failure.category, failure.why) == (category, f"code {code}")


CANCELLED = "An error occurred (TransactionCanceledException) when calling: cancelled, reasons [{}]"


@each_row(
    "reason, category",
    [("TransactionConflict", "transient"), ("None, ConditionalCheckFailed", "invalid")],
)
def test_a_cancelled_transaction_is_what_cancelled_it(reason: str, category: str) -> None:
    answer = {"Error": {"Code": "TransactionCanceledException"}}
    cls = like("botocore.errorfactory.TransactionCanceledException", response=answer)
    assert classify(cls(CANCELLED.format(reason))).category == category


@each_row(
    "reason, category",
    [
        ("userRateLimitExceeded", "rate_limit"),
        ("rateLimitExceeded", "rate_limit"),
        ("RATE_LIMIT_EXCEEDED", "rate_limit"),
        ("quotaExceeded", "quota"),
        ("dailyLimitExceeded", "quota"),
        ("forbidden", "auth"),
    ],
)
def test_google_refuses_with_a_reason(reason: str, category: str) -> None:
    """The same reply, once through its own client and once through a plain one."""
    errors = [{"domain": "usageLimits", "reason": reason}]
    own = like("googleapiclient.errors.HttpError", status_code=403, error_details=errors)
    plain = like("v.HTTPError", status_code=403, body={"error": {"code": 403, "errors": errors}})
    assert [classify(cls("no")).category for cls in (own, plain)] == [category, category]


@each_row(
    "said, category",
    [
        ("MISCONF Redis is configured to save RDB snapshots", "transient"),
        ("NOREPLICAS Not enough good replicas to write.", "transient"),
        ("BUSY Redis is busy running a script.", "transient"),
        ("BUSYGROUP Consumer Group name already exists", "permanent"),
        ("WRONGPASS invalid username-password pair", "auth"),
    ],
)
def test_redis_says_it_in_the_first_word(said: str, category: str) -> None:
    assert classify(like("redis.exceptions.ResponseError")(said)).category == category


MONGO = {
    43: "CursorNotFound",
    64: "WriteConcernFailed",
    91: "ShutdownInProgress",
    133: "FailedToSatisfyReadPreference",
    189: "PrimarySteppedDown",
    251: "NoSuchTransaction",
    262: "ExceededTimeLimit",
    11602: "InterruptedDueToReplStateChange",
}


@each_row("code, name", MONGO.items())
def test_mongo_passes_by_number_and_by_name(code: int, name: str) -> None:
    by_number = like("pymongo.errors.OperationFailure", code=code)("no")
    by_name = like("vendor.Failure", details={"codeName": name})("no")
    assert classify(by_number).why == f"MongoDB error {code}"
    assert {classify(by_number).category, classify(by_name).category} == {"transient"}


@each_row(
    "name, category",
    [
        ("SQLITE_READONLY", "permanent"),
        ("SQLITE_READONLY_DIRECTORY", "permanent"),
        ("SQLITE_CORRUPT", "permanent"),
        ("SQLITE_BUSY", "transient"),
    ],
)
def test_time_mends_a_busy_database_and_no_readonly_one(name: str, category: str) -> None:
    error = sqlite3.OperationalError("no")
    error.sqlite_errorname = name
    assert classify(error).category == category


@each_row(
    "error, category",
    [
        (like("anyio.ClosedResourceError")(), "transient"),
        (like("anyio.BrokenResourceError")(), "transient"),
        (like("anyio.EndOfStream")(), "transient"),
        (urllib.error.URLError("timed out"), "transient"),
        (urllib.error.URLError("unknown url type: ftps"), "unknown"),
        (like("urllib.error.ContentTooShortError")(), "transient"),
        (like("openai.RateLimitError", status_code=429, code="billing_not_active")(), "quota"),
        (
            like("slack_sdk.E", response=SimpleNamespace(data={"error": "ratelimited"}))(),
            "rate_limit",
        ),
        (like("v.E", sqlstate="40001")(), "transient"),
        (like("v.E", sqlstate="40 and more")(), "unknown"),
    ],
)
def test_other_words(error: BaseException, category: str) -> None:
    assert classify(error).category == category


@each_row("code", [404, 429, 500])
def test_a_number_called_code_is_a_status_only_on_the_web(code: int) -> None:
    ledger = classify(like("shop.LedgerError", code=code)("rule broken"))
    assert (ledger.category, ledger.status) == ("unknown", None)
    web = (like("tornado.HTTPClientError"), like("google.NotFound", like("google.APIError")))
    for cls in web:
        cls.code = code
        assert classify(cls("no")).status == code
