"""Servers on loopback that answer as told, and the errors that real clients make of it."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Ask = Callable[[], object]
"""Makes a real client fail; or gives an error that its library made."""


class Row(NamedTuple):
    """One real error and what it should be taken for."""

    name: str
    ask: Ask
    category: str
    hint: float | None = None


class Answer(NamedTuple):
    """What the server says; or, in a word, how it misbehaves."""

    status: int = 200
    body: object = ""
    headers: Mapping[str, str] = {}
    misdeed: str = ""
    """`drop` closes without a word, `cut` in the middle, `hang` says nothing for a while."""


DROP, CUT, HANG = Answer(misdeed="drop"), Answer(misdeed="cut"), Answer(misdeed="hang")


def error_of(ask: Ask) -> BaseException:
    """Give the error; that there is none is a mistake of the row."""
    try:
        made = ask()
    except BaseException as error:  # noqa: BLE001 - some are no Exception
        return error
    assert isinstance(made, BaseException), f"no error but {made!r}"
    return made


def client(call: Callable[[str], object]) -> Callable[..., Ask]:
    """Make of a call to a URL one that is told first what the server there will answer."""

    def told(
        status: int | Answer, body: object = "", headers: Mapping[str, str] | None = None
    ) -> Ask:
        answer = status if isinstance(status, Answer) else Answer(status, body, headers or {})

        def ask() -> object:
            with web(answer) as url:
                return call(url)

        return ask

    return told


def nobody(call: Callable[[str], object]) -> Ask:
    """Call a URL where nobody listens."""
    return lambda: call(f"http://127.0.0.1:{free_port()}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answer = Answer()
    closing: threading.Event

    def _reply(self) -> None:
        with suppress(ValueError, OSError):
            self.rfile.read(int(self.headers.get("content-length") or 0))
        status, said, headers, misdeed = self.answer
        if misdeed in {"drop", "hang"}:
            self.close_connection = True
            self.closing.wait(0 if misdeed == "drop" else 5)
            return
        body = said if isinstance(said, bytes) else _text(said).encode()
        kinds = {
            "date": self.date_time_string(),
            "content-type": "application/json",
            "content-length": str(len(body)),
        }
        if misdeed == "cut":
            self.close_connection = True
            kinds["content-length"] = "1000"
        self.send_response_only(status)
        for name, value in {**kinds, **{n.lower(): v for n, v in headers.items()}}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = _reply  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


def _text(said: object) -> str:
    return said if isinstance(said, str) else json.dumps(said)


@contextmanager
def web(answer: Answer, tls: ssl.SSLContext | None = None) -> Generator[str]:
    """Start a web server that has one answer to everything, and give its URL."""
    closing = threading.Event()
    handler = type("Handler", (_Handler,), {"answer": answer, "closing": closing})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # clients go away
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    finally:
        closing.set()
        server.shutdown()
        server.server_close()


@contextmanager
def talk(*replies: bytes, greet: bool = False) -> Generator[int]:
    """Start a server that says its lines in turn, the last one to the end, and give its port.

    A reply answers whatever came in; with `greet` the first one is said at once. None left: it
    hangs up.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket) -> None:
        left = list(replies)
        with peer, suppress(OSError):
            if greet and left:
                peer.sendall(left.pop(0))
            while left and peer.recv(65536):
                peer.sendall(left[0] if len(left) == 1 else left.pop(0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=serve, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def free_port() -> int:
    """Give a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def caused(outer: BaseException, ask: Ask) -> Ask:
    """Raise an error of one's own from a real one, as programs do."""

    def raises() -> object:
        raise outer from error_of(ask)

    return raises
