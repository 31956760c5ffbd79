"""The files that the five users' older programs left come in by one command each."""

from __future__ import annotations

import csv
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pgkit
from redrive import Job, Redrive, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.testing import ManualClock

AT = 1_700_000_000
"""2023-11-14T22:13:20Z, in Tokyo 07:13:20 of the 15th."""
WHEN = "2023-11-14T22:13:20.500000+00:00"
CLOCK = ManualClock(AT + 30 * 86400)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDRIVE_STORE", raising=False)


def command(*words: str, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(root, [*words, "--json"], obj=Cli(CLOCK))
    assert done.exit_code == code, done.output
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def take(file: str, records: object, function: str, code: int = 0) -> dict[str, Any]:
    """Write a file as its program would, and import it twice; the second time adds nothing."""
    if isinstance(records, list) and file.endswith(".jsonl"):
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)
    else:
        text = json.dumps(records, ensure_ascii=False, indent=2)
    Path(file).write_text(text)
    words = ("import", file, "--with", f"redrive.contrib.formats:{function}")
    dry = command(*words, "--dry-run", code=code)
    data = command(*words, code=code)
    assert dry["added"] == data["added"]
    again = command(*words, code=code)
    assert (again["added"], again["known"]) == (0, data["added"] + data["known"])
    assert command("verify")["ok"] is True
    return data


def jobs() -> dict[str, Job]:
    with Redrive("redrive.db", clock=CLOCK) as app:
        return {str(job.key): app.get(job.id) for job in app.desk.jobs.each()}


HOOK = """{"data": {"endpoint": "https://api.example/h"}, "attemptsMade": 1, "maxAttempts": 5,
    "error": {"message": "connect ECONNREFUSED", "code": "ECONNREFUSED"}, "state": "pending"}"""
ARTICLE = """{"id": "queue-1", "article_data": {"id": "a1", "title": "雪", "content": "text"},
    "failure_reason": "rate_limit", "failure_timestamp": "2023-11-15T07:13:20", "retry_count": 2,
    "next_retry_time": "2023-11-15T07:33:20.250000", "max_retries": 5,
    "created_at": "2023-11-15T07:13:20"}"""
DOCUMENT = """{"originalData": {"userId": "u1", "sessionId": "s1", "tableName": "logs"},
    "error": {"message": "503 Service Unavailable", "stack": "Error: 503\\n    at sync (a.js)"},
    "retryCount": 10, "status": "failed", "resolvedAt": null}"""
EVENT = """{"event_type": "order.placed", "source": "shop", "status": "dead_letter",
    "error_info": {"category": "auth", "message": "the partner is down", "type": "ConnectionError",
    "stacktrace": "Traceback …"},
    "retry_info": {"count": 3, "max_retries": 3, "exhausted": true}}"""


def hook(number: int, text: str = "", **changes: Any) -> dict[str, Any]:
    line = json.loads(HOOK) | {"jobId": f"hook-{AT * 1000 + number}-ab{number:04d}"}
    line["data"]["hook"] = {"text": text or f"流行 {number}"}
    return (
        line | {"timestamp": (AT + number) * 1000, "nextRetry": (AT + 60 + number) * 1000} | changes
    )


def test_hooks_in_every_state_with_repeated_lines() -> None:
    odd = "'\"\\`$(rm -rf /)\n\t" + "".join(map(chr, range(1, 32))) + "\x7f\u2028🪝"
    lines = [
        hook(1, odd),
        hook(2, "same"),
        hook(3, "same", attemptsMade=3, state="retrying", error={"message": "HTTP 500"}),
        hook(4, "same", attemptsMade=2, nextRetry=(AT + 999) * 1000),
        hook(5, attemptsMade=5),
        hook(6, state="exhausted", attemptsMade=4, error={"message": None, "code": "EPIPE"}),
        hook(7, "done", attemptsMade=2),
        hook(8, "done", attemptsMade=3, state="resolved", error=None),
        hook(9, "done", attemptsMade=5, state="exhausted"),
        {"jobId": "odd", "state": "pending"},
        hook(10, state="lost"),
    ]
    data = take("dlq.jsonl", lines, "hooks", code=6)
    assert data["states"] == {"completed": 1, "dead": 2, "pending": 2}
    assert [(one["row"], one["reason"].partition(" (")[0]) for one in data["bad_rows"]] == [
        (10, "KeyError: 'data'"),
        (11, "KeyError: 'lost'"),
    ]
    found = jobs()
    first, same, *_ = (found[line["jobId"]] for line in (lines[0], lines[1]))
    assert json.loads(first.payload) == lines[0]["data"]
    assert (same.state, same.attempts, same.own_max_attempts) == (State.PENDING, 3, 5)
    assert (same.created, same.updated, same.due) == (AT + 2, AT + 4, AT + 999)
    assert same.failure
    assert (same.failure.message, same.failure.category) == ("HTTP 500", "transient")
    assert {key: job.state for key, job in found.items() if job.state != "pending"} == {
        lines[4]["jobId"]: "dead",
        lines[5]["jobId"]: "dead",
        lines[6]["jobId"]: "completed",
    }
    with Redrive("redrive.db", clock=CLOCK) as app:
        sent = list[str]()
        app.handler("hook.post")(lambda hook, endpoint: sent.append(hook["text"]))
        assert app.run_due().succeeded == 2
    assert sorted(sent) == sorted([odd, "same"])


