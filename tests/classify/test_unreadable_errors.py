"""An error that nobody can read is a failure too, and says no secrets."""

from __future__ import annotations

import pytest

import redrive.attempts.executions
import redrive.classify
from redrive import Failure, Redrive, fallback
from redrive.classify import classify

SECRET = "hunter2canary"


def broken(*_: object, **__: object) -> Failure:
    raise SystemExit


def test_what_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrive.classify, "cause_of", broken)
    failure = classify(ValueError("x"))
    assert (failure.category, failure.type) == ("unknown", "ValueError")
    assert failure.why == "the error could not be read"
    assert failure.fingerprint


def test_an_execution_always_has_an_outcome(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even if the judging itself is broken: the job fails as any other, and the log says so."""
    monkeypatch.setattr(redrive.attempts.executions, "failure_of", broken)
    app = Redrive("memory:")

    @app.handler("bad")
    def bad(password: str) -> None:
        raise ValueError(password)

    job = bad.try_now(password=SECRET).job
    assert job is not None
    assert job.failure is not None
    assert (job.state, job.failure.category, job.failure.type) == (
        "pending",
        "unknown",
        "ValueError",
    )
    assert job.failure.why == "could not be classified: SystemExit"
    assert "could not be classified: SystemExit" in caplog.text
    assert SECRET not in caplog.text


def refusal(password: str) -> Exception:
    error = ConnectionError("refused")
    vars(error).update(redrive_category="auth", redrive_why=f"login with {password} failed")
    return error


def test_the_reason_says_no_secrets() -> None:
    failure = classify(refusal(SECRET), secrets=[SECRET])
    assert failure.why == "login with ••• failed"
    vars(state := ValueError("x")).update(sqlstate=f"42 {SECRET}")
    assert SECRET not in repr(classify(state, secrets=[SECRET]))


def test_providers_say_no_secrets_of_the_job() -> None:
    """Neither in the answer's record of who failed, nor in the cooldown that all workers read."""
    app = Redrive("memory:")
    tried: list[str] = []

    def limited(password: str) -> str:
        raise refusal(password)

    @app.handler("ask")
    def ask(password: str) -> None:
        answer = fallback(limited=limited, other=lambda password: password)(password)
        tried.extend(map(str, answer.tried))

    ask.try_now(password=SECRET)
    assert tried == ["limited: auth, login with ••• failed"]
    assert SECRET not in repr(app.store.notes("pause:"))
