"""Bodies are JSON, small, whole and in time; and no request waits for ever."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from kit import make_failure, make_job
from redrive import Redrive
from redrive.web import reads
from redrive.web.api import ROUTES
from shopkit import name
from webkit import ACT, Web

JSON = {"content-type": "application/json"}


BODIES = (
    (b"{}", {"content-type": "text/plain"}, 415),
    (b"{}", {}, 415),
    (b"lane=x", {"content-type": "application/x-www-form-urlencoded"}, 415),
    (b"{}", {"content-type": "application/json; charset=latin-1"}, 415),
    (b"{}", {**JSON, "content-encoding": "gzip"}, 415),
    (b"", JSON, 400),
    (b"[]", JSON, 400),
    (b"null", JSON, 400),
    (b'{"lane": "x", "lane": "y"}', JSON, 400),
    (b'{"lane": "x", "seconds": NaN}', JSON, 400),
    (b'{"lane": "x", "seconds": 1e999}', JSON, 400),
    (b'{"lane": "x", "reason": "\\ud800"}', JSON, 400),
    (b'{"lane": "x", "reason": "\\u0000"}', JSON, 400),
    (b'{"lane": "x\\n"}', JSON, 400),
    (b'\xff{"lane": "x"}', JSON, 400),
    (b"[" * 100_000, JSON, 400),
    (b'{"lane": "x", "reason": "' + b"x" * reads.LARGEST + b'"}', JSON, 413),
)


def test_bodies(web: Web) -> None:
    for content, headers, status in BODIES:
        answer = web.ask("POST", "/api/v1/pauses", content=content, headers=headers)
        assert answer.status_code == status, (content[:40], answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
    assert web.app.desk.log.actions() == []
    utf8 = {"content-type": "application/json; charset=UTF-8"}
    good = web.ask("POST", "/api/v1/pauses", content=b'{"lane": "x"}', headers=utf8)
    assert good.status_code == 200


def test_a_payload_that_is_too_deep_is_refused(web: Web) -> None:
    """Each reader of a body gives up at a depth of its own; none of them is a mistake of ours."""
    for depth in (70, 470, 500, 900, 990):
        deep = b'{"to": ' + b"[" * depth + b"]" * depth + b"}"
        for path, more in (
            ("/api/v1/jobs", b'"handler": "mail.send"'),
            (f"/api/v1/jobs/{name(1)}/edit", b'"edits": 0'),
        ):
            content = b'{"payload": ' + deep + b", " + more + b"}"
            answer = web.ask("POST", path, content=content, headers=JSON)
            assert answer.status_code == 400, answer.text


def test_a_body_that_is_too_large_is_read_to_its_end_unless_it_has_none(web: Web) -> None:
    """A client that still sends when the connection is closed may not see the answer."""
    for most, read in ((48, 48), (10**9, 257)):
        sent: list[int] = []

        async def chunks(most: int = most, sent: list[int] = sent) -> AsyncIterator[bytes]:
            for number in range(most):
                sent.append(number)
                yield b"x" * 65_536

        answer = web.ask("POST", "/api/v1/pauses", content=chunks(), headers=JSON)
        assert (answer.status_code, len(sent)) == (413, read)


def test_a_slow_body_is_given_up(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "SLOWEST", 0.05)

    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    answer = web.ask("POST", "/api/v1/pauses", content=drops(), headers=JSON)
    assert answer.status_code == 408


def test_a_slow_store_is_not_waited_for_and_probes_answer_meanwhile(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    web = Web(app, deadline=0.05)
    monkeypatch.setattr(app.store, "find", lambda *_: free.wait(100))
    try:
        for _ in range(20):  # more often than there are threads
            answer = web.ask("GET", "/api/v1/jobs")
            assert (answer.status_code, answer.json()["code"]) == (504, "too_long")
        monkeypatch.setattr(web.site, "_deadline", 30.0)  # the machine may be busy
        for path in ("/healthz", "/readyz", "/api/v1/health"):
            assert web.ask("GET", path).status_code == 200
    finally:
        free.set()


def test_a_mistake_of_ours_is_a_problem_without_its_trace(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Any:
        msg = "secret inside"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(web.app.store, "find", fail)
    answer = web.ask("GET", "/api/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (500, "failed")
    assert "secret inside" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_it_can_be_mounted(web: Web) -> None:
    web.site = Starlette(routes=[Mount("/jobs", web.site)])  # type: ignore[assignment]
    assert web.get("/jobs/healthz") == {"status": "ok"}
    assert web.get(f"/jobs/api/v1/jobs/{name(1)}")["id"] == name(1)
    document = web.get("/jobs/api/v1/openapi.json")
    assert document["servers"] == [{"url": "/jobs"}]
    assert set(document["paths"]) == {route.path for route in ROUTES}
    assert web.ask("GET", "/jobs/nix").json()["code"] == "no_route"
    assert web.ask("GET", "/healthz").status_code == 404


def test_a_query_is_read_as_it_was_sent(web: Web) -> None:
    """Other servers than ours let bytes through that no client may send."""

    async def status(query: bytes) -> int:
        said: list[Any] = []

        async def send(message: Any) -> None:
            said.append(message)

        headers = [(b"host", b"localhost"), (b"authorization", b"Bearer " + ACT.encode())]
        scope = {"type": "http", "method": "GET", "path": "/api/v1/jobs", "headers": headers}
        await web.site({**scope, "query_string": query}, receive, send)
        found: int = said[0]["status"]
        return found

    async def receive() -> Any:
        return {"type": "http.request"}

    assert asyncio.run(status(b"q=\xff")) == 400
    assert asyncio.run(status(b"limit=1#&limit=many")) == 400


def test_a_websocket_is_closed(web: Web) -> None:
    said: list[Any] = []

    async def go() -> None:
        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "websocket", "path": "/", "headers": [(b"host", b"localhost")]}
        await web.site(scope, receive, send)

    asyncio.run(go())
    assert said == [{"type": "websocket.close", "code": 1008}]


def test_a_submit_that_finds_its_job_shows_no_secret_of_it(web: Web) -> None:
    said = {"handler": "mail.send", "payload": {"to": "ada", "password": "hunter-22"}, "key": "k"}
    failure = make_failure(message="hunter-22 was refused", title="Refused: hunter-22")
    payload = json.dumps(said["payload"])
    web.app.store.add([make_job(handler="mail.send", payload=payload, key="k", failure=failure)])
    found = web.post("/api/v1/jobs", said)
    assert (found["new"], found["error"]["message"]) == (False, "••• was refused")
    assert "hunter-22" not in json.dumps(found)


def test_a_token_is_not_kept_as_it_is(web: Web) -> None:
    known = web.site._tokens
    assert known is not None
    assert ACT not in repr([vars(known), known._tokens])
