"""Five hundred slow clients hang on the web server; probes and an office behind one address go on.

    python rigs/slow_clients.py            each kind for 60 s, then all at once; also with few open files
    python rigs/slow_clients.py --short    all kinds at once, for 15 s
    python rigs/slow_clients.py --control  without the guard of connections: must be found out

Slow clients connect and say nothing, send half a head, or a head or body byte by byte, ask for much and
do not read, ask again and again without reading, or keep a connection open; whoever is dropped comes
again. Held against it: every `/healthz` on a connection of its own is answered with 200, and so is
everything that twenty well-behaved clients of one address ask over connections that they keep.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOKEN = "a-token-of-the-rig-0123456789abcdef"  # noqa: S105 - good for nothing else
CLIENTS, OFFICE = 500, 20
PATIENCE = 30.0
"""Seconds for one answer, on a machine that is busy; a guard that fails takes more than a minute."""

_LINE = "GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n"
_ALIVE = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
_AUTH = f"Authorization: Bearer {TOKEN}\r\n"
_POST = (
    f"POST /api/v1/pauses HTTP/1.1\r\nHost: localhost\r\n{_AUTH}"
    "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
)
KINDS: dict[str, tuple[str, str]] = {
    "silent": ("", ""),
    "half a head": (_LINE, ""),
    "head by bytes": (_LINE, "X"),
    "body by bytes": (_POST, " "),
    "no reading": (f"{_LINE}{_AUTH}\r\n" * 4, ""),
    "pipelining": (_ALIVE * 5, _ALIVE),
    "idle": (_ALIVE, ""),
}
"""What a client sends at first, and then every second. None of them reads anything."""


@dataclass
class Case:
    """What is run."""

    kinds: list[str]
    seconds: float
    files: int = 1024
    broken: bool = False
    faults: list[str] = field(default_factory=list[str])
    probes: int = 0
    asked: int = 0
    came_again: int = 0

    def __str__(self) -> str:
        how = " (unguarded)" if self.broken else ""
        return f"slow-clients {' + '.join(self.kinds)}, {self.files} files{how}"


@contextlib.contextmanager
def serving(case: Case) -> Iterator[int]:
    """Start a server; gives its port."""
    with tempfile.TemporaryDirectory(prefix="redrive-rig-") as directory:
        url = f"sqlite:{directory}/jobs.db"
        subprocess.run(
            [sys.executable, "-m", "redrive", "--store", url, "--quiet", "init"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        me = [str(Path(__file__).resolve()), "--broken"] if case.broken else ["-m", "redrive"]
        process = subprocess.Popen(
            [sys.executable, *me, "--store", url, "serve", "--port", "0"],
            env={**os.environ, "REDRIVE_ACT_TOKEN": TOKEN},
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(  # noqa: PLW1509 - nothing else runs here yet
                resource.RLIMIT_NOFILE, (case.files, case.files)
            ),
        )
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "serving on" in line)
            threading.Thread(target=process.stderr.read, daemon=True).start()
            found = re.search(r":(\d+)$", line.strip())
            assert found
            yield int(found[1])
            if process.poll() is not None:
                case.faults.append(f"the server ended with {process.returncode}")
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                case.faults.append("the server did not stop on SIGTERM")
                process.kill()


class Slow:
    """All slow clients, on one thread: whoever is dropped connects again."""

    def __init__(self, case: Case, port: int) -> None:
        self._case = case
        self._port = port
        self._selector = selectors.DefaultSelector()
        self._over = threading.Event()
        self._socks: dict[int, socket.socket | None] = {}
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        for number in range(CLIENTS):
            self._connect(number)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for sock in self._socks.values():
            if sock is not None:
                sock.close()

    def _kind(self, number: int) -> tuple[str, str]:
        return KINDS[self._case.kinds[number % len(self._case.kinds)]]

    def _connect(self, number: int) -> None:
        """Connect from one of eight addresses, with a small buffer that is never read."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.settimeout(1)
        try:
            sock.bind((f"127.0.0.{2 + number % 8}", 0))
            sock.connect(("127.0.0.1", self._port))
            sock.setblocking(False)
            sock.send(self._kind(number)[0].encode())
        except OSError:
            sock.close()
            self._socks[number] = None
        else:
            self._socks[number] = sock

    def _run(self) -> None:
        while not self._over.wait(1.0):
            for number, sock in list(self._socks.items()):
                if self._over.is_set():
                    return
                if sock is None or self._is_dropped(sock, self._kind(number)[1].encode()):
                    if sock is not None:
                        sock.close()
                    self._case.came_again += 1
                    self._connect(number)

    def _is_dropped(self, sock: socket.socket, more: bytes) -> bool:
        try:
            sock.send(more)
            return sock.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def ask(connection: http.client.HTTPConnection, path: str) -> int:
    """Ask for one thing; gives the status."""
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def probe(case: Case, port: int) -> None:
    """Ask whether it lives, on a new connection, as an orchestrator does."""
    began = time.monotonic()
    try:
        status = ask(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE), "/healthz")
    except OSError as error:
        case.faults.append(f"/healthz: {error!r} after {time.monotonic() - began:.1f} s")
    else:
        case.probes += 1
        if status != 200:
            case.faults.append(f"/healthz: {status}")


