"""A tiny TCP proxy before the server that can cut a connection at the worst moment."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pgkit


class Cut(Enum):
    """When the client loses its connection, counted from the message that is watched for."""

    BEFORE = "the server never gets it"
    WHILE = "the server gets it when the client is gone"
    AFTER = "the server answered, and the answer is lost"


class Proxy:
    """Passes bytes between clients and the server; `arm` makes it cut the next that says a word."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._word, self._cut, self._left = b"", Cut.AFTER, 0
        self.cuts = 0
        self._down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, schema: str, **options: Any) -> str:
        """How a client reaches the schema through here."""
        port = self._listener.getsockname()[1]
        more = "".join(f"&{name}={value}" for name, value in options.items())
        plain = "sslmode=disable&gssencmode=disable"
        return f"postgresql://postgres@127.0.0.1:{port}/postgres?{plain}&schema={schema}{more}"

    def arm(self, word: bytes, cut: Cut, *, times: int = 1) -> None:
        """Cut the next connections whose client sends this."""
        with self._lock:
            self._word, self._cut, self._left = word, cut, times

    def refuse(self, *, down: bool = True) -> None:
        """Take no more connections, as a server that is away."""
        self._down = down

    def _fires(self, data: bytes) -> bool:
        with self._lock:
            fires = self._left > 0 and self._word in data
            self._left -= fires
            self.cuts += fires
            return fires

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._down:
                    client.close()
                else:
                    threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{pgkit.server().pgdata}/.s.PGSQL.5432")
        link = _Link(client, server)
        threading.Thread(target=link.pass_answers_on, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._fires(data):
                    link.cut(self._cut, data)
                    break
                server.sendall(data)
        link.close()

    def close(self) -> None:
        self._listener.close()


class _Link:
    """A client's connection and ours to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._is_mute = False
        self._answered = threading.Event()

    def pass_answers_on(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(65536):
                if self._is_mute:
                    self._answered.set()
                else:
                    self._client.sendall(data)
        _shut(self._client)

    def cut(self, when: Cut, data: bytes) -> None:
        self._is_mute = True
        if when is Cut.AFTER:
            self._server.sendall(data)
            assert self._answered.wait(10)
        _shut(self._client)
        if when is Cut.WHILE:
            self._server.sendall(data)

    def close(self) -> None:
        _shut(self._client)
        _shut(self._server)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextlib.contextmanager
def proxied() -> Iterator[Proxy]:
    """A proxy for the time of a test."""
    proxy = Proxy()
    try:
        yield proxy
    finally:
        proxy.close()
