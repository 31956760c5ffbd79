"""`explain` says what an error means and when its job is tried again, and imports nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from redrive.policies.presets import PRESETS
from shopkit import Shop
from tablekit import each_row


def explained(shop: Shop, *words: str) -> dict[str, Any]:
    result = shop.run("explain", *words, "--json")
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = json.loads(result.stdout)["data"]
    return data


@each_row(
    "what, category, why",
    [
        ("429", "rate_limit", "status 429"),
        ("404", "permanent", "status 404"),
        ("302", "unknown", "nothing known about HTTPError"),
        ("httpx.ReadTimeout", "transient", "httpx.ReadTimeout"),
        ("httpx.NetworkError", "transient", "httpx.NetworkError"),
        ("openai.RateLimitError", "rate_limit", "status 429"),
        ("anthropic.OverloadedError", "transient", "status 529"),
        ("redis.exceptions.AuthenticationError", "auth", "redis.exceptions.AuthenticationError"),
        ("ConnectionResetError", "transient", "ConnectionResetError"),
        ("builtins.TimeoutError", "transient", "TimeoutError"),
        ("socket.gaierror", "transient", "socket.gaierror"),
        ("UnicodeDecodeError", "unknown", "nothing known about UnicodeDecodeError"),
        ("ExceptionGroup", "unknown", "nothing known about ExceptionGroup"),
        ("my.app.Broken", "unknown", "nothing known about my.app.Broken"),
    ],
)
def test_a_status_or_a_name(empty: Shop, what: str, category: str, why: str) -> None:
    found = explained(empty, what)
    assert (found["category"], found["why"]) == (category, why)
    assert found["steps"][-1]["then"] == "dead"
    assert empty.names() == []  # no store is made


def test_the_delays_are_those_of_the_policy_and_the_hint(empty: Shop) -> None:
    plain = explained(empty, "503", "--policy", "sync")["steps"]
    assert [step["lowest"] for step in plain] == [*(2.0**n for n in range(9)), None]
    hinted = explained(empty, "503", "--policy", "SYNC", "--header", "Retry-After: 100")
    assert (hinted["hint"], hinted["hint_source"]) == (100.0, "retry-after")
    assert [step["lowest"] for step in hinted["steps"]][:8] == [100.0] * 7 + [128.0]


@each_row("policy", PRESETS)
def test_every_policy_comes_to_an_end(empty: Shop, policy: str) -> None:
    steps = explained(empty, "500", "--policy", policy)["steps"]
    assert [step["then"] for step in steps] == ["retry"] * (len(steps) - 1) + ["dead"]
    assert steps[-1]["because"].startswith("exhausted: ")


def test_what_is_hopeless_is_dead_at_once(empty: Shop) -> None:
    assert explained(empty, "401")["steps"] == [
        {"failure": 1, "then": "dead", "lowest": None, "highest": None, "because": "permanent: status 401"}
    ]  # fmt: skip


def test_plain_text(empty: Shop) -> None:
    assert empty.run("explain", "429", "--header", "retry-after: 20").stdout.splitlines() == [
        "error\tHTTPError",
        "category\trate_limit",
        "why\tstatus 429",
        "status\t429",
        "hint\t20s",
        "hint source\tretry-after",
        "policy\tDEFAULT",
        "#step\tfailure\tlowest\thighest\tthen\tbecause",
        "step\t1\t20s\t22s\tretry\t-",
        "step\t2\t20s\t22s\tretry\t-",
        "step\t3\t20s\t22s\tretry\t-",
        "step\t4\t-\t-\tdead\texhausted: 4 attempts, last: status 429",
    ]


@each_row(
    "words, message",
    [
        (["trace.txt"], "not an HTTP status, a policy or the name"),
        (["999"], "not an HTTP status"),
        (["500", "--policy", "NOPE"], "no policy 'NOPE'"),
        (["500", "--header", "soon"], "NAME: VALUE"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_explained_is_said(empty: Shop, words: list[str], message: str) -> None:
    result = empty.run("explain", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_nothing_is_imported(empty: Shop) -> None:
    Path("evil.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    assert explained(empty, "evil.Error")["error"] == "evil.Error"
    assert "evil" not in sys.modules
