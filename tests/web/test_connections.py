"""F91: connections that wait for their client are bounded in time and number, and probes still answer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn

from redrive import Redrive, web
from redrive.web import connections
from redrive.web.connections import Connections, client_of, listener, most_connections, server_for
from webkit import ACT, TOKENS
from workkit import until

ENOUGH = 60.0
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
AUTH = b"Authorization: Bearer " + ACT.encode() + b"\r\n"
POST = (
    b"POST /api/v1/pauses HTTP/1.1\r\nHost: localhost\r\n" + AUTH
) + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
GOOD = str(Path(__file__).resolve().parents[1] / "delivery" / "certificates" / "good.pem")


@contextlib.contextmanager
def serving(app: Redrive, guard: Connections, **options: Any) -> Iterator[int]:
    """Serve on a thread, as `redrive serve` does; gives the port."""
    site = web.asgi(app, tokens=TOKENS)
    config = uvicorn.Config(site, log_config=None, lifespan="off", ws="none", **options)
    server = server_for(config, guard)
    sock = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = int(sock.getsockname()[1])
    guarded = listener(sock, guard)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[guarded])))
    thread.start()
    try:
        yield port
    finally:
        server.should_exit = server.force_exit = True
        thread.join(ENOUGH)
        guarded.close()


def connect(port: int, sent: bytes = b"", host: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket()
    sock.settimeout(ENOUGH)
    sock.bind((host, 0))
    sock.connect(("127.0.0.1", port))
    sock.sendall(sent)
    return sock


def is_dropped(sock: socket.socket) -> bool:
    """Wait until the other side closes it."""
    try:
        while sock.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def alive(port: int) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=ENOUGH).status_code


def test_probes_answer_while_hundreds_of_half_sent_requests_hang(app: Redrive) -> None:
    """D9 of the review: 220 of them gave 503 to everybody."""
    with serving(app, Connections(0)) as port, contextlib.ExitStack() as stack:
        for number in range(300):
            stack.enter_context(connect(port, HEAD, f"127.0.0.{2 + number % 5}"))
        for _ in range(20):
            assert alive(port) == 200


@pytest.mark.parametrize(
    "sent",
    [b"", HEAD, POST, HEAD + b"\r\n" + HEAD],
    ids=["nothing", "half a head", "half a body", "a request and half a head"],
)
def test_a_client_that_does_not_go_on_is_dropped(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "LIMITS", dict.fromkeys(connections.LIMITS, 0.3))
    with serving(app, Connections(0)) as port, connect(port, sent) as sock:
        assert is_dropped(sock)
        assert alive(port) == 200


@pytest.mark.parametrize(("first", "more"), [(HEAD, b"X"), (POST, b" ")], ids=["head", "body"])
def test_a_client_that_sends_byte_by_byte_is_dropped(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, first: bytes, more: bytes
) -> None:
    monkeypatch.setattr(connections, "LIMITS", dict.fromkeys(connections.LIMITS, 0.5))
    end = time.monotonic() + ENOUGH
    with serving(app, Connections(0)) as port, connect(port, first) as sock:
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                sock.sendall(more)
                time.sleep(0.05)
        assert time.monotonic() < end


def test_a_client_that_does_not_read_is_dropped(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        connections, "LIMITS", connections.LIMITS | {"reading": 0.5, "closing": 0.5}
    )
    asked = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n" + AUTH + b"\r\n"
    guard = Connections(0)
    with serving(app, guard) as port:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.settimeout(0.2)
        sock.connect(("127.0.0.1", port))
        with sock, contextlib.suppress(OSError):
            for _ in range(300):  # more than the buffers of the system take
                sock.sendall(asked)
        with sock:
            end = time.monotonic() + ENOUGH
            while guard._entries and time.monotonic() < end:
                time.sleep(0.05)
        assert not guard._entries


def test_a_client_that_keeps_asking_is_not_dropped_however_long(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request has its own time, though the connection looks idle whenever one looks at it."""
    limit, passed, real, guard = 1000.0, 0.0, time.monotonic, Connections(3)
    monkeypatch.setattr(connections, "LIMITS", dict.fromkeys(connections.LIMITS, limit))
    clock = SimpleNamespace(monotonic=lambda: real() + passed)
    monkeypatch.setattr(connections, "time", clock)
    with serving(app, guard) as port:
        kept = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=ENOUGH)
        with kept:
            numbers = set()
            for _ in range(5):
                answer = kept.get("/healthz")
                assert answer.status_code == 200
                stream = answer.extensions["network_stream"]
                numbers.add(stream.get_extra_info("socket").getsockname()[1])
                passed += limit * 0.6
                guard.sweep()
        assert len(numbers) == 1


