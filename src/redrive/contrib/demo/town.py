"""The services of the demo: a server on loopback that fails as real ones do."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

KEYS = ("key-of-2025", "key-of-2026")  # what the payment service took last year, and takes now
_TIMEOUT = 5.0


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    text: str
    retry_after: int | None = None


class Place(Protocol):
    """Services that a server plays."""

    url: str

    def hear(self, place: str, body: dict[str, Any]) -> Answer:
        """Answer one request."""
        ...


P = TypeVar("P", bound=Place)


class Town:
    """A mailbox, a printer, a model, a bank, a parcel service, and an inbox for alerts."""

    def __init__(self) -> None:
        self.url = ""
        self.inbox: list[dict[str, Any]] = []
        self.done: Counter[str] = Counter()
        self._asked: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    @property
    def allow(self) -> list[str]:
        """The `allow` setting of endpoints: loopback is not allowed by default."""
        return ["http", "127.0.0.1", ":" + self.url.rpartition(":")[2]]

    def call(self, place: str, order: int, key: str = "") -> None:
        """Send a request; urllib raises if the status is not 2xx."""
        post(f"{self.url}/{place}", {"order": order, "key": key})

    def hear(self, place: str, body: dict[str, Any]) -> Answer:
        """Answer one request, and count what was done."""
        with self._lock:
            if place == "inbox":
                self.inbox.append(body)
                return Answer(200, "noted")
            order = int(body["order"])
            self._asked[place, order] += 1
            answer = self._judge(place, order, str(body["key"]))
            self.done[place] += answer.status == 200  # noqa: PLR2004 - the only success there is
            return answer

    def _judge(self, place: str, order: int, key: str) -> Answer:
        asked = self._asked[place, order]
        if place == "print" and asked <= order % 3:
            return Answer(503, "the printer is jammed")
        if place == "ask" and asked == 1:
            return Answer(429, "too many requests", retry_after=2)
        if place == "charge" and key != KEYS[1]:
            return Answer(401, "this key was revoked on 1 January")
        if place == "ship":
            return Answer(404, "no such street")
        return Answer(200, "done")


@contextmanager
def served(place: P) -> Generator[P]:
    """Start a server for services on a free port of loopback, and stop it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(place))
    place.url = f"http://127.0.0.1:{server.server_port}"
    with running(server):
        yield place


@contextmanager
def running(server: BaseServer) -> Generator[None]:
    """Run a server in a thread, and close it."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    with server:
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def post(url: str, body: Mapping[str, Any]) -> None:
    """Send a request; HTTPError if the status is not 2xx."""
    request = Request(url, json.dumps(body).encode(), method="POST")  # noqa: S310 - our own server
    try:
        build_opener(ProxyHandler({})).open(request, timeout=_TIMEOUT).close()
    except HTTPError as error:
        error.close()
        raise


def _handler_for(place: Place) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer one question."""
            self._answer({})

        def do_POST(self) -> None:
            """Answer one request."""
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, request: dict[str, Any]) -> None:
            answer = place.hear(self.path.strip("/"), request)
            body = answer.text.encode()
            self.send_response(answer.status)
            if answer.retry_after is not None:
                self.send_header("Retry-After", str(answer.retry_after))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
            """Log nothing."""

    return Door