def test_articles_with_the_times_of_a_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    item = json.loads(ARTICLE)
    items = [item, {**item, "id": "queue-2", "retry_count": 5}, {"id": "queue-3"}]
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        queue = {"version": "1.0", "queue": {"items": items, "total_processed": 12}}
        data = take("retry_queue.json", queue, "articles", code=6)
        assert take("items.json", items[:2], "articles")["known"] == 2
    time.tzset()
    assert [one["reason"].partition(" (")[0] for one in data["bad_rows"]] == [
        "KeyError: 'retry_count'"
    ]
    waits, dead = jobs().values()
    assert (waits.state, waits.attempts, waits.max_attempts) == (State.PENDING, 3, 6)
    assert (waits.created, waits.due) == (AT, AT + 1200.25)
    assert json.loads(waits.payload) == {"article": item["article_data"]}
    assert waits.failure
    assert (waits.failure.message, waits.failure.category) == ("rate_limit", "rate_limit")
    assert (dead.state, dead.attempts, dead.died_at) == (State.DEAD, 6, AT)


def summary(number: int, status: str, failures: int, **changes: Any) -> dict[str, Any]:
    return {
        "job_id": number,
        "article_id": f"記事-{number}",
        "status": status,
        "retry_count": failures,
        "max_retries": 3,
        "error_message": "the model timed out" if failures else None,
        "created_at": WHEN,
        "completed_at": "2023-11-14T22:13:51+00:00" if status == "completed" else None,
        **changes,
    }


SUMMARIES = [
    *(("pending", 0), ("running", 1), ("failed", 2), ("failed", 3), ("dead_letter", 3)),
    ("completed", 1),
]
"""Status and failures of the rows."""


def test_summaries_from_a_file_or_the_table_itself() -> None:
    rows = [summary(n, *one) for n, one in enumerate(SUMMARIES, 1)]
    data = take("rows.jsonl", rows, "summaries")
    assert data["states"] == {"completed": 1, "dead": 2, "pending": 3}
    found = jobs()
    assert [found[str(n)].state for n in range(1, 7)] == [
        *("pending", "pending", "pending", "dead", "dead", "completed"),
    ]
    assert (found["5"].attempts, found["6"].attempts, found["6"].finished) == (3, 2, AT + 31)
    assert sum(found["6"].spent.values()) == 1  # what the view shows as retry_count
    assert json.loads(found["1"].payload) == {"article_id": "記事-1"}
    names = list(rows[0])
    with Path("rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    words = ("--with", "redrive.contrib.formats:summaries")
    with sqlite3.connect("old.db") as db:
        db.execute(f"CREATE TABLE jobs ({', '.join(names)})")
        db.executemany(
            f"INSERT INTO jobs VALUES ({', '.join('?' * len(names))})",
            [tuple(row.values()) for row in rows],
        )
    query = ("--query", "SELECT * FROM jobs", "--from")
    assert command("import", *query, "old.db", *words)["known"] == 6
    values = ", ".join(
        f"({n}, 'a{n}', '{status}', {failures}, 3, NULL, timestamptz '{WHEN}', NULL::timestamptz)"
        for n, (status, failures) in enumerate(SUMMARIES, 11)
    )
    query = ("--query", f"SELECT * FROM (VALUES {values}) AS t ({', '.join(names)})", "--from")
    assert command("import", *query, pgkit.url_of(), *words)["added"] == 6
    assert command("import", "rows.csv", *words)["known"] == 6


def test_sync_documents_with_the_stamps_of_a_cloud() -> None:
    document = json.loads(DOCUMENT)
    document["createdAt"] = {"_seconds": AT, "_nanoseconds": 250_000_000}
    others = {
        "retrying": {"status": "retrying", "createdAt": WHEN},
        "resolved": {"status": "resolved", "resolvedAt": {"seconds": str(AT + 60), "nanos": 0}},
    }
    documents = [document, *({**document, "failureId": key, **it} for key, it in others.items())]
    take("failures.json", documents, "sync")
    found = jobs()
    retrying, resolved = found.pop("retrying"), found.pop("resolved")
    [dead] = found.values()
    assert (dead.state, dead.attempts, dead.died_at) == (State.DEAD, 10, AT + 0.25)
    assert dead.failure
    assert dead.failure.category == "transient"
    assert "a.js" in str(dead.history[0].failure and dead.history[0].failure.traceback)
    assert (retrying.state, retrying.attempts, retrying.created) == (State.PENDING, 0, AT + 0.5)
    assert (resolved.state, resolved.finished) == (State.RESOLVED, AT + 60)


def event(number: int, **changes: Any) -> dict[str, Any]:
    name = f"EVT-20231114-221320-{number:06x}"
    return (
        json.loads(EVENT) | {"event_id": name, "timestamp": WHEN, "data": {"n": number}} | changes
    )


def test_events_keep_their_japanese_types() -> None:
    lines = [
        event(1, status="pending", error_info=None, retry_info=None),
        event(1, event_type="注文.確定 (東京)", timestamp="2023-11-14T22:13:20+00:00"),
        event(2, status="failed", error_info={"message": "HTTP 503"}, retry_info=None),
        event(3, status="retrying"),
        event(3, status="success", error_info=None),
        event(4, job_id="01J9ZQ4B7V5X2C8D3E6F1G0H4K"),
        {"event_id": "EVT-5", "note": "a line without a status"},
        {"odd": 1},
        event(6, error_info=None),
    ]
    data = take("dead_letter_queue.jsonl", lines, "events", code=6)
    assert (data["added"], data["skipped"], data["bad"]) == (3, 2, 2)
    found = jobs()
    first, second = (found[event(n)["event_id"]] for n in (1, 2))
    assert (first.handler, first.state) == ("注文.確定__東京_", State.DEAD)
    assert (first.attempts, first.created, first.reason) == (4, AT, "permanent")
    assert first.failure
    assert (first.failure.category, first.failure.type) == ("auth", "ConnectionError")
    assert (second.attempts, second.failure and second.failure.category) == (1, "transient")
    shown = command("show", event(1)["event_id"])
    assert shown["payload"] == {"n": 1}
