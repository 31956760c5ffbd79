"""Servers on loopback that play OpenAI and Claude, with the error bodies those services send."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from redrive import Job, Redrive
from redrive.testing import ManualClock

ARTICLE = {
    "id": "a1",
    "title": "Cats",
    "url": "https://example.org/cats",
    "published_at": "2026-01-31T12:00:00",
    "content": "Cats sleep. They purr.",
    "source": "example.org",
}
KEY = "sk-proj-4f1c9b7722aa55ee"


class Reply(NamedTuple):
    """What a provider does when it is asked, and what that means."""

    category: str | None
    """None: it answers."""
    status: int = 200
    body: object = ""
    headers: Mapping[str, str] = {}
    ends: str = "well"
    """`cut` hangs up in the middle, `hang` says no more, `late` answers when nobody listens."""
    hint: float | None = None


def _openai(message: str, kind: str, code: str | None) -> dict[str, object]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _claude(kind: str, message: str, code: str | None = None) -> dict[str, object]:
    details = {"details": {"error_code": code, "error_visibility": "user_facing"}} if code else {}
    error = {"type": kind, "message": message, **details}
    return {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


def _chunk(text: str, finish: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1750000000,
        "model": "gpt-5-mini",
        "choices": [choice],
    }
    return f"data: {json.dumps(chunk)}\n\n"


def _event(kind: str, **fields: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 1},
}
_OPENAI_HALF = _chunk("Cats ")
_OPENAI_WHOLE = _OPENAI_HALF + _chunk("sleep.") + _chunk("", "stop") + "data: [DONE]\n\n"
_CLAUDE_HALF = (
    _event("message_start", message=_MESSAGE)
    + _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Cats "})
)
_CLAUDE_WHOLE = (
    _CLAUDE_HALF
    + _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "sleep."})
    + _event("content_block_stop", index=0)
    + _event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3})
    + _event("message_stop")
)
_STREAM = {"content-type": "text/event-stream"}
_OVERLOADED = _claude("overloaded_error", "Overloaded")

OPENAI = {
    "ok": Reply(None, 200, _OPENAI_WHOLE, _STREAM),
    "429 with Retry-After": Reply("rate_limit", 429, _openai("Rate limit reached for gpt-5-mini in organization org-x on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.", "requests", "rate_limit_exceeded"), {"retry-after": "20", "retry-after-ms": "20000"}, hint=20),
    "429 without Retry-After": Reply("rate_limit", 429, _openai("Rate limit reached for gpt-5-mini.", "tokens", "rate_limit_exceeded")),
    "insufficient_quota": Reply("quota", 429, _openai("You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.", "insufficient_quota", "insufficient_quota")),
    "spend limit": Reply("quota", 429, _openai("Your organization has reached its spend limit.", "insufficient_quota", "organization_spend_limit_exceeded")),
    "overloaded": Reply("transient", 503, _openai("The engine is currently overloaded, please try again later.", "server_error", None)),
    "401": Reply("auth", 401, _openai(f"Incorrect API key provided: {KEY}. You can find your API key at https://platform.openai.com/account/api-keys.", "invalid_request_error", "invalid_api_key")),
    "400": Reply("invalid", 400, _openai("Invalid value for 'messages'.", "invalid_request_error", "invalid_value")),
    "broken stream": Reply("transient", 200, _OPENAI_HALF, _STREAM, ends="cut"),
    "stream that ends early": Reply("transient", 200, _OPENAI_HALF, _STREAM),
    "hang": Reply("transient", ends="hang"),
    "hang in the stream": Reply("transient", 200, _OPENAI_HALF, _STREAM, ends="hang"),
}  # fmt: skip
CLAUDE = {
    "ok": Reply(None, 200, _CLAUDE_WHOLE, _STREAM),
    "429 with Retry-After": Reply("rate_limit", 429, _claude("rate_limit_error", "This request would exceed your organization’s rate limit of 50 requests per minute."), {"retry-after": "35"}, hint=35),
    "429 without Retry-After": Reply("rate_limit", 429, _claude("rate_limit_error", "Number of request tokens has exceeded your rate limit.")),
    "insufficient_quota": Reply("quota", 402, _claude("billing_error", "Your credit balance is too low to access the Anthropic API.")),
    "spend limit": Reply("quota", 429, _claude("rate_limit_error", "You have reached your specified API usage limits.", "enforced_spend_limit_reached")),
    "overloaded": Reply("transient", 529, _OVERLOADED),
    "overloaded in the stream": Reply("transient", 200, _CLAUDE_HALF + _event("error", **{k: v for k, v in _OVERLOADED.items() if k != "type"}), _STREAM),
    "401": Reply("auth", 401, _claude("authentication_error", f"invalid x-api-key {KEY}")),
    "400": Reply("invalid", 400, _claude("invalid_request_error", "messages: text content blocks must be non-empty")),
    "broken stream": Reply("transient", 200, _CLAUDE_HALF, _STREAM, ends="cut"),
    "stream that ends early": Reply("transient", 200, _CLAUDE_HALF, _STREAM),
    "hang": Reply("transient", ends="hang"),
    "hang in the stream": Reply("transient", 200, _CLAUDE_HALF, _STREAM, ends="hang"),
}  # fmt: skip


class Model:
    """One provider's server: does what `reply` says, and keeps what it was asked."""

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        self.replies = replies
        self.reply = "ok"
        self.asked: list[dict[str, Any]] = []
        self.url = ""
        self.closing = threading.Event()
        self.late = 0
        """Answers that came too late."""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length") or 0))
        self.asked.append(json.loads(body))
        _, status, said, headers, ends, _ = self.replies[self.reply]
        request.close_connection = True
        if ends == "late":
            self.closing.wait(20)
            self.late += 1
        text = said if isinstance(said, str) else json.dumps(said)
        if text:
            request.send_response_only(status)
            named = {"date": request.date_time_string(), "content-type": "application/json"}
            for name, value in {**named, "transfer-encoding": "chunked", **headers}.items():
                request.send_header(name, value)
            request.end_headers()
            request.wfile.write(f"{len(text.encode()):x}\r\n".encode() + text.encode() + b"\r\n")
        if ends == "hang":
            self.closing.wait(20)
        elif ends == "well":
            request.wfile.write(b"0\r\n\r\n")


