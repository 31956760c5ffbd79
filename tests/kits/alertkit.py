"""Real receivers of alerts on the loopback interface, and an app that sends to them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import Envelope

from redrive import Redrive
from redrive.alerts import Alerts
from redrive.alerts.watch import Watch

HOLD = ["http", "127.0.0.1"]


@dataclass
class Slack:
    """Takes what Slack's incoming webhooks take, and refuses what they refuse."""

    url: str = ""
    status: int = 200
    """What it answers to what it would take; 200 takes it."""
    hang: float = 0.0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    refused: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def allow(self) -> list[str]:
        return [*HOLD, ":" + self.url.rpartition(":")[2].partition("/")[0]]

    @property
    def titles(self) -> list[str]:
        return [text.partition("\n")[0] for text in self.texts]

    @property
    def texts(self) -> list[str]:
        return [body["text"] for body in self.bodies]

    def take(self, data: bytes, headers: dict[str, str]) -> tuple[int, str]:
        time.sleep(self.hang)
        with self.lock:
            body = json.loads(data)
            if self.status != 200:
                self.refused += 1
                return self.status, "server_error"
            self.bodies.append(body)
            self.headers.append(headers)
            self.raw.append(data)
            return 200, "ok"


@contextmanager
def slack_like() -> Iterator[Slack]:
    slack = Slack()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = slack.take(data, headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        slack.url = f"http://127.0.0.1:{server.server_address[1]}/services/T0/B0/secretpath"
        try:
            yield slack
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Mailbox:
    """What a real SMTP server was given."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    answer: str = "250 OK"

    @property
    def url(self) -> str:
        """The address under which apprise sends mail to it."""
        people = "from=redrive@example.org&to=ops@example.org"
        return f"mailto://127.0.0.1:{self.port}?{people}&format=text&mode=insecure"

    async def handle_DATA(  # noqa: N802 - aiosmtpd calls it so
        self, server: object, session: object, envelope: Envelope
    ) -> str:
        if self.answer.startswith("250"):
            data = cast("bytes", envelope.original_content)
            self.raw.append(data)
            self.mails.append(cast("EmailMessage", BytesParser(policy=default).parsebytes(data)))
        return self.answer


class _Anywhere(Controller):
    """Starts on a free port."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    box = Mailbox()
    controller = _Anywhere(box, hostname="127.0.0.1", port=0)
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop()


@dataclass
class Kept:
    """A channel that only keeps what it is given."""

    name: str = "kept"
    variables: tuple[str, ...] = ()
    messages: list[Any] = field(default_factory=list)

    def send(self, message: Any, *, ident: str) -> str:
        self.messages.append(message)
        return "ok"

    def told(self) -> list[tuple[str, str]]:
        return [(one.subject, one.state) for one in self.messages]


def watch_of(app: Redrive) -> Watch:
    assert isinstance(app.alerts, Alerts)
    return app.alerts.watch(app)


def tick(app: Redrive) -> None:
    """Look now, however long the last look took."""
    watch = watch_of(app)
    watch._next = 0.0
    watch.tick()


def die(app: Redrive, error: Exception, name: str = "mail.send", **payload: object) -> None:
    """Make a dead letter of this error."""
    with app.capture(name, payload, reraise=False):
        raise error
