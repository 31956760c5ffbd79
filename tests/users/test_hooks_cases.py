"""R-HOOKS: the cases, the token, and the script in a process of its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookkit import CHANCES, DAY, HOOK, TOKEN, HookApi, User
from redrive.policies import presets


def test_r_hooks_case_attempt_20_waits_an_hour_at_most() -> None:
    strategy = presets.WEBHOOKS.wait
    assert strategy is not None
    for chance in CHANCES:
        wait = strategy.get_backoff_with_jitter(19, lambda chance=chance: chance)
        assert 3570 <= wait <= 3600


def test_r_hooks_case_an_exhausted_hook_8_days_old_is_removed(user: User) -> None:
    user.exhaust()
    user.clock.advance(8 * DAY)
    user.run()
    assert user.jobs() == []


def test_r_hooks_case_a_pending_hook_8_days_old_stays(user: User) -> None:
    job = user.fail()
    user.clock.advance(8 * DAY)
    assert user.app.cleanup() == 0
    assert user.app.get(job.id).state == "pending"


def test_r_hooks_case_a_failure_writes_one_pending_line(user: User) -> None:
    job = user.fail()
    lines = [line for line in user.store.read_text("utf-8").splitlines() if job.id in line]
    assert len(lines) == 1
    assert [job.state for job in user.jobs()] == ["pending"]


def test_r_hooks_case_only_pending_ones_are_picked(user: User) -> None:
    waiting = {user.fail().key, user.fail().key}
    user.exhaust()
    user.app.desk.resolve(user.fail(), reason="done by hand")
    user.clock.advance(3600)
    user.api.seen.clear()
    assert user.app.run_due().taken == 2
    assert {request.headers["idempotency-key"] for request in user.api.posts} == waiting


def test_r_hooks_case_a_retry_in_the_future_is_not_picked(user: User) -> None:
    user.fail()
    user.clock.advance(59)
    assert user.app.run_due().taken == 0
    user.clock.advance(1.001)
    assert user.app.run_due().taken == 1


def test_r_hooks_case_success_resolves(user: User) -> None:
    job = user.fail()
    user.clock.advance(3600)
    user.app.run_due()
    job = user.app.get(job.id)
    assert (job.state, job.reason, job.attempts) == ("completed", "done", 2)


def test_r_hooks_case_a_failure_counts_up_the_same_entry(user: User) -> None:
    job = user.fail()
    for number in (2, 3, 4):
        user.clock.advance(600)
        user.api.script = [500]
        user.app.run_due()
        (found,) = user.jobs()
        assert (found.id, found.attempts, found.first_failed) == (job.id, number, job.first_failed)


def test_r_hooks_case_quotes_and_control_characters_survive(user: User) -> None:
    text = "'\"\\`$(rm -rf /)\n\r\t" + "".join(map(chr, range(1, 32))) + "\x7f\x85\u2028🪝 'é'"
    user.fail({"text": text, "k'\"\n": [text]})
    user.clock.advance(3600)
    user.app.close()  # what is posted next was read back from the file
    user.app.run_due()
    (body,) = user.api.saved.values()
    assert (body["text"], body["k'\"\n"]) == (text, [text])


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