@contextmanager
def served(model: Model) -> Iterator[Model]:
    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            with suppress(OSError):
                model.answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield model
        finally:
            model.closing.set()
            server.shutdown()
            thread.join()


class Desk:
    """The summariser's user: its queue in a real file, a clock that obeys, two providers."""

    def __init__(
        self, module: ModuleType, openai: Model, claude: Model, asks: dict[str, Any]
    ) -> None:
        self.module = module
        self.openai, self.claude = openai, claude
        self.asks = asks
        self.published: list[dict[str, str]] = []
        self.apps: list[Redrive] = []

    def open(self, store: Path, **options: Any) -> None:
        """Start the program anew, with a queue in this file."""
        self.clock = options.setdefault("clock", ManualClock(time.time()))
        self.app, self.summarize = self.module.connect(
            f"jsonl:{store}",
            publish=self.published.append,
            rand=lambda: 0.0,
            **self.asks,
            **options,
        )
        self.apps.append(self.app)

    def say(self, openai: str, claude: str) -> None:
        self.openai.reply, self.claude.reply = openai, claude

    def run(self, *articles: dict[str, Any], now: bool = False) -> bool:
        done: bool = self.module.run(self.app, self.summarize, articles, now=now)
        return done

    def jobs(self, **filters: Any) -> list[Job]:
        return self.app.desk.jobs.find(**filters).jobs

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.openai.asked), len(self.claude.asked)


@contextmanager
def desk_of(module: ModuleType, store: Path, **asks: Any) -> Iterator[Desk]:
    """Both servers, and the summariser beside them; `asks` are made of the servers' addresses."""
    with served(Model(OPENAI)) as openai, served(Model(CLAUDE)) as claude:
        made = {name: ask(openai if name == "openai" else claude) for name, ask in asks.items()}
        desk = Desk(module, openai, claude, made)
        desk.open(store)
        try:
            yield desk
        finally:
            for app in desk.apps:
                app.close()


def check(desk: Desk, openai: str, claude: str, said: Callable[[], str]) -> None:
    """Walk one article through what the two providers do; `said` gives the log."""
    desk.say(openai, claude)
    job = desk.summarize.submit(ARTICLE)
    passed = desk.app.run_due()
    job = desk.app.get(job.id)
    (attempt,) = job.history
    told = {"openai": OPENAI[openai], "claude": CLAUDE[claude]}
    winner = next((name for name, reply in told.items() if reply.category is None), None)
    assert attempt.provider == winner
    if winner:
        assert (job.state, passed.succeeded) == ("completed", 1)
        expected = {"id": "a1", "summary": "Cats sleep.", "provider": winner}
        assert desk.published == [expected]
        assert f"{winner} answered for job {job.id}" in said()
        return
    assert (job.state, job.attempts, job.max_attempts, passed.failed) == ("pending", 1, 6, 1)
    assert job.due - desk.clock.now() == 300
    assert job.failure is not None
    assert job.failure.code == f"openai:{told['openai'].category}/claude:{told['claude'].category}"
    order = ["invalid", "auth", "permanent", "quota", "rate_limit", "unknown", "transient"]
    best = max((reply.category or "" for reply in told.values()), key=order.index)
    assert job.failure.category == best
    assert desk.published == []
    assert KEY not in said() + attempt.failure.traceback + job.failure.message  # type: ignore[union-attr]
