"""What a worker and its child say to each other: one JSON object a line, over a socket.

To the child:  {"path": [...]}                     where to look for modules; the first message
               {"job": ..., "payload": ..., "module": ..., "hurried": ...}   run this; the handler
                                                   is found in that module
               {"lost": ID}                        that job's lease is gone
               {"end": true}                       stop what runs
               {"bye": true}                       no more work
From it:       {"ready": true} or {"broken": WHY}  once, after the program was imported
               {"unknown": true}                   the program has no such handler
               {"began": WHEN}                     from here on a death is the job's
               {"beat": true}                      the event loop of an async handler moves, or
                                                   other threads beside a plain one
               {"outcome": ..., "provider": ..., "took": SECONDS, "spoiled": WHAT}   its end:
                                                   done, skipped, failed or returned unspent;
                                                   `spoiled` names what the handler left changed
"""

from __future__ import annotations

import json
from typing import Any, cast

from redrive.jobs.job import Done, Failed, Interrupted, Job, Outcome, Returned, Skipped
from redrive.stores._codec import failure_from_dict, failure_to_dict, head_to_dict, job_from_dict

Message = dict[str, Any]


def line_of(message: Message) -> bytes:
    """Write a message; as ASCII, because an error's text may hold halves of characters."""
    return json.dumps(message).encode("ascii") + b"\n"


def message_in(line: bytes) -> Message:
    """Read a message; what is none (a handler may write anywhere) reads as an empty one."""
    try:
        found: object = json.loads(line)
    except ValueError:
        return {}
    return cast("Message", found) if isinstance(found, dict) else {}


def order(job: Job, module: str, *, hurried: bool) -> Message:
    """Say which job to run."""
    named = {"job": head_to_dict(job), "payload": job.payload, "module": module}
    return {**named, "hurried": hurried}


def job_in(message: Message) -> Job:
    """Give the job of an order."""
    return job_from_dict(message["job"], message["payload"])


def said(outcome: Outcome) -> Message:
    """Return how a job ended, as a message; a child knows no other ends than these four."""
    match outcome:
        case Failed(failure, _, provider):
            told = {"failure": failure_to_dict(failure)}
            return {"outcome": "failed", "provider": provider, **told}
        case Returned(why, wait, missing):
            return {"outcome": "returned", "why": why, "wait": wait, "missing": missing}
        case Skipped(reason, provider):
            return {"outcome": "skipped", "provider": provider, "reason": reason}
        case Done(provider):
            return {"outcome": "done", "provider": provider}
        case _:
            return {"outcome": "done"}


def outcome_in(message: Message) -> Outcome:
    """Give the end that a message tells."""
    provider = message.get("provider")
    match message.get("outcome"):
        case "done":
            return Done(provider)
        case "skipped":
            return Skipped(str(message.get("reason", "")), provider)
        case "failed":
            return Failed(failure_from_dict(message["failure"]), provider=provider)
        case "returned":
            return Returned(message["why"], message["wait"], message["missing"])
        case _:
            return Interrupted()
