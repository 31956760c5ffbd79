"""No secret of an endpoint gets out, however the other side repeats it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from postkit import Post, Receiver, answer, receiver
from redrive import Policy, Redrive, constant
from redrive.testing import ManualClock
from secretkit import Watch, canary, check, commands, stored, whole
from tablekit import each_row

TOKEN, HEADER, PATH, QUERY = (canary(word) for word in ("token", "header", "path", "query"))
SECRET = "whsec_" + "c4N4rYc4N4rYc4N4rYc4N4rYc4N4rYc4"
GIVEN = canary("payload")
OURS = [TOKEN, HEADER, PATH, QUERY, SECRET, SECRET.removeprefix("whsec_")]


def echo(post: Post) -> bytes:
    """Repeat all that came, as text, as JSON, as a code and in headers; nothing of it in a pair."""
    secrets = [TOKEN, HEADER, f"/in/{PATH}?to={QUERY}", PATH, QUERY, SECRET, GIVEN]
    said = {"error": {"code": TOKEN, "type": PATH}, "sent": post.headers, "bare": secrets}
    odd = {"x_request_id": TOKEN, "retry_after": "1", "set_cookie": QUERY, "location": HEADER}
    return answer(503, json.dumps(said), **odd)


def answers(there: Receiver) -> None:
    """Misbehave in every way, each time repeating what came."""
    there.answers[:] = [
        lambda line: line.sendall(echo(there.posts[-1])),
        lambda line: line.sendall(echo(there.posts[-1]).replace(b" 503 ", b" 302 ")),
        lambda line: line.sendall(f"{TOKEN} {PATH} is no HTTP\r\n\r\n".encode()),
        lambda line: line.sendall(f"HTTP/1.1 {TOKEN} {PATH}\r\n\r\n".encode()),
        lambda line: line.sendall(f"HTTP/1.1 500 {TOKEN}\r\n{PATH}\r\n\r\n{QUERY}".encode()),
        lambda line: line.sendall(
            f"HTTP/1.1 500 {TOKEN}\r\ntransfer-encoding: chunked\r\n\r\n{QUERY}\r\n".encode()
        ),
        lambda line: line.close(),
        answer(410, f"gone: /in/{PATH} of {TOKEN}"),
    ]


@each_row("kind", ["jsonl:{}/jobs.jsonl", "{}/jobs.db"])
def test_canaries_stay_with_the_endpoint(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = kind.format(tmp_path)
    monkeypatch.setenv("RAILWAY_TOKEN", TOKEN)
    monkeypatch.setenv("RAILWAY_SECRET", SECRET)
    caplog.set_level(logging.DEBUG)
    clock, policy = ManualClock(), Policy(attempts=20, wait=constant(1), alike=True)
    with receiver() as there, Redrive(place, clock=clock, policy=policy) as app:
        watch = Watch(app, caplog.handler)
        answers(there)
        endpoint = there.endpoint(
            app,
            url=there.url(path=f"/in/{PATH}?to={QUERY}"),
            token_env="RAILWAY_TOKEN",
            secret_env="RAILWAY_SECRET",
            headers={"X-Api-Key": HEADER},
        )
        job = endpoint.send({"password": GIVEN}, key="k-1")
        for _ in range(8):
            app.run_due(ignore_backoff=True)
        monkeypatch.setenv("RAILWAY_TOKEN", f"{TOKEN} and more")
        app.run_due(ignore_backoff=True)
        dead = app.endpoint("refused", url=f"https://127.0.0.1/in/{PATH}?to={QUERY}")
        lost = dead.try_now({"password": GIVEN}).job
        assert len(app.get(job.id).history) == 9
        assert lost is not None
        check("repr", repr((app.get(job.id).history, app, endpoint)), [*OURS, GIVEN])
    assert [post.headers["authorization"] for post in there.posts] == [f"Bearer {TOKEN}"] * 8
    for name, text in (*watch.seen(caplog.records), *commands(place, [job.id, lost.id])):
        check(name, text, [*OURS, GIVEN])
    check("the store", stored(place), [*OURS, GIVEN])
    assert GIVEN.encode() in whole(place)
    assert not any(secret.encode() in whole(place) for secret in OURS)


def test_what_the_other_side_says_is_told_beside_them(app: Redrive) -> None:
    """Masking hides no more than it must: people need to know why."""
    with receiver(answer(400, '{"message": "field amount must be positive"}')) as there:
        job = there.endpoint(app).try_now({}).job
    assert job is not None
    assert job.failure is not None
    assert job.failure.message == (
        'railway answered 400: {"message": "field amount must be positive"}'
    )


def test_an_answer_is_masked_before_it_is_cut(app: Redrive) -> None:
    """The other side repeats the payload, and the end of what is shown lies inside a secret."""
    with receiver(answer(400, f"{'x' * 485} {GIVEN}")) as there:
        job = there.endpoint(app).try_now({"password": GIVEN}).job
    assert job is not None
    assert job.failure is not None
    assert job.failure.message == f"railway answered 400: {'x' * 485} •••"
