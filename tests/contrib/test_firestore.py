"""R-SYNC 2: dead letters as documents of somebody's collection, from failed to resolved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from firestorekit import Client
from redrive import GiveUp, Handler, Job, Keep, Policy, Redrive
from redrive.contrib.firestore import mirror
from redrive.errors import UsageError
from redrive.testing import ManualClock
from tablekit import each_row

NAME = "bigquerySyncFailures"
TASK: dict[str, Any] = {"userId": "u-1", "sessionId": "s-1", "tableName": "events"}


class User:
    """A program whose jobs fail while `broken`, and its mirror."""

    def __init__(self, **options: Any) -> None:
        self.clock, self.google, self.broken = ManualClock(), Client(), True
        self.app = Redrive("memory:", clock=self.clock)
        mirror(self.app, self.google, NAME, **options)

        @self.app.handler("bigquery.sync", policy=Policy(keep=Keep(resolved=None)))
        def sync(**task: Any) -> None:
            if self.broken:
                raise GiveUp(f"no table for {task['sessionId']}")

        self.sync: Handler[..., None] = sync

    def die(self, **more: Any) -> Job:
        job = self.sync.submit(**TASK, **more)
        self.app.run_due()
        return self.app.get(job.id)

    def document(self, job: Job) -> dict[str, Any]:
        return self.google.documents[f"{NAME}/{job.id}"]

    def time(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now(), UTC)


@pytest.fixture
def user() -> Iterator[User]:
    made = User()
    with made.app:
        yield made


def test_a_dead_letter_is_a_document_with_the_task_the_error_and_the_count(user: User) -> None:
    died = user.time()
    document = user.document(user.die())
    stack = document["error"].pop("stack")
    assert "raise GiveUp" in stack
    assert document == {
        "originalData": TASK,
        "error": {"message": "no table for s-1"},
        "retryCount": 1,
        "createdAt": died,
        "status": "failed",
        "resolvedAt": None,
        "event": 1,
    }


def test_failed_retrying_resolved(user: User) -> None:
    """Also the one that was retried with success: it stays, as resolved."""
    died, job = user.time(), user.die()
    user.clock.advance(60)
    user.app.desk.retry(job.id)
    user.broken = False
    user.app.run_due(only=[])
    retrying = dict(user.document(job))
    user.clock.advance(60)
    user.app.run_due()
    assert user.app.get(job.id).state == "completed"
    resolved = user.document(job)
    assert [retrying["status"], resolved["status"]] == ["retrying", "resolved"]
    assert [retrying["resolvedAt"], resolved["resolvedAt"]] == [None, user.time()]
    for document in (retrying, resolved):
        assert (document["createdAt"], document["retryCount"]) == (died, 1)
        assert document["error"]["message"] == "no table for s-1"
    user.clock.advance(1000 * 86400)
    user.app.run_due()
    assert user.document(job) == resolved


def test_what_a_person_resolves_and_reopens(user: User) -> None:
    job = user.die()
    user.app.desk.resolve(job.id, reason="deleted by its user")
    user.app.run_due()
    assert user.document(job)["status"] == "resolved"
    user.app.desk.reopen(job.id)
    user.app.run_due()
    assert (user.document(job)["status"], user.document(job)["resolvedAt"]) == ("failed", None)


def test_a_job_that_simply_works_is_no_document(user: User) -> None:
    user.broken = False
    user.die()
    assert user.google.calls == 0


def test_what_happens_while_the_service_is_down_gets_there_in_order(user: User) -> None:
    user.google.is_down = True
    job = user.die()
    user.app.desk.resolve(job.id)
    user.app.run_due()
    assert user.google.documents == {}
    user.google.is_down = False
    user.clock.advance(600)
    user.app.run_due()
    assert user.document(job)["status"] == "resolved"


def test_a_late_delivery_of_an_older_event_changes_nothing(user: User) -> None:
    """A dead delivery that a person retries comes after newer ones."""
    job = user.die()
    document = user.document(job)
    document["event"] = 99
    user.app.desk.resolve(job.id)
    user.app.run_due()
    assert user.document(job)["status"] == "failed"
    assert user.app.store.waiting_events() == {}


def test_a_write_between_reading_and_writing_is_not_overwritten(user: User) -> None:
    job = user.die()
    user.app.desk.resolve(job.id)
    path = f"{NAME}/{job.id}"
    real = user.google.write_option

    def late(*, last_update_time: int) -> int:
        user.google.times[path] = -1  # somebody else has written it
        return real(last_update_time=last_update_time)

    user.google.write_option = late  # type: ignore[method-assign]
    user.app.run_due()
    assert user.document(job)["status"] == "failed"
    user.google.write_option = real  # type: ignore[method-assign]
    user.clock.advance(10)
    user.app.run_due()
    assert user.document(job)["status"] == "resolved"


def test_an_answer_that_is_lost_does_no_harm(user: User) -> None:
    def lost() -> None:
        user.google.after_write = None
        raise ConnectionError("the answer was lost")

    user.google.after_write = lost
    job = user.die()
    document = dict(user.document(job))
    user.clock.advance(10)
    user.app.run_due()
    assert user.document(job) == document
    assert user.app.store.waiting_events() == {}


@each_row("value", [[[1]], 2**63, {"": 1}, {"__id__": 1}, {"n" * 2000: 1}])
def test_a_payload_that_firestore_cannot_hold_is_text(user: User, value: object) -> None:
    document = user.document(user.die(more=value))
    assert document["originalData"].startswith('{"userId":"u-1"')


def test_secrets_are_masked_unless_asked_for() -> None:
    for reveal in (False, True):
        user = User(reveal=reveal)
        with user.app:
            document = user.document(user.die(api_key="hunter2"))
        assert (document["originalData"]["api_key"] == "hunter2") is reveal


def test_only_the_handlers_that_are_named() -> None:
    user = User(handlers=["other"])
    with user.app:
        user.die()
    assert user.google.calls == 0


def test_a_document_says_when_it_may_go_if_the_policy_does() -> None:
    """For a TTL policy of Firestore's on this field."""
    user = User()
    with user.app:

        @user.app.handler("mail", policy=Policy(keep=Keep(resolved=3600)))
        def mail() -> None:
            raise GiveUp("no such address")

        job = mail.submit()
        user.app.run_due()
        assert user.document(job)["expireAt"] is None
        user.app.desk.resolve(job.id)
        user.app.run_due()
        document = user.document(job)
        assert (document["expireAt"] - document["resolvedAt"]).total_seconds() == 3600


def test_a_client_that_is_none_is_refused(user: User) -> None:
    with pytest.raises(UsageError, match="found str"):
        mirror(user.app, "bigquerySyncFailures", NAME, name="other")
