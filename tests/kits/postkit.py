"""A stand-in for whoever is sent to, on loopback: it answers as told, and keeps what it got."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from redrive import Redrive
from redrive.delivery.endpoint import Endpoint
from redrive.testing import ManualClock

Answer = bytes | Callable[[socket.socket], object]


def new_app() -> Redrive:
    """Make an app on an empty store."""
    return Redrive("memory:", clock=ManualClock())


@dataclass
class Post:
    """One request, as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Where it listens, how it answers (the last answer again and again), what it got."""

    port: int
    scheme: str
    answers: list[Answer]
    posts: list[Post] = field(default_factory=list)
    accepted: int = 0
    names: list[str | None] = field(default_factory=list)
    """The host that each TLS client asked for."""

    @property
    def allow(self) -> list[str]:
        return ["http", f":{self.port}", "127.0.0.1"]

    def url(self, host: str = "127.0.0.1", path: str = "/hooks") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def endpoint(self, app: Redrive, name: str = "railway", **settings: Any) -> Endpoint:
        return app.endpoint(name, **{"url": self.url(), "allow": self.allow, **settings})

    def answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def answer(status: int, body: bytes | str = b"", **headers: str) -> bytes:
    text = body.encode() if isinstance(body, str) else body
    said = {"content-length": str(len(text)), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + text


OK = answer(200, '{"ok":true}')


def read_post(sock: socket.socket) -> Post:
    with sock.makefile("rb") as lines:
        line = lines.readline().decode().strip()
        headers: dict[str, str] = {}
        while said := lines.readline().decode().strip():
            name, _, value = said.partition(":")
            assert name.lower() not in headers, f"{name} came twice"
            headers[name.lower()] = value.strip()
        return Post(line, headers, lines.read(int(headers.get("content-length", 0))))


@contextmanager
def receiver(
    *answers: Answer, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> Generator[Receiver]:
    listener = socket.create_server((host, 0))
    made = Receiver(listener.getsockname()[1], "https" if tls else "http", list(answers) or [OK])
    threads: list[threading.Thread] = []
    if tls is not None:
        tls.sni_callback = lambda _sock, name, _context: made.names.append(name)

    def serve(peer: socket.socket) -> None:
        with suppress(OSError), peer:
            peer.settimeout(10)
            line = peer if tls is None else tls.wrap_socket(peer, server_side=True)
            with line:
                made.posts.append(read_post(line))
                said = made.answer()
                line.sendall(said) if isinstance(said, bytes) else said(line)

    def accept() -> None:
        with suppress(OSError):
            while True:
                peer, _ = listener.accept()
                made.accepted += 1
                threads.append(threading.Thread(target=serve, args=(peer,), daemon=True))
                threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield made
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join(10)


class Canary:
    """Listens where nobody may come: on both loopback addresses, under one port."""

    def __init__(self) -> None:
        four = socket.create_server(("127.0.0.1", 0))
        self.port: int = four.getsockname()[1]
        self._listeners = [four]
        with suppress(OSError):  # a machine without IPv6 has nothing to watch there
            self._listeners.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))

    def accepted(self) -> int:
        """Count who came since the last time."""
        count = 0
        for listener in self._listeners:
            listener.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    listener.accept()[0].close()
                    count += 1
        return count

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()


class Names:
    """A resolver: it knows the names it was told, reads numbers as the system does, asks nobody."""

    def __init__(self) -> None:
        self.known: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if host in self.known:
            answers = self.known[host]
            return answers.pop(0) if len(answers) > 1 else answers[0]
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(place[0]) for *_, place in found]
