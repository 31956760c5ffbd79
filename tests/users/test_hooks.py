"""R-HOOKS: hooks posted to an API from a scheduled script. Each test names the sentence it walks."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from redrive import Category, Job, Redrive, State, presets
from redrive.testing import ManualClock
from standin import HookApi

TOKEN = "agent-token-5f1c"
HOOK = {"title": "A trend", "score": 7}
DAY = 86400.0
WINDOWS = [(30, 90), (90, 150), (210, 270), (450, 510)]
CHANCES = [0.0, 0.5, 1 - 2**-53]


class User:
    """The script's user: its queue in a real file, a clock that obeys, one throw of the dice."""

    def __init__(self, module: ModuleType, store: Path, api: HookApi, chance: float = 0.5) -> None:
        self.module = module
        self.store = store
        self.api = api
        self.clock = ManualClock()
        self.app: Redrive
        self.app, self.handler = module.connect(
            f"jsonl:{store}", clock=self.clock, rand=lambda: chance
        )

    def run(self, *hooks: dict[str, Any]) -> bool:
        done: bool = self.module.run(self.app, self.handler, hooks, self.api.url)
        return done

    def fail(self, hook: dict[str, Any] = HOOK) -> Job:
        """Post a hook that the API refuses once; gives what was kept."""
        self.api.script.append(500)
        key = self.module.new_key()
        tried = self.handler.options(key=key).try_now(hook=hook, endpoint=self.api.url)
        assert not tried.done
        kept: Job = tried.job
        return kept

    def jobs(self, **filters: Any) -> list[Job]:
        return self.app.find(**filters).jobs


@pytest.fixture
def make_user(hooks: ModuleType, api: HookApi, tmp_path: Path) -> Iterator[Callable[[float], User]]:
    made: list[User] = []

    def make(chance: float = 0.5) -> User:
        made.append(User(hooks, tmp_path / f"hooks-{len(made)}.jsonl", api, chance))
        return made[-1]

    yield make
    for user in made:
        user.app.close()


@pytest.fixture
def user(make_user: Callable[[], User]) -> User:
    return make_user()


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    found: dict[str, int] = json.loads(capsys.readouterr().out)
    return found


# R-HOOKS 1


def test_1_without_a_word_the_store_is_the_file_in_the_home(
    run_example: Callable[..., Any], tmp_path: Path
) -> None:
    ended = run_example("hooks.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    store = tmp_path / "home/.openclaw/dlq/trend-hunter-hooks.jsonl"
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.parent.stat().st_mode) == 0o700


# R-HOOKS 2


def test_2_a_failed_post_is_kept_with_hook_and_endpoint(user: User) -> None:
    user.api.script = [503]
    assert not user.run(HOOK)
    (job,) = user.jobs()
    assert json.loads(job.payload) == {"hook": HOOK, "endpoint": user.api.url}
    assert (job.state, job.attempts, job.limit) == (State.PENDING, 1, 5)
    assert job.failure is not None
    assert job.failure.status == 503


def test_2_a_post_that_works_leaves_nothing(user: User) -> None:
    assert user.run(HOOK)
    assert user.jobs() == []


