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
        answers = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
        answers.start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._fires(data):
                    self._break(client, server, data)
                    break
                server.sendall(data)
        for one in (client, server):
            _shut(one)

    def _break(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        _shut(client)
        if self._cut is Cut.BEFORE:
            return
        server.sendall(data)
        if self._cut is Cut.AFTER:
            self._wait_for_answer(server)

    def _wait_for_answer(self, server: socket.socket) -> None:
        """The answers' thread reads on; the server says goodbye only after it did the work."""
        server.sendall(b"X\x00\x00\x00\x04")
        with contextlib.suppress(OSError):
            while server.recv(65536):
                pass

    def close(self) -> None:
        self._listener.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _shut(target)


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
