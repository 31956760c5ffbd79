"""Functions for `redrive import FILE --with redrive.contrib.formats:NAME`: the files of five programs.

Times without a zone are local times; for a file of another machine, set TZ=Asia/Tokyo or its like.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, cast

from redrive.desk.importing import BadRow, each
from redrive.jobs.ids import named_id
from redrive.jobs.job import Category
from redrive.registry import fitted_name

Row = dict[str, Any]
Rows = Iterator[Row | BadRow | None]


def _time(value: Any) -> Any:
    if isinstance(value, dict):
        stamp = cast("Row", value)
        parts = {name.lstrip("_"): int(number) for name, number in stamp.items()}
        return parts["seconds"] + parts.get("nanos", parts.get("nanoseconds", 0)) / 1e9  # Firestore
    moment = datetime.fromisoformat(value) if value and isinstance(value, str) else value
    return moment.astimezone() if isinstance(moment, datetime) else moment


def hooks(rows: Iterable[Row]) -> Rows:
    """Read the lines of a script that posts hooks; each retry that failed added a line.

    Lines with the same hook and endpoint are one job, with the most attempts. It is completed if one
    of them is resolved, dead if one is exhausted or made its last attempt, otherwise pending.
    """
    found: dict[str, list[Row]] = {}

    def read(row: Row) -> None:
        data, error = row["data"], row.get("error") or Row()
        waits = "pending" if row["attemptsMade"] < row["maxAttempts"] else "dead"
        states = {"pending": waits, "retrying": waits, "exhausted": "dead", "resolved": "completed"}
        line = {
            "key": row["jobId"],
            "handler": "hook.post",
            "payload": {"hook": data["hook"], "endpoint": data["endpoint"]},
            "state": states[row["state"]],
            "attempts": row["attemptsMade"],
            "max_attempts": row["maxAttempts"],
            "error": error.get("message") or error.get("code"),
            "created": row["timestamp"] / 1000,
            "due": row["nextRetry"] / 1000,
        }
        found.setdefault(json.dumps(line["payload"], sort_keys=True), []).append(line)

    yield from filter(None, each(rows, read))
    for lines in found.values():
        lines.sort(key=lambda line: line["created"])
        states = {line["state"] for line in lines}
        yield {
            **max(lines, key=lambda line: (line["attempts"], line["created"])),
            "key": lines[0]["key"],
            "created": lines[0]["created"],
            "failed_at": lines[-1]["created"],
            "due": max(line["due"] for line in lines),
            "state": next(state for state in ("completed", "dead", "pending") if state in states),
        }


def articles(rows: Iterable[Row]) -> Rows:
    """Read the retry queue of an article summariser: its one document, or the items of it."""

    def read(item: Row) -> Row:
        attempts, most = item["retry_count"] + 1, item["max_retries"] + 1  # the first is no retry
        return {
            "key": item["id"],
            "handler": "article.summarize",
            "payload": {"article": item["article_data"]},
            "state": "dead" if attempts >= most else "pending",
            "attempts": attempts,
            "max_attempts": most,
            "error": item["failure_reason"],
            "created": _time(item["created_at"]),
            "due": _time(item["next_retry_time"]),
        }

    for row in rows:
        yield from each(row["queue"]["items"] if "queue" in row else [row], read)


def summaries(row: Row) -> Row:
    """Read a row of the table `summarize_job_queue`, from a query, CSV or JSON."""
    failures, most = int(row["retry_count"]), int(row["max_retries"])
    states = {"dead_letter": "dead", "completed": "completed"}
    states |= {"failed": "dead"} if failures >= most else {}
    return {
        "key": row["job_id"],
        "handler": "article.summarize",
        "payload": {"article_id": row["article_id"]},
        "state": states.get(row["status"], "pending"),
        "attempts": failures + (row["status"] == "completed"),
        "max_attempts": most,
        "error": row["error_message"],
        "created": _time(row["created_at"]),
        "finished": _time(row.get("completed_at")),
    }


def sync(row: Row) -> Row:
    """Read a document of the collection `bigquerySyncFailures`."""
    content = json.dumps([row["originalData"], row["createdAt"]], sort_keys=True, default=str)
    states = {"failed": "dead", "retrying": "pending", "resolved": "resolved"}
    return {
        "key": row.get("failureId") or named_id(content),
        "handler": "bigquery.sync",
        "payload": row["originalData"],
        "state": states[row["status"]],
        "attempts": 0 if row["status"] == "retrying" else row["retryCount"],  # it begins anew
        "error": row["error"]["message"],
        "traceback": row["error"].get("stack"),
        "created": _time(row["createdAt"]),
        "failed_at": _time(row["createdAt"]),
        "finished": _time(row.get("resolvedAt")),
    }


def events(rows: Iterable[Row]) -> Rows:
    """Read the dead letters of an event stream; lines of its log, or about jobs of ours, are left out."""
    found: dict[str, Row] = {}

    def dead(row: Row) -> Row | None:
        if row.get("job_id") or row["status"] not in {"dead_letter", "failed"}:
            return None
        error = row["error_info"] or Row()
        return {
            "key": row["event_id"],
            "handler": fitted_name(row["event_type"]),
            "payload": row.get("data") or {},
            "attempts": ((row.get("retry_info") or Row()).get("count") or 0) + 1,
            "error": error.get("message"),
            "error_type": error.get("type"),
            "traceback": error.get("stacktrace"),
            "category": error["category"] if error.get("category") in {*Category} else None,
            "created": _time(row["timestamp"]),
        }

    yield from filter(None, each(rows, lambda row: found.update({row["event_id"]: row})))
    yield from each(found.values(), dead)
