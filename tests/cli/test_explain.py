"""C2, E4: `explain` says what an error means and when its job is tried again, and imports nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from redrive.policies.presets import PRESETS
from shopkit import Shop

QUOTA = """\
2026-11-15 12:00:01 ERROR Traceback (most recent call last):
  File "/app/ask.py", line 3, in ask
    client.chat()
openai.RateLimitError: Error code: 429 - {'error': {'message': 'You exceeded your current quota, \
please check your plan. Key sk-abcdefgh12345678', 'type': 'insufficient_quota', 'param': None, \
'code': 'insufficient_quota'}}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/run.py", line 9, in run
    ask()
    ~~~^^
app.errors.SummaryFailed: no summary
for two reasons
"""
DURING = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
ConnectionRefusedError: [Errno 111] Connection refused

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
KeyError: 'x'
"""


def explained(shop: Shop, *words: str, stdin: str | None = None) -> dict[str, Any]:
    result = shop.run("explain", *words, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = json.loads(result.stdout)["data"]
    return data


@pytest.mark.parametrize(
    ("what", "category", "why"),
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


@pytest.mark.parametrize(
    ("text", "category", "why"),
    [
        (QUOTA, "quota", "caused by openai.RateLimitError: code insufficient_quota in response body"),
        (DURING, "transient", "caused by ConnectionRefusedError"),
        (("botocore.exceptions.ClientError: An error occurred (ThrottlingException) when calling "
         "the Put operation: slow"), "rate_limit", "code ThrottlingException"),
        (("anthropic.BadRequestError: Error code: 400 - {'type': 'error', 'error': {'details': "
         "{'error_code': 'organization_on_hold'}, 'type': 'invalid_request_error'}}"),
         "auth", "code organization_on_hold"),
        ("httpx.HTTPStatusError: Client error '404 Not Found' for url 'http://x'", "permanent", "status 404"),
        ("requests.exceptions.HTTPError: 503 Server Error: busy for url: http://x", "transient", "status 503"),
        ("urllib.error.HTTPError: HTTP Error 502: Bad Gateway", "transient", "status 502"),
        ('psycopg.OperationalError: connection failed: FATAL:  password authentication failed for user "x"',
         "auth", "the message says: authentication failed"),
        ("some log line\nssl.SSLCertVerificationError: expired\n\n", "permanent", "ssl.SSLCertVerificationError"),
    ],
    ids=["cause", "context", "aws", "claude", "httpx", "requests", "urllib", "postgres", "bare line"],
)  # fmt: skip
def test_a_traceback(empty: Shop, text: str, category: str, why: str) -> None:
    Path("trace.txt").write_text(text, encoding="utf-8")
    for found in (explained(empty, "trace.txt"), explained(empty, "-", stdin=text)):
        assert (found["category"], found["why"]) == (category, why)


def test_the_delays_are_those_of_the_policy_and_the_hint(empty: Shop) -> None:
    plain = explained(empty, "503", "--policy", "sync")["steps"]
    assert [step["lowest"] for step in plain] == [*(2.0**n for n in range(9)), None]
    hinted = explained(empty, "503", "--policy", "SYNC", "--header", "Retry-After: 100")
    assert (hinted["hint"], hinted["hint_source"]) == (100.0, "retry-after")
    assert [step["lowest"] for step in hinted["steps"]][:8] == [100.0] * 7 + [128.0]


@pytest.mark.parametrize("policy", PRESETS)
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no/such/file"], "not an HTTP status, a file or the name"),
        (["trace.txt"], "not an HTTP status, a file or the name"),
        (["999"], "not an HTTP status"),
        (["empty"], "it contains no error"),
        (["500", "--policy", "NOPE"], "no policy 'NOPE'"),
        (["500", "--header", "soon"], "NAME: VALUE"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_explained_is_said(empty: Shop, words: list[str], message: str) -> None:
    Path("empty").write_bytes(b"\x00\xff\n\n")
    result = empty.run("explain", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_nothing_is_imported_and_nothing_leaks(empty: Shop) -> None:
    """A traceback of a stranger names what it likes."""
    Path("evil.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    assert explained(empty, "evil.Error")["error"] == "evil.Error"
    assert "evil" not in sys.modules
    Path("trace.txt").write_text(QUOTA + "\x1b[2J", encoding="utf-8")
    shown = empty.run("explain", "trace.txt").output
    assert "sk-abcdefgh12345678" not in shown
    assert "\x1b" not in shown
