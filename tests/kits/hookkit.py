"""A stand-in for the API that hooks are posted to (on the loopback interface), and its user."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redrive import Job, Redrive, State
from redrive.testing import ManualClock

TOKEN = "agent-token-5f1c"
HOOK = {"title": "A trend", "score": 7}
DAY = 86400.0
CHANCES = [0.0, 0.5, 1 - 2**-53]


@dataclass
class Request:
    method: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class HookApi:
    """Saves each key once; answers POSTs with the statuses it was told, then with 200."""

    url: str = ""
    script: list[int] = field(default_factory=list)
    saves_before_failing: bool = False
    """Save even where the status says failure: the answer was lost, the work was done."""
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[Request] = field(default_factory=list)
    saved: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    on_post: Callable[[], object] = field(default=lambda: None)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def posts(self) -> list[Request]:
        return [request for request in self.seen if request.method == "POST"]

    def post(self, request: Request) -> tuple[int, dict[str, Any]]:
        self.on_post()
        with self.lock:
            self.seen.append(request)
            status = self.script.pop(0) if self.script else 200
            if 200 <= status < 300 or self.saves_before_failing:
                self.save(request)
        sent = request.headers.get("authorization", "")
        return status, {"status": status, "sent": sent, "bare": sent.removeprefix("Bearer ")}

    def save(self, request: Request) -> None:
        key = request.headers["idempotency-key"]
        if key in self.saved:
            self.skipped.append(key)
        else:
            self.saved[key] = request.body

    def ask(self, request: Request, key: str) -> tuple[int, dict[str, Any]]:
        with self.lock:
            self.seen.append(request)
            return 200, {"saved": key in self.saved}


@contextmanager
def hook_api() -> Iterator[HookApi]:
    api = HookApi()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(*api.post(self._request(body)))

        def do_GET(self) -> None:
            key = parse_qs(urlsplit(self.path).query).get("idempotencyKey", [""])[0]
            self._answer(*api.ask(self._request({}), key))

        def log_message(self, *args: object) -> None:
            """Say nothing."""

        def _request(self, body: dict[str, Any]) -> Request:
            headers = {name.lower(): value for name, value in self.headers.items()}
            return Request(self.command, headers, body)

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            text = b"" if status == 204 else json.dumps(body).encode()
            self.send_response(status)
            for name, value in api.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        api.url = f"http://127.0.0.1:{server.server_address[1]}/hooks"
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()


class User:
    """The script's user: its queue in a real file, a clock that obeys, one throw of the dice."""

    def __init__(self, module: ModuleType, store: Path, api: HookApi, chance: float = 0.5) -> None:
        self.module = module
        self.store = store
        self.api = api
        self.clock = ManualClock()
        self.app: Redrive
        self.app, self.handler = module.connect(
            f"jsonl:{store}", clock=self.clock, rand=lambda: chance
        )

    def run(self, *hooks: dict[str, Any]) -> bool:
        done: bool = self.module.run(self.app, self.handler, hooks, self.api.url)
        return done

    def fail(self, hook: dict[str, Any] = HOOK) -> Job:
        """Post a hook that the API refuses once; gives what was kept."""
        self.api.script.append(500)
        key = self.module.new_key()
        tried = self.handler.options(key=key).try_now(hook=hook, endpoint=self.api.url)
        assert not tried.done
        kept: Job = tried.job
        return kept

    def jobs(self, **filters: Any) -> list[Job]:
        return self.app.desk.jobs.find(**filters).jobs

    def exhaust(self) -> Job:
        """Post a hook that fails for the last time at once; gives the dead letter."""
        self.api.script.append(500)
        options = self.handler.options(key=self.module.new_key(), attempts=1)
        job: Job = options.try_now(hook={"title": "hopeless"}, endpoint=self.api.url).job
        assert job.state is State.DEAD
        return job
