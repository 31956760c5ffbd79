"""A record in a log line, a traceback or a debugger shows neither payload nor error text."""

from __future__ import annotations

from kit import make_job
from redrive import Redrive
from redrive.desk.importing import Result
from redrive.events import Event
from redrive.handler import Tried
from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import (
    Action,
    Attempt,
    Category,
    Claim,
    Dead,
    Failure,
    Group,
    Reason,
    Resolution,
    Settlement,
    State,
)
from redrive.jobs.outcomes import Failed
from redrive.stores.contract import Moved
from tablekit import each_row

CANARY = "canary-4711"
FAILURE = Failure(
    category=Category.TIMEOUT,
    why=CANARY,
    type=CANARY,
    message=CANARY,
    code=CANARY,
    status=504,
    traceback=CANARY,
    hint_source=CANARY,
    request_id=CANARY,
    title=CANARY,
)
ATTEMPT = Attempt(
    ordinal=3,
    number=2,
    life=1,
    started=1.0,
    duration=1.0,
    worker="w",
    outcome="failed",
    failure=FAILURE,
)
JOB = make_job(
    "job-1",
    handler="mail.send",
    payload=f'{{"password":"{CANARY}"}}',
    original=f'{{"password":"{CANARY}"}}',
    state=State.DEAD,
    detail=CANARY,
    attempts=2,
    max_attempts=5,
    key=CANARY,
    tags=(CANARY,),
    failure=FAILURE,
    history=(ATTEMPT,),
    origin={"line": CANARY},
    resolution=Resolution(actor="ada", reason=CANARY, at=1.0),
)
GROUP = Group(
    number=7,
    fingerprint="v1:0",
    title=CANARY,
    record=GroupRecord(number=7, fingerprint="v1:0", title=CANARY, note=CANARY),
    jobs=3,
    handlers=("a",),
    category=Category.TIMEOUT,
)


@each_row(
    "record, shown",
    [
        (
            JOB,
            "Job(id=job-1, handler=mail.send, state=dead, attempts=2, category=timeout)",
        ),
        (
            make_job("job-2", handler="a", max_attempts=3),
            "Job(id=job-2, handler=a, state=pending, attempts=0)",
        ),
        (FAILURE, "Failure(status=504, category=timeout)"),
        (ATTEMPT, "Attempt(number=2, life=1, outcome=failed, category=timeout)"),
        (GROUP, "Group(name=G7, jobs=3, category=timeout)"),
    ],
)
def test_a_record_shows_what_names_it(record: object, shown: str) -> None:
    assert repr(record) == shown


@each_row(
    "record",
    [
        JOB,
        FAILURE,
        ATTEMPT,
        GROUP,
        Event("died", JOB, FAILURE, CANARY),
        Claim(JOB),
        Failed(FAILURE),
        Settlement(Claim(JOB), Dead(Reason.EXHAUSTED), ATTEMPT),
        Moved([JOB], [], Action(actor="ada", verb="retry")),
        Tried(done=False, job=JOB),
        Tried(done=True, job=None, _value=CANARY),
        [JOB],
        {"job": JOB},
        Result(1, {"x": CANARY}, "added", JOB),
        Redrive("memory:").handler("h")(lambda: None).options(key=CANARY, tags=[CANARY]),
    ],
)
def test_no_record_shows_a_payload_or_the_text_of_an_error(record: object) -> None:
    assert CANARY not in repr(record)
    assert CANARY not in f"{record}"