def work(case: Case, port: int, over: threading.Event) -> None:
    """Ask again and again over one connection; one that was closed while idle may be made anew."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    while not over.wait(0.5):
        for last in (False, True):
            try:
                status = ask(connection, "/api/v1/jobs")
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if last:
                    case.faults.append(f"office: {error!r}")
            else:
                case.asked += 1
                if status != 200:
                    case.faults.append(f"office: {status}")
                break
    connection.close()


def run(case: Case) -> bool:
    """Run one case and print its figures; whether everybody was served."""
    with serving(case) as port:
        over = threading.Event()
        office = [threading.Thread(target=work, args=(case, port, over)) for _ in range(OFFICE)]
        with Slow(case, port):
            for thread in office:
                thread.start()
            end = time.monotonic() + case.seconds
            while time.monotonic() < end and not (case.broken and case.faults):
                probe(case, port)
                time.sleep(0.1)
            over.set()
            for thread in office:
                thread.join()
    print(
        f"{case}: {CLIENTS} slow clients ({case.came_again:,} dropped or refused and back), "
        f"{case.probes:,} probes, {case.asked:,} requests of an office, {len(case.faults)} faults",
        flush=True,
    )
    return not case.faults


def serve_broken() -> None:
    """Serve as before there was a guard."""
    import uvicorn  # noqa: PLC0415 - in the child only

    from redrive.cli import main as redrive  # noqa: PLC0415
    from redrive.web import connections  # noqa: PLC0415

    def plain(config: uvicorn.Config, _: object) -> uvicorn.Server:
        config.limit_concurrency = 200
        return uvicorn.Server(config)

    unguarded: Callable[..., None] = lambda *_: None  # noqa: E731
    connections.Connections.accepted = unguarded  # type: ignore[method-assign]
    connections.server_for = plain
    sys.argv = ["redrive", *sys.argv[2:]]
    redrive()


def main() -> int:
    """Run what is asked for; gives the exit code."""
    if sys.argv[1:2] == ["--broken"]:
        serve_broken()
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    every = list(KINDS)
    if given.control:
        found_out = not run(Case(every, 15, broken=True))
        print("" if found_out else "NOT FOUND OUT: no guard of connections\n", end="")
        return 0 if found_out else 1
    cases = [Case(every, 15), Case(every, 10, files=400)]
    if not given.short:
        cases = [
            *(Case([kind], 60) for kind in every),
            Case(every, 120),
            Case(every, 60, files=400),
        ]
    held = [run(case) for case in cases]
    for case in cases:
        print(*case.faults[:5], sep="\n", end="\n" if case.faults else "")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