@pytest.mark.parametrize("chance", CHANCES)
def test_2_the_waits_are_in_their_windows_and_the_fifth_failure_is_death(
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
def test_2_every_category_waits_alike_and_hints_are_ignored(user: User, status: int) -> None:
    user.api.headers = {"Retry-After": "7000"}
    user.api.script = [status]
    user.run(HOOK)
    (job,) = user.jobs()
    assert job.due - user.clock.now() == pytest.approx(60)


def test_case_attempt_20_waits_an_hour_at_most() -> None:
    strategy = presets.HOOKS.wait
    assert strategy is not None
    for chance in CHANCES:
        wait = strategy.get_backoff_with_jitter(19, lambda chance=chance: chance)
        assert 3570 <= wait <= 3600


# R-HOOKS 3


def test_3_what_is_due_is_tried_before_anything_new(user: User) -> None:
    user.fail({"title": "old"})
    user.clock.advance(3600)
    user.run({"title": "new"})
    assert [request.body["title"] for request in user.api.posts] == ["old", "old", "new"]


def test_3_a_hook_that_a_person_closed_is_not_posted_again(user: User) -> None:
    job = user.fail()
    user.app.resolve(job, reason="posted by hand")
    user.clock.advance(3600)
    assert user.app.run_due().taken == 0
    assert len(user.api.seen) == 1


def test_3_a_hook_the_api_has_after_all_is_not_posted_again(user: User) -> None:
    user.api.saves_before_failing = True
    job = user.fail()
    user.clock.advance(3600)
    assert user.app.run_due().succeeded == 1
    job = user.app.get(job.id)
    assert (job.state, job.reason) == ("completed", "skipped")
    assert "saved this hook already" in job.detail
    assert [request.method for request in user.api.seen] == ["POST", "GET"]


def test_3_an_api_that_cannot_tell_gets_the_post(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user.api, "ask", lambda *_: (404, {}))
    user.fail()
    user.clock.advance(3600)
    assert user.app.run_due().succeeded == 1


def test_3_headers_and_body_from_the_first_post_on(user: User) -> None:
    job = user.fail()
    user.clock.advance(3600)
    user.app.run_due()
    first, second = user.api.posts
    for request in (first, second):
        assert request.headers["content-type"] == "application/json"
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert request.headers["idempotency-key"] == job.key
        assert request.body == {**HOOK, "idempotencyKey": job.key}


def test_3_each_hook_has_a_key_of_its_own(user: User) -> None:
    user.run(HOOK, HOOK, HOOK)
    keys = {request.headers["idempotency-key"] for request in user.api.posts}
    assert len(keys) == 3
    assert all(key.startswith("hook-") for key in keys)


def test_3_the_token_is_read_when_a_hook_is_sent(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.fail()
    monkeypatch.setenv("ANICCA_AGENT_TOKEN", "rotated-token-77")
    user.clock.advance(3600)
    user.app.run_due()
    assert user.api.posts[-1].headers["authorization"] == "Bearer rotated-token-77"


def test_3_without_a_token_nothing_is_sent_and_nothing_lost(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANICCA_AGENT_TOKEN")
    assert not user.run(HOOK)
    assert user.api.seen == []
    assert [job.state for job in user.jobs()] == ["pending"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 400, 401, 404, 409, 429, 500, 503])
def test_3_anything_but_2xx_is_a_failure(user: User, status: int) -> None:
    user.api.headers = {"Location": f"{user.api.url}/elsewhere"}
    user.api.script = [status]
    assert not user.run(HOOK)
    (job,) = user.jobs()
    assert job.failure is not None
    assert (job.state, job.failure.status) == (State.PENDING, status)
    assert len(user.api.seen) == 1, "a redirect was followed"


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_3_every_2xx_is_a_success(user: User, status: int) -> None:
    user.api.script = [status]
    assert user.run(HOOK)


def test_3_nobody_listening_is_a_failure_like_any_other(user: User) -> None:
    user.api.url = "http://127.0.0.1:1/hooks"
    assert not user.run(HOOK)
    (job,) = user.jobs()
    assert job.failure is not None
    assert job.failure.category is Category.TRANSIENT


# R-HOOKS 4


def test_4_the_pass_prints_total_and_resolved(
    user: User, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        user.fail({"number": number})
    user.clock.advance(3600)
    user.api.script = [200, 500, 200]
    user.run()
    assert printed(capsys) == {"total": 3, "resolved": 2}


def test_4_nothing_due_prints_zeros(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    user.run()
    assert printed(capsys) == {"total": 0, "resolved": 0}


# R-HOOKS 5


def test_5_a_run_cleans_up_completed_after_24_hours_and_dead_after_7_days(user: User) -> None:
    done = user.fail()
    user.clock.advance(3600)
    user.run()
    assert user.app.get(done.id).state == "completed"
    dead = exhausted(user)
    user.clock.advance(DAY)
    user.run()
    assert {job.id for job in user.jobs()} == {done.id, dead.id}, "not older than 24 hours"
    user.clock.advance(1)
    user.run()
    assert [job.id for job in user.jobs()] == [dead.id]
    user.clock.advance(6 * DAY)
    user.run()
    assert user.jobs() == []


def exhausted(user: User) -> Job:
    """Give a hook that failed for the last time just now."""
    user.api.script.append(500)
    options = user.handler.options(key=user.module.new_key(), max_attempts=1)
    job: Job = options.try_now(hook={"title": "hopeless"}, endpoint=user.api.url).job
    assert job.state == "dead"
    return job


def test_case_an_exhausted_hook_8_days_old_is_removed(user: User) -> None:
    exhausted(user)
    user.clock.advance(8 * DAY)
    user.run()
    assert user.jobs() == []


def test_case_a_pending_hook_8_days_old_stays(user: User) -> None:
    job = user.fail()
    user.clock.advance(8 * DAY)
    assert user.app.cleanup() == 0
    assert user.app.get(job.id).state == "pending"


# R-HOOKS 6


def test_6_one_save_a_hook_though_every_answer_is_lost(user: User) -> None:
    user.api.saves_before_failing = True
    jobs = [user.fail({"number": number}) for number in range(5)]
    user.clock.advance(3600)
    user.run()
    assert set(user.api.saved) == {job.key for job in jobs}
    assert sorted(body["number"] for body in user.api.saved.values()) == [0, 1, 2, 3, 4]


def test_6_the_api_skips_a_repeated_key(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user.api, "ask", lambda *_: (404, {}))
    user.api.saves_before_failing = True
    job = user.fail()
    user.clock.advance(3600)
    user.run()
    assert len(user.api.posts) == 2
    assert (list(user.api.saved), user.api.skipped) == ([job.key], [job.key])


def test_6_no_hook_is_lost_or_saved_twice_on_a_bad_day(user: User) -> None:
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


# The other cases


def test_case_a_failure_writes_one_pending_line(user: User) -> None:
    job = user.fail()
    lines = [line for line in user.store.read_text("utf-8").splitlines() if job.id in line]
    assert len(lines) == 1
    assert [job.state for job in user.jobs()] == ["pending"]


def test_case_only_pending_ones_are_picked(user: User) -> None:
    waiting = {user.fail().key, user.fail().key}
    exhausted(user)
    user.app.resolve(user.fail(), reason="done by hand")
    user.clock.advance(3600)
    user.api.seen.clear()
    assert user.app.run_due().taken == 2
    assert {request.headers["idempotency-key"] for request in user.api.posts} == waiting


def test_case_a_retry_in_the_future_is_not_picked(user: User) -> None:
    user.fail()
    user.clock.advance(59)
    assert user.app.run_due().taken == 0
    user.clock.advance(1.001)
    assert user.app.run_due().taken == 1


def test_case_success_resolves(user: User) -> None:
    job = user.fail()
    user.clock.advance(3600)
    user.app.run_due()
    job = user.app.get(job.id)
    assert (job.state, job.reason, job.attempts) == ("completed", "done", 2)


def test_case_a_failure_counts_up_the_same_entry(user: User) -> None:
    job = user.fail()
    for number in (2, 3, 4):
        user.clock.advance(600)
        user.api.script = [500]
        user.app.run_due()
        (found,) = user.jobs()
        assert (found.id, found.attempts, found.first_failed) == (job.id, number, job.first_failed)


def test_case_quotes_and_control_characters_survive(user: User) -> None:
    text = "'\"\\`$(rm -rf /)\n\r\t" + "".join(map(chr, range(1, 32))) + "\x7f\x85\u2028🪝 'é'"
    user.fail({"text": text, "k'\"\n": [text]})
    user.clock.advance(3600)
    user.app.close()  # what is posted next was read back from the file
    user.app.run_due()
    (body,) = user.api.saved.values()
    assert (body["text"], body["k'\"\n"]) == (text, [text])


# F110, F111: the token


def test_the_token_is_in_no_file_and_no_log(
    user: User, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    user.api.script = [401] * 5  # the stand-in's answer repeats the token
    user.run(HOOK)
    for _ in range(4):
        user.clock.advance(3600)
        user.run()
    assert [job.state for job in user.jobs()] == ["dead"]
    assert "dead_letter" in caplog.text
    assert TOKEN not in caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_the_script_in_a_process_of_its_own(
    run_example: Callable[..., Any], api: HookApi, tmp_path: Path
) -> None:
    new = tmp_path / "new.jsonl"
    new.write_text('{"text": "it\'s \\"quoted\\""}\n\n{"text": "second"}\n', "utf-8")
    arguments: list[bytes] = []
    api.on_post = lambda: arguments.extend(command_lines())
    api.script = [503]
    surroundings = {
        "ANICCA_AGENT_TOKEN": TOKEN,
        "HOOKS_ENDPOINT": api.url,
        "HOOKS_STORE": f"jsonl:{tmp_path}/queue.jsonl",
    }
    ended = run_example("hooks.py", str(new), **surroundings)
    assert json.loads(ended.stdout) == {"total": 0, "resolved": 0}
    assert ended.returncode == 1, "one hook was kept for later"
    assert [body["text"] for body in api.saved.values()] == ["second"]
    assert any(b"hooks.py" in one for one in arguments)
    assert not any(TOKEN.encode() in one for one in arguments)
    assert TOKEN not in ended.stdout + ended.stderr + (tmp_path / "queue.jsonl").read_text("utf-8")
    again = run_example("hooks.py", **surroundings)
    assert json.loads(again.stdout) == {"total": 0, "resolved": 0}, "not due yet"


def command_lines() -> list[bytes]:
    """Give the arguments of every process that can be seen now."""
    found: list[bytes] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes())
        except OSError:
            continue
    return found
