"""R-HOOKS: the cases, the token, and the script in a process of its own."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookkit import HOOK, TOKEN, HookApi, User


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