def test_a_client_that_never_shakes_hands_is_dropped(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS: before its handshake ends no protocol knows of the connection."""
    monkeypatch.setattr(connections, "LIMITS", connections.LIMITS | {"handshake": 0.3})
    with serving(app, Connections(0), ssl_certfile=GOOD, ssl_keyfile=GOOD) as port:
        with connect(port, b"\x16\x03\x01") as sock:
            assert is_dropped(sock)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{port}/healthz"
        assert httpx.get(url, verify=context, timeout=ENOUGH).status_code == 200


def test_the_oldest_waiting_connection_of_a_client_makes_room_for_its_next(app: Redrive) -> None:
    """Others keep theirs."""
    known = Connections(3)
    with serving(app, known) as port, contextlib.ExitStack() as stack:

        def joined(host: str) -> socket.socket:
            sock = stack.enter_context(connect(port, HEAD, host))
            entries, key = known._entries, sock.getsockname()[:2]
            until(lambda: key in entries and entries[key].protocol is not None)
            return sock

        other = joined("127.0.0.9")
        mine = [joined("127.0.0.8") for _ in range(5)]
        assert is_dropped(mine[0])
        assert is_dropped(mine[1])
        for sock in (other, *mine[2:]):
            sock.sendall(b"Connection: close\r\n\r\n")
            assert sock.recv(100).startswith(b"HTTP/1.1 200")


def test_when_all_places_are_taken_the_client_with_most_makes_room(app: Redrive) -> None:
    with serving(app, Connections(0, most=6)) as port, contextlib.ExitStack() as stack:
        other = stack.enter_context(connect(port, HEAD, "127.0.0.9"))
        greedy = [stack.enter_context(connect(port, HEAD, "127.0.0.8")) for _ in range(5)]
        assert alive(port) == 200
        assert is_dropped(greedy[0])
        other.sendall(b"\r\n")
        assert other.recv(100).startswith(b"HTTP/1.1 200")


def test_what_counts_as_one_client() -> None:
    assert client_of("10.0.0.7") == "10.0.0.7"
    assert client_of("::ffff:10.0.0.7") == "10.0.0.7"
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert client_of("2001:db8:0:1::1") != client_of("2001:db8::1")
    assert client_of("fe80::1%eth0") == "fe80::/64"
    assert client_of("") == ""


def test_files_are_left_for_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, most in ((1024, 800), (512, 384), (64, 16), (-1, 800)):
        monkeypatch.setattr(
            connections.resource, "getrlimit", lambda _, files=files: (files, files)
        )
        assert most_connections() == most


def test_a_request_too_many_is_refused_but_no_probe(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.web.server._AT_ONCE", 2)
    with serving(app, Connections(0)) as port, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connect(port, POST))
        asked = {"url": f"http://127.0.0.1:{port}/api/v1/jobs", "timeout": ENOUGH}
        headers = {"authorization": f"Bearer {ACT}"}
        statuses = {httpx.get(**asked, headers=headers).status_code for _ in range(3)}
        assert alive(port) == 200
    assert 503 in statuses
