"""Numbers and words that only some libraries use: mail, files, refused logins, brokers."""

from __future__ import annotations

import ftplib
import smtplib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from redrive.classify import classify, clues
from tablekit import each_row


def like(path: str, *bases: type[BaseException], **attributes: object) -> type[Any]:
    """Make a class that looks like one of a library."""
    module, _, name = path.rpartition(".")
    return type(name, bases or (Exception,), {"__module__": module, **attributes})


def refused(**codes: int) -> smtplib.SMTPRecipientsRefused:
    recipients = {f"{name}@example.org": (code, b"no") for name, code in codes.items()}
    return smtplib.SMTPRecipientsRefused(recipients)


PsycopgError = like("psycopg.OperationalError")
KafkaException = like("cimpl.KafkaException")
LATE = SimpleNamespace(name=lambda: "_TIMED_OUT")

CASES: list[tuple[BaseException, str, str]] = [
    (smtplib.SMTPDataError(451, b"later"), "transient", "reply 451"),
    (smtplib.SMTPDataError(554, b"spam"), "permanent", "reply 554"),
    (smtplib.SMTPSenderRefused(530, b"log in first", "a@b"), "auth", "reply 530"),
    (smtplib.SMTPAuthenticationError(535, b"wrong"), "auth", "reply 535"),
    (smtplib.SMTPAuthenticationError(454, b"try later"), "transient", "reply 454"),
    (refused(ada=550), "permanent", "reply 550"),
    (refused(ada=550, bob=450), "transient", "reply 450"),
    (smtplib.SMTPServerDisconnected("lost"), "transient", "smtplib.SMTPServerDisconnected"),
    (like("aiosmtplib.errors.SMTPDataError", code=550)(550, "no"), "permanent", "reply 550"),
    (ftplib.error_perm("530 Login incorrect."), "auth", "reply 530"),
    (ftplib.error_perm("550 No such file"), "permanent", "reply 550"),
    (ftplib.error_temp("421 Closing"), "transient", "reply 421"),
    (ftplib.error_perm(), "permanent", "ftplib.error_perm"),
    (
        PsycopgError('connection failed: FATAL:  password authentication failed for user "x"'),
        "auth",
        "the message says: authentication failed",
    ),
    (PsycopgError("connection refused"), "transient", "psycopg.OperationalError"),
    (
        like("psycopg.OperationalError", sqlstate="57P01")("FATAL: authentication failed"),
        "transient",
        "SQLSTATE 57P01",
    ),
    (like("vendor.Error")("authentication failed"), "unknown", "nothing known about vendor.Error"),
    (
        like("anthropic.BadRequestError", status_code=400)("Your credit balance is too low to"),
        "quota",
        "the message says: credit balance is too low",
    ),
    (KafkaException(LATE), "transient", "code _TIMED_OUT"),
    (KafkaException(), "unknown", "nothing known about cimpl.KafkaException"),
    (like("v.E", body={"error": "invalid_grant"})(), "auth", "code invalid_grant in response body"),
    (like("v.E", error="temporarily_unavailable")(), "transient", "code temporarily_unavailable"),
    (
        like("pymongo.errors.OperationFailure", details={"codeName": "WriteConflict"}, code=112)(),
        "transient",
        "code WriteConflict in response body",
    ),
    (
        like("v.E", body={"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, status=400)(),
        "auth",
        "code API_KEY_INVALID in response body",
    ),
    (like("v.E", reply_code=404)(), "permanent", "status 404"),
    (like("v.E", errcode=503)(), "transient", "status 503"),
]


@each_row("error, category, why", CASES)
def test_category_and_why(error: BaseException, category: str, why: str) -> None:
    failure = classify(error)
    assert (failure.category, failure.why) == (category, why)


@each_row(
    "make",
    [
        lambda: like("smtplib.SMTPDataError")({}),
        lambda: like("smtplib.SMTPDataError")({"a": None}),
        lambda: like("ftplib.error_perm")(b"\xff\xff"),
        lambda: like("psycopg.OperationalError")(b"authentication failed"),
        lambda: like("psycopg.OperationalError")(None),
        lambda: KafkaException(SimpleNamespace(name=7)),
    ],
)
def test_strange_arguments_are_no_evidence(make: Callable[[], BaseException]) -> None:
    assert classify(make()).why


def test_classes_of_one_name_are_not_mixed_up() -> None:
    """What is remembered of a class is remembered of that class only, however many there are."""
    for number in range(3 * clues._MOST_KNOWN):
        root = "httpx" if number % 2 else "elsewhere"
        expected = "transient" if number % 2 else "unknown"
        assert classify(like(f"{root}.ProxyError")()).category == expected
    assert len(clues._KNOWN) <= clues._MOST_KNOWN
