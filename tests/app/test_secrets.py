"""No secret gets out: not into a log, an event, a view or an error; into the store only as payload.

C4, F104, F105. What a handler that fails has about it, each as a canary: its payload, its locals, its
environment, and an error whose text, notes, causes and attributes repeat all that the outside said.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from redrive import Policy, Redrive, constant
from redrive.errors import UsageError
from redrive.testing import ManualClock
from secretkit import Watch, canary, check, commands, stored, whole
from tablekit import each_row

GIVEN = {
    "password": canary("password"),
    "api_key": canary("apikey"),
    "db": {"dsn": f"postgresql://ada:{canary('dsn')}@db.example/x"},
    "url": f"https://ada:{canary('url')}@api.example/?sig={canary('sig')}",
    "headers": {"Authorization": f"Bearer {canary('bearer')}", "Cookie": f"sid={canary('cookie')}"},
    "text": f"use sk-ant-{canary('sk')}",
    "innocent": "a word that may be seen",
}
_IN_PAYLOAD = "password apikey dsn url sig bearer cookie sk"
_ELSEWHERE = "local environment header answer note cause pair host"
IN_PAYLOAD, ELSEWHERE = ([*map(canary, words.split())] for words in (_IN_PAYLOAD, _ELSEWHERE))


class Refusal(Exception):
    """An error as clients make them: it knows the answer, headers and all."""

    status_code = 503

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.headers = {"Set-Cookie": f"sid={canary('header')}", "Retry-After": "60"}
        self.body = {"error": {"code": "overloaded", "token": canary("answer")}}
        self.add_note(f"it was sent with Authorization: Bearer {canary('note')}")


def fail(payload: dict[str, Any]) -> None:
    token = canary("local")
    assert token
    assert os.environ["SERVICE_API_KEY"] == canary("environment")
    try:
        raise ConnectionError(f"GET https://x.example/?key={canary('cause')} failed")
    except ConnectionError as error:
        text = f"{payload!r}, password {payload['password']}, api_key={canary('pair')} refused by "
        raise Refusal(text + f"https://bob:{canary('host')}@x.example/") from error


@each_row("kind", ["jsonl:{}/jobs.jsonl", "{}/jobs.db"])
def test_canaries_stay_in_the_payload(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = kind.format(tmp_path)
    monkeypatch.setenv("SERVICE_API_KEY", canary("environment"))
    caplog.set_level(logging.DEBUG)
    clock = ManualClock()
    with Redrive(place, clock=clock, policy=Policy(attempts=2, wait=constant(1))) as app:
        watch = Watch(app, caplog.handler)

        @app.handler("call")
        def call(**payload: Any) -> None:
            fail(payload)

        job = call.options(key="k-1").submit(**GIVEN)
        tried = call.try_now(**GIVEN)
        with app.capture("net", GIVEN, reraise=False):
            fail(GIVEN)
        for _ in range(2):
            app.run_due(ignore_backoff=True)
        assert app.get(job.id).state == "dead"
        app.desk.retry(job.id, reason="again")
        assert tried.job is not None
        check("repr", repr(tried.job.failure), [*IN_PAYLOAD, *ELSEWHERE])
    for name, text in (*watch.seen(caplog.records), *commands(place, [job.id, tried.job.id])):
        check(name, text, [*IN_PAYLOAD, *ELSEWHERE])
    assert "a word that may be seen" in commands_shown(place, job.id)
    check("the store", stored(place), [*IN_PAYLOAD, *ELSEWHERE])
    everything = whole(place)
    assert all(secret.encode() in everything for secret in IN_PAYLOAD)
    assert not any(secret.encode() in everything for secret in ELSEWHERE)


def commands_shown(place: str, job_id: str) -> str:
    return dict(commands(place, [job_id]))[f"redrive show {job_id} --plain"]


def test_a_run_masks_the_secrets_of_its_jobs_in_its_name_and_reason(app: Redrive) -> None:
    with app.capture("net", GIVEN, reraise=False):
        raise ValueError
    said = f"try {canary('password')} again"
    run = app.desk.runs.start("state:dead", name=said, reason=said)
    assert canary("password") not in f"{run} {app.desk.log.actions()}"


def test_a_payload_of_the_wrong_type_is_not_shown(app: Redrive) -> None:
    with pytest.raises(UsageError, match="found str") as caught:
        app.capture("net", canary("password"))  # type: ignore[arg-type]
    assert canary("password") not in str(caught.value)
