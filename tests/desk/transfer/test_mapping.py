"""X6, X7: what each state of each format means here, and how it goes out again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exchangekit import (
    AT,
    MAKERS,
    article,
    event,
    failure,
    file_of,
    hook,
    jobs,
    lines,
    only,
    out,
    row,
    take,
)
from kit import make_job
from redrive import Policy, Redrive
from redrive.jobs.job import Category, Job, Reason, State
from redrive.testing import ManualClock

STATES: list[tuple[str, dict[str, Any], str]] = [
    ("hooks", {"state": "pending"}, "pending"),
    ("hooks", {"state": "retrying", "attemptsMade": 4}, "pending"),
    ("hooks", {"state": "retrying", "attemptsMade": 5}, "pending"),
    ("hooks", {"state": "exhausted"}, "dead exhausted"),
    ("hooks", {"state": "resolved", "resolvedAt": AT * 1000 + 9000}, "completed done"),
    ("articles", {}, "pending"),
    ("articles", {"retry_count": 5}, "dead exhausted"),
    ("summaries", {"status": "pending"}, "pending"),
    ("summaries", {"status": "running"}, "pending"),
    ("summaries", {"status": "completed"}, "completed done"),
    ("summaries", {"status": "failed", "retry_count": 2}, "pending"),
    ("summaries", {"status": "failed", "retry_count": 3}, "dead exhausted"),
    ("summaries", {"status": "dead_letter"}, "dead exhausted"),
    ("sync", {"status": "failed"}, "dead exhausted"),
    ("sync", {"status": "retrying"}, "pending"),
    ("sync", {"status": "resolved", "resolvedAt": "2023-12-01T00:00:00Z"}, "resolved resolved"),
    ("events", {"status": "pending"}, "pending"),
    ("events", {"status": "retrying"}, "pending"),
    ("events", {"status": "success"}, "completed done"),
    ("events", {"status": "failed"}, "dead permanent"),
    ("events", {"status": "dead_letter"}, "dead exhausted"),
]


def words(job: Job) -> str:
    return " ".join(filter(None, [job.state, job.reason]))


@pytest.mark.parametrize(("name", "changes", "expected"), STATES)
def test_each_state_comes_in_and_goes_out_and_in_as_the_same_job(
    name: str, changes: dict[str, Any], expected: str
) -> None:
    """X5, X6, X7; R-HOOKS 7, R-ARTICLES 7, R-SUMMARIES 8, R-SYNC 6, R-EVENTS 3."""
    app, told = take(file_of(name, MAKERS[name](1, note={"kept": [1, 2.5]}, **changes)))
    assert [one.fate for one in told] == ["added"]
    [job] = jobs(app).values()
    assert words(job) == expected
    assert (job.finished is not None) == job.is_terminal
    again, _ = take(out(app, name))
    assert jobs(again) == jobs(app)
    assert out(again, name).splitlines()[-2:] == out(app, name).splitlines()[-2:] or (
        name == "articles"  # it says when it was saved
    )


@pytest.mark.parametrize("name", MAKERS)
def test_fields_nobody_knows_are_kept_and_go_out_again(name: str) -> None:
    """X3."""
    app, _ = take(file_of(name, MAKERS[name](1, note={"kept": [1, 2.5]}, colour="雪")))
    exported = out(app, name).decode()
    assert '"note":{"kept":[1,2.5]}' in exported
    assert '"colour":"雪"' in exported


def test_a_hook_keeps_its_id_key_times_and_text() -> None:
    """R-HOOKS 7: quotes, control characters and the spelling of numbers survive."""
    text = '{"t":"a\\"b\\u0007\\n雪","price":10.10}'
    data = lines(hook()).replace(b'{"text": "trend 1"}', text.encode())
    job = only(data)
    assert job.payload == f'{{"hook":{text},"endpoint":"https://api.example/hooks"}}'
    assert (job.key, job.handler, job.attempts, job.max_attempts) == (
        hook()["jobId"],
        "hook.post",
        1,
        5,
    )
    assert (job.created, job.first_failed, job.due) == (AT + 0.001, AT + 0.001, AT + 60.001)
    assert job.failure is not None
    assert (job.failure.category, job.failure.code) == (Category.TRANSIENT, "ECONNREFUSED")
    app, _ = take(data)
    assert text.encode() in out(app, "hooks")


def test_an_item_was_tried_once_more_than_retried_and_its_times_are_local() -> None:
    """R-ARTICLES 7."""
    job = only(file_of("articles", article()))
    assert (job.attempts, job.max_attempts, job.key) == (3, 6, "articles:queue-1")
    assert job.created == AT - 1 - 9 * 3600
    assert json.loads(job.payload) == {"article": article()["article_data"]}
    assert job.failure is not None
    assert job.failure.category is Category.RATE_LIMIT


def test_a_row_s_retries_are_failures_and_one_article_may_have_many_jobs() -> None:
    """R-SUMMARIES 8: no key on article_id."""
    app, told = take(lines(row(1), row(2, article_id="a1")))
    assert [one.fate for one in told] == ["added", "added"]
    first = max(jobs(app).values(), key=lambda job: job.key or "")
    assert (first.attempts, first.max_attempts, dict(first.spent)) == (3, 3, {"unknown": 3})
    assert first.finished == AT + 31


def test_a_document_that_is_retried_has_begun_another_life() -> None:
    """R-SYNC 6: timestamps as seconds and nanos, or ISO."""
    job = only(lines(failure(status="retrying", createdAt="2023-11-14T22:13:21.5Z")))
    assert (job.attempts, job.redrives, job.created) == (0, 1, AT + 1.5)
    assert [(one.number, one.life) for one in job.history] == [(10, 0)]
    assert job.history[0].failure is not None
    assert job.history[0].failure.traceback.startswith("Error: 503")


@pytest.mark.parametrize(
    "stamp",
    [
        {"seconds": AT, "nanos": 500_000_000},
        {"_seconds": AT, "_nanoseconds": 500_000_000},
        {"seconds": str(AT), "nanoseconds": 500_000_000},
        "2023-11-15T07:13:20.5+09:00",
        AT + 0.5,
        AT * 1000 + 500,
    ],
)
def test_every_spelling_of_a_time_is_the_same_moment(stamp: object) -> None:
    assert only(lines(failure(createdAt=stamp))).created == AT + 0.5


def test_only_jobs_that_have_been_dead_become_documents() -> None:
    """X7, R-SYNC 2."""
    app = Redrive("memory:")
    dead = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "finished": 5.0}
    app.store.add(
        [
            make_job("NEW0000001"),
            make_job("DONE000001", state=State.COMPLETED, reason=Reason.DONE, finished=5.0),
            make_job("DEAD000001", **dead),
            make_job("AGAIN00001", redrives=1),
            make_job("MENDED0001", redrives=1, **{**dead, "state": State.COMPLETED}),
        ]
    )
    told = {
        one["failureId"]: one["status"]
        for one in map(json.loads, out(app, "sync").split(b"\n")[:-1])
    }
    assert told == {"DEAD000001": "failed", "AGAIN00001": "retrying", "MENDED0001": "resolved"}


def test_all_lines_about_an_event_are_one_job_with_its_attempts() -> None:
    """R-EVENTS 3."""
    start = "2023-11-14T22:13:2{}+00:00"
    data = lines(
        event(timestamp=start.format(0), status="pending", error_info=None, retry_info={}),
        event(timestamp=start.format(2), status="retrying", retry_info={"count": 1}),
        event(timestamp=start.format(4), status="retrying", retry_info={"count": 2}),
        event(timestamp=start.format(6), retry_info={"count": 2, "max_retries": 2}),
    )
    app, told = take(data)
    assert [one.fate for one in told] == ["added", "folded", "folded", "folded"]
    [job] = jobs(app).values()
    assert (job.created, job.finished, job.attempts) == (AT, AT + 6, 3)
    assert [one.number for one in job.history] == [1, 2, 3]
    assert (job.handler, job.tags) == ("order.placed", (event()["event_id"],))
    again, _ = take(out(app, "events"))
    assert jobs(again) == jobs(app)


def test_the_file_is_believed_and_not_what_was_added_to_it_where_they_disagree() -> None:
    """X6: also where a format writes no state, but counts."""
    app, _ = take(file_of("articles", article()))
    [item] = json.loads(out(app, "articles"))["queue"]["items"]
    item["redrive"] |= {"state": "dead", "reason": "exhausted", "finished": 5.0}
    assert only(file_of("articles", item)).state is State.PENDING


def test_articles_go_out_as_a_document_that_its_program_can_read() -> None:
    """X7: what waits, runs or died is an item; what succeeded is counted."""
    app, _ = take(file_of("articles", article(1), article(2, retry_count=5)))
    job = make_job("DONE000001", state=State.COMPLETED, reason=Reason.DONE, finished=5.0)
    app.store.add([job])
    found = json.loads(out(app, "articles"))
    assert {one["id"]: one["retry_count"] for one in found["queue"]["items"]} == {
        "queue-1": 2,
        "queue-2": 5,
    }
    assert found["queue"]["items"][0]["created_at"] == article()["created_at"]
    assert (found["queue"]["total_processed"], found["queue"]["total_failed"]) == (2, 1)


def test_secrets_in_errors_are_masked_before_they_are_stored() -> None:
    """C4."""
    data = {"hook": {"password": "hunter22"}, "endpoint": "https://api.example"}
    job = only(
        lines(hook(data=data, error={"message": "login with hunter22 failed", "code": None}))
    )
    assert job.failure is not None
    assert job.failure.message == "login with ••• failed"
    assert "hunter22" in job.payload


@pytest.mark.parametrize("name", ["articles", "events"])
def test_a_job_of_ours_that_was_never_tried_comes_back_as_it_was(name: str) -> None:
    """X2: nothing is spent, it is not due earlier, and its key still stands for it."""
    clock = ManualClock(2_000_000_000)
    app = Redrive("memory:", clock=clock)

    @app.handler("article.summarize", policy=Policy(attempts=6))
    def summarize(article: object) -> None: ...

    summarize.options(key="article:a1", delay="1h").submit({"id": "a1"})
    data = out(app, name)
    again, _ = take(data, Redrive("memory:", clock=clock))
    [(job, back)] = zip(jobs(app).values(), jobs(again).values(), strict=True)
    assert (back.attempts, back.spent, back.failure, back.history) == (0, {}, None, ())
    assert (back.id, back.key, back.due, back.max_attempts) == (
        job.id,
        job.key,
        job.due,
        job.max_attempts,
    )
    assert out(again, name) == data
