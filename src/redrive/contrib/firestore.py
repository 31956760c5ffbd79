"""Mirror dead letters into a collection of Firestore: one document for each job that died.

    mirror(app, firestore.Client(), "bigquerySyncFailures")

The documents are written by a durable listener, so each change of a dead letter gets there, whichever
process made it and whatever fails meanwhile. Redrive's store stays the truth: nothing is read back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

from redrive.app import Redrive
from redrive.errors import UsageError
from redrive.events import Event
from redrive.jobs import checks
from redrive.jobs.job import Job, State
from redrive.policies.policy import DEAD, Policy, when
from redrive.strategies import exponential

_KINDS: Final = ("died", "retried", "reopened", "resolved", "recovered")
_ERRORS = "google.api_core.exceptions."
POLICY = Policy(
    attempts=300,
    max_age="1d",
    wait=exponential(1, cap=300),
    alike=True,
    invalid=DEAD,
    on=[when(_ERRORS + name, "transient") for name in ("AlreadyExists", "FailedPrecondition")],
)
"""A document is retried for a day; one that Firestore does not take is a dead letter at once."""
_STATUS: Final = {State.DEAD: "failed", State.PENDING: "retrying", State.RUNNING: "retrying"}
_SECONDS = 30.0
_DEEPEST = 15  # levels of a payload; Firestore takes 20 in all
_LARGEST = 2**63
_NAME = re.compile(r"(?!__.*__$).{1,375}", re.DOTALL)
"""Names in a map: `__id__` and the like are reserved, and 1,500 bytes are the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mirror:
    app: Redrive
    client: Any
    collection: str
    handlers: frozenset[str] | None

    def write(self, event: Event) -> None:
        """Write the document of a job as it was at this event, unless a later one was written."""
        job = event.job
        if job is None or (self.handlers is not None and job.handler not in self.handlers):
            return
        reference = self.client.collection(self.collection).document(job.id)
        document = self._document(job, event.number)
        snapshot = reference.get(timeout=_SECONDS)
        if not snapshot.exists:
            reference.create(document, timeout=_SECONDS)
            return
        stored: dict[str, Any] = snapshot.to_dict()
        if stored.get("event", 0) < event.number:
            same = self.client.write_option(last_update_time=snapshot.update_time)
            reference.update(document, option=same, timeout=_SECONDS)

    def _document(self, job: Job, number: int) -> dict[str, Any]:
        last = next((one for one in reversed(job.history) if one.failure is not None), None)
        failure = (last and last.failure) or job.failure
        status = _STATUS.get(job.state, "resolved")
        resolved = (job.finished or job.updated) if status == "resolved" else None
        died = job.died_at
        if died is None:
            died = job.updated if last is None else round(last.started + last.duration, 6)
        is_again = job.state not in {State.DEAD, State.RESOLVED}  # its counts are of another life
        document = {
            "originalData": _storable(job.payload),
            "error": {
                "message": failure.message if failure else "",
                "stack": failure.traceback if failure else "",
            },
            "retryCount": last.number if last and is_again else job.attempts,
            "createdAt": _time(died),
            "status": status,
            "resolvedAt": None if resolved is None else _time(resolved),
            "event": number,
        }
        known = self.app.submitter.registry.get(job.handler)
        if known is not None and (age := known.policy.keep.ages["resolved"]) is not None:
            document["expireAt"] = None if resolved is None else _time(resolved + age)
        return document


def mirror(
    app: Redrive,
    client: Any,
    collection: str,
    *,
    handlers: Collection[str] | None = None,
    name: str = "firestore",
    policy: Policy = POLICY,
    reveal: bool = False,
) -> None:
    """Write each dead letter, and what becomes of it, as a document of a Firestore collection.

    `client` is a `google.cloud.firestore.Client`; a document has the id of its job. `handlers` limits
    it to these. Payloads are masked unless `reveal=True`. Its listener has this `name`.
    """
    if not callable(getattr(client, "collection", None)):
        msg = f"client must be a google.cloud.firestore.Client; found {type(client).__name__}"
        raise UsageError(msg)
    made = _Mirror(
        app=app,
        client=client,
        collection=checks.text(collection, "collection"),
        handlers=None if handlers is None else frozenset(checks.texts(handlers, "handlers")),
    )
    app.on(*_KINDS, name=name, policy=policy, reveal=reveal)(made.write)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _storable(payload: str) -> object:
    """Return a payload as a map; as its text if it holds what Firestore cannot."""
    value = json.loads(payload)
    return value if _fits(value, _DEEPEST) else payload


def _fits(value: object, depth: int, *, in_list: bool = False) -> bool:
    """Return True for what Firestore can hold: no list in a list, no integer of more than 64 bits."""
    if isinstance(value, dict):
        members = cast("dict[str, object]", value).items()
        return depth > 0 and all(
            _NAME.fullmatch(name) and _fits(one, depth - 1) for name, one in members
        )
    if isinstance(value, list):
        items = cast("list[object]", value)
        return not in_list and all(_fits(one, depth - 1, in_list=True) for one in items)
    return not isinstance(value, int) or -_LARGEST <= value < _LARGEST
