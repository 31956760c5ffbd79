"""Records of every format as their programs write them, and whole files of them."""

from __future__ import annotations

import io
import json
from typing import Any

from redrive import Job, Redrive
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.formats.times import zone_of
from redrive.desk.transfer.importing import LineResult
from redrive.testing import ManualClock

Record = dict[str, Any]
AT = 1_700_000_000
"""2023-11-14T22:13:20Z."""


def hook(number: int = 1, **changes: Any) -> Record:
    return {
        "jobId": f"hook-{AT * 1000 + number}-ab{number:04d}",
        "data": {"hook": {"text": f"trend {number}"}, "endpoint": "https://api.example/hooks"},
        "attemptsMade": 1,
        "maxAttempts": 5,
        "timestamp": AT * 1000 + number,
        "nextRetry": AT * 1000 + 60_000 + number,
        "error": {"message": "connect ECONNREFUSED", "code": "ECONNREFUSED"},
        "state": "pending",
        **changes,
    }


def article(number: int = 1, **changes: Any) -> Record:
    return {
        "id": f"queue-{number}",
        "article_data": {
            "id": f"a{number}",
            "title": "雪",
            "url": "https://news.example/1",
            "published_at": "2023-11-14T09:00:00",
            "content": "text",
            "source": "rss",
        },
        "failure_reason": "rate_limit",
        "failure_timestamp": "2023-11-14T22:13:20",
        "retry_count": 2,
        "next_retry_time": "2023-11-14T22:33:20.250000",
        "provider_failures": {"openai": 2, "claude": 1},
        "max_retries": 5,
        "created_at": "2023-11-14T22:13:19",
        **changes,
    }


def queue(*items: Record) -> Record:
    return {
        "version": "1.0",
        "saved_at": "2023-11-14T23:00:00",
        "queue": {
            "items": list(items),
            "last_updated": "2023-11-14T23:00:00",
            "total_processed": 12,
            "total_succeeded": 9,
            "total_failed": 3,
        },
    }


def row(number: int = 1, **changes: Any) -> Record:
    return {
        "job_id": number,
        "article_id": f"a{number}",
        "status": "dead_letter",
        "retry_count": 3,
        "max_retries": 3,
        "error_message": "the model timed out",
        "created_at": "2023-11-14T22:13:20+00:00",
        "started_at": "2023-11-14T22:13:21+00:00",
        "completed_at": "2023-11-14T22:13:51+00:00",
        **changes,
    }


def failure(number: int = 1, **changes: Any) -> Record:
    return {
        "failureId": f"f{number}",
        "originalData": {"userId": "u1", "sessionId": f"s{number}", "tableName": "logs"},
        "error": {
            "message": "503 Service Unavailable",
            "stack": "Error: 503\n    at sync (a.js:1)",
        },
        "retryCount": 10,
        "createdAt": {"seconds": AT + number, "nanos": 123456000},
        "status": "failed",
        "resolvedAt": None,
        **changes,
    }


def event(number: int = 1, **changes: Any) -> Record:
    return {
        "event_id": f"EVT-20231114-221320-{number:06x}",
        "timestamp": "2023-11-14T22:13:20.500000+00:00",
        "event_type": "order.placed",
        "source": "shop",
        "data": {"order": number},
        "parent_event_id": None,
        "tags": ["vip"],
        "importance": 4,
        "status": "dead_letter",
        "error_info": {
            "category": "transient",
            "message": "the partner is down",
            "type": "ConnectionError",
            "stacktrace": "Traceback …",
            "context": {"attempt": 4},
        },
        "retry_info": {"count": 3, "max_retries": 3, "exhausted": True},
        "recovery_actions": ["call them"],
        "latency_ms": 12.5,
        "exit_code": 1,
        **changes,
    }


MAKERS = {
    "hooks": hook,
    "articles": article,
    "summaries": row,
    "sync": failure,
    "events": event,
}


def lines(*records: Record) -> bytes:
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in records)


def file_of(name: str, *records: Record) -> bytes:
    """Write records as their program would."""
    if name == "articles":
        return json.dumps(queue(*records), ensure_ascii=False, indent=2).encode()
    return lines(*records)


TOKYO = zone_of("Asia/Tokyo")


def take(
    data: bytes, app: Redrive | None = None, *, asked: TransferOptions | None = None, **said: Any
) -> tuple[Redrive, list[LineResult]]:
    """Import a file, by default into an empty store in memory."""
    app = app or Redrive("memory:", clock=ManualClock(AT + 30 * 86400))
    asked = asked or TransferOptions(zone=lambda: TOKYO)
    return app, list(app.desk.transfer.import_lines(io.BytesIO(data), asked=asked, **said))


def out(app: Redrive, name: str) -> bytes:
    """Export everything in a format."""
    found = app.desk.transfer.export_lines(
        app.desk.jobs.each(), format=name, asked=TransferOptions(zone=lambda: TOKYO)
    )
    return b"".join(line.encode() + b"\n" for line in found)


def jobs(app: Redrive) -> dict[str, Job]:
    """Every job with its history, by id."""
    return {job.id: app.get(job.id) for job in app.desk.jobs.each()}


def only(data: bytes, **said: Any) -> Job:
    """The one job of a file."""
    app, told = take(data, **said)
    assert [one.reason for one in told if one.fate == "bad"] == []
    [job] = jobs(app).values()
    return job
