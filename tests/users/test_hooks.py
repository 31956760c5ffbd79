"""R-HOOKS: hooks posted to an API from a scheduled script. Each test names the sentence it walks."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookkit import CHANCES, DAY, HOOK, TOKEN, User
from redrive import Category, State
from redrive.contrib.formats import hooks
from tablekit import each_row

WINDOWS = [(30, 90), (90, 150), (210, 270), (450, 510)]


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    found: dict[str, int] = json.loads(capsys.readouterr().out)
    return found


def test_r_hooks_1_without_a_word_the_store_is_the_file_in_the_home(
    run_example: Callable[..., Any], tmp_path: Path
) -> None:
    ended = run_example("hooks.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    store = tmp_path / "home/.openclaw/dlq/trend-hunter-hooks.jsonl"
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700


def test_r_hooks_2_a_failed_post_is_kept_with_hook_and_endpoint(user: User) -> None:
    user.api.script = [503]
    assert not user.run(HOOK)
    (job,) = user.jobs()
    assert json.loads(job.payload) == {"hook": HOOK, "endpoint": user.api.url}
    assert (job.state, job.attempts, job.max_attempts) == (State.PENDING, 1, 5)
    assert job.failure is not None
    assert job.failure.status == 503


def test_r_hooks_2_a_post_that_works_leaves_nothing(user: User) -> None:
    assert user.run(HOOK)
    assert user.jobs() == []


@pytest.mark.parametrize("chance", CHANCES)
def test_r_hooks_2_the_waits_are_in_their_windows_and_the_fifth_failure_is_death(
    make_user: Callable[[float], User], chance: float
) -> None:
    user = make_user(chance)
    job = user.fail()
    waits: list[float] = []
    while (job := user.app.get(job.id)).state is State.PENDING:
        wait = job.due - user.clock.now()
        waits.append(wait)
        user.clock.advance(wait - 0.001)
        assert user.app.run_due().taken == 0
        user.api.script = [500]
        user.clock.advance(0.002)
        assert user.app.run_due().failed == 1
    middles = [60, 120, 240, 480]
    assert waits == pytest.approx([middle - 30 + 60 * chance for middle in middles], abs=0.01)
    assert all(low <= wait <= high for wait, (low, high) in zip(waits, WINDOWS, strict=True))
    assert (job.state, job.reason, job.attempts) == ("dead", "exhausted", 5)
    assert len(user.api.posts) == 5


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_r_hooks_2_every_category_waits_alike_and_hints_are_ignored(
    user: User, status: int
) -> None:
    user.api.headers = {"Retry-After": "7000"}
    user.api.script = [status]
    user.run(HOOK)
    (job,) = user.jobs()
    assert job.due - user.clock.now() == pytest.approx(60)


def test_r_hooks_3_what_is_due_is_tried_before_anything_new(user: User) -> None:
    user.fail({"title": "old"})
    user.clock.advance(3600)
    user.run({"title": "new"})
    assert [request.body["title"] for request in user.api.posts] == ["old", "old", "new"]


def test_r_hooks_3_a_hook_that_a_person_closed_is_not_posted_again(user: User) -> None:
    job = user.fail()
    user.app.desk.resolve(job, reason="posted by hand")
    user.clock.advance(3600)
    assert user.app.run_due().taken == 0
    assert len(user.api.seen) == 1


def test_r_hooks_3_a_hook_the_api_has_after_all_is_not_posted_again(user: User) -> None:
    user.api.saves_before_failing = True
    job = user.fail()
    user.clock.advance(3600)
    assert user.app.run_due().succeeded == 1
    job = user.app.get(job.id)
    assert (job.state, job.reason) == ("completed", "skipped")
    assert "saved this hook already" in job.detail
    assert [request.method for request in user.api.seen] == ["POST", "GET"]


def test_r_hooks_3_it_is_asked_first_in_every_later_life_too(user: User) -> None:
    user.api.saves_before_failing = True
    dead = user.exhaust()
    user.app.desk.retry(dead, reason="look again")
    assert user.app.run_due().succeeded == 1
    assert [request.method for request in user.api.seen] == ["POST", "GET"]


def test_r_hooks_3_an_api_that_cannot_tell_gets_the_post(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user.api, "ask", lambda *_: (404, {}))
    user.fail()
    user.clock.advance(3600)
    assert user.app.run_due().succeeded == 1


def test_r_hooks_3_headers_and_body_from_the_first_post_on(user: User) -> None:
    job = user.fail()
    user.clock.advance(3600)
    user.app.run_due()
    first, second = user.api.posts
    for request in (first, second):
        assert request.headers["content-type"] == "application/json"
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert request.headers["idempotency-key"] == job.key
        assert request.body == {**HOOK, "idempotencyKey": job.key}


def test_r_hooks_3_each_hook_has_a_key_of_its_own(user: User) -> None:
    user.run(HOOK, HOOK, HOOK)
    keys = {request.headers["idempotency-key"] for request in user.api.posts}
    assert len(keys) == 3
    assert all(key.startswith("hook-") for key in keys)


def test_r_hooks_3_the_token_is_read_when_a_hook_is_sent(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.fail()
    monkeypatch.setenv("ANICCA_AGENT_TOKEN", "rotated-token-77")
    user.clock.advance(3600)
    user.app.run_due()
    assert user.api.posts[-1].headers["authorization"] == "Bearer rotated-token-77"


def test_r_hooks_3_without_a_token_nothing_is_sent_and_nothing_lost(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANICCA_AGENT_TOKEN")
    assert not user.run(HOOK)
    assert user.api.seen == []
    assert [job.state for job in user.jobs()] == ["pending"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 400, 401, 404, 409, 429, 500, 503])
def test_r_hooks_3_anything_but_2xx_is_a_failure(user: User, status: int) -> None:
    user.api.headers = {"Location": f"{user.api.url}/elsewhere"}
    user.api.script = [status]
    assert not user.run(HOOK)
    (job,) = user.jobs()
    assert job.failure is not None
    assert (job.state, job.failure.status) == (State.PENDING, status)
    assert len(user.api.seen) == 1, "a redirect was followed"


@each_row("status", [200, 201, 202, 204])
def test_r_hooks_3_every_2xx_is_a_success(user: User, status: int) -> None:
    user.api.script = [status]
    assert user.run(HOOK)


def test_r_hooks_3_nobody_listening_is_a_failure_like_any_other(user: User) -> None:
    user.api.url = "http://127.0.0.1:1/hooks"
    assert not user.run(HOOK)
    (job,) = user.jobs()
    assert job.failure is not None
    assert job.failure.category is Category.TRANSIENT


def test_r_hooks_4_the_pass_prints_total_and_resolved(
    user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        user.fail({"number": number})
    user.clock.advance(3600)
    user.api.script = [200, 500, 200]
    user.run()
    assert printed(capsys) == {"total": 3, "resolved": 2}


def test_r_hooks_4_nothing_due_prints_zeros(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    user.run()
    assert printed(capsys) == {"total": 0, "resolved": 0}


def test_r_hooks_5_a_run_cleans_up_completed_after_24_hours_and_dead_after_7_days(
    user: User,
) -> None:
    done = user.fail()
    user.clock.advance(3600)
    user.run()
    assert user.app.get(done.id).state == "completed"
    dead = user.exhaust()
    user.clock.advance(DAY)
    user.run()
    assert {job.id for job in user.jobs()} == {done.id, dead.id}, "not older than 24 hours"
    user.clock.advance(1)
    user.run()
    assert [job.id for job in user.jobs()] == [dead.id]
    user.clock.advance(6 * DAY)
    user.run()
    assert user.jobs() == []


def test_r_hooks_6_one_save_a_hook_though_every_answer_is_lost(user: User) -> None:
    user.api.saves_before_failing = True
    jobs = [user.fail({"number": number}) for number in range(5)]
    user.clock.advance(3600)
    user.run()
    assert set(user.api.saved) == {job.key for job in jobs}
    assert sorted(body["number"] for body in user.api.saved.values()) == [0, 1, 2, 3, 4]


def test_r_hooks_6_the_api_skips_a_repeated_key(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user.api, "ask", lambda *_: (404, {}))
    user.api.saves_before_failing = True
    job = user.fail()
    user.clock.advance(3600)
    user.run()
    assert len(user.api.posts) == 2
    assert (list(user.api.saved), user.api.skipped) == ([job.key], [job.key])


def test_r_hooks_6_no_hook_is_lost_or_saved_twice_on_a_bad_day(user: User) -> None:
    statuses = [500, 200, 503, 429, 200, 401]
    user.api.script = list(statuses)
    user.run(*({"number": number} for number in range(6)))
    user.api.script = [500, 200, 502]
    for _ in range(5):
        user.clock.advance(600)
        user.run()
    assert sorted(body["number"] for body in user.api.saved.values()) == list(range(6))
    assert user.api.skipped == []
    assert user.jobs(state="dead") == []


def test_r_hooks_9_an_old_pending_hook_is_sent_by_the_next_run_and_never_removed(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {
        "jobId": "hook-1700000000000-a1b2c3",
        "data": {"hook": HOOK, "endpoint": user.api.url},
        "attemptsMade": 2,
        "maxAttempts": 5,
        "timestamp": 1_700_000_000_000,
        "nextRetry": 1_700_000_060_000,
        "error": {"message": "503", "code": None},
        "state": "pending",
    }
    list(user.app.desk.transfer.import_rows([line], hooks))
    monkeypatch.setattr(user.api, "ask", lambda *_: (404, {}))
    user.api.script = [500, 500]
    user.run()
    (job,) = user.jobs()
    assert (job.state, job.attempts, job.created) == (State.PENDING, 3, 1_700_000_000)
    user.clock.advance(3600)
    user.run()
    user.clock.advance(3600)
    user.run()
    assert [job.state for job in user.jobs()] == ["completed"]
    assert list(user.api.saved) == [line["jobId"]]
