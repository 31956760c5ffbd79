"""One request over one connection of its own, to addresses that were checked, within one time limit.

The limit holds for everything together: connecting, the handshake, sending, and an answer that comes
one byte at a time. Of the answer no more is read than is kept.
"""

from __future__ import annotations

import io
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any, Final

from redrive.delivery.guard import Target

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

KEPT: Final = 65536  # bytes of the answer's body that are read and kept
CONNECT: Final = 5.0  # seconds to wait for a connection to one address

_LARGEST_HEAD: Final = 131072
_CHUNK: Final = 65536
_INTERIM, _SWITCHED, _FINAL = 100, 101, 200


@dataclass(frozen=True, slots=True)
class Reply:
    """What an endpoint answered."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names in lower case; of a name that came twice, the first."""
    body: bytes = b""
    """The first 64 KiB, not unpacked."""


@dataclass(slots=True)
class Sent:
    """How much of a request was sent before it failed."""

    whole: bool = False
    """True if the whole request was sent: the server may have acted on it, whatever fails later."""


class Deadline:
    """The time by which a request must have ended."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds left; raise TimeoutError if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the answer did not end within {self._seconds:g} s")
        return left


def context(ca_file: str | None) -> ssl.SSLContext:
    """Return the TLS context: certificates are always verified, by the system's roots or by this file."""
    made = ssl.create_default_context(cafile=ca_file)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


def post(
    target: Target,
    addresses: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tls: ssl.SSLContext | None,
    deadline: Deadline,
    sent: Sent,
) -> Reply:
    """Send one POST and return the answer, whatever its status; redirects are not followed."""
    with closing(_connected(target, addresses, tls, deadline)) as sock:
        connection = HTTPConnection(target.host, target.port)
        connection.response_class = _Answer
        connection.sock = _Line(sock, deadline)  # all that it uses is there
        head = {"Host": target.authority, "Accept-Encoding": "identity", "Connection": "close"}
        hung_up: OSError | None = None
        try:
            connection.request("POST", target.path, body, {**head, **headers})
            sent.whole = True
        except ConnectionError as error:
            hung_up = error  # perhaps not without a word: 413, say
        try:
            return _reply(connection.getresponse())
        except Exception as error:
            if hung_up is not None:
                raise hung_up from None
            if isinstance(error, OSError):
                raise
            # In words of our own: its text repeats what the other side said.
            raise ConnectionError(f"the answer is not HTTP ({type(error).__name__})") from None


def _connected(
    target: Target, addresses: Sequence[str], tls: ssl.SSLContext | None, deadline: Deadline
) -> socket.socket:
    """Connect to the first address that accepts; the name is only used to verify the certificate."""
    for place, address in enumerate(addresses, 1):
        try:
            wait = min(CONNECT, deadline.left())
            sock = socket.create_connection((address, target.port), wait)
            break
        except OSError:
            if place == len(addresses):
                raise
    else:
        raise ConnectionError(f"{target.host} has no address")
    try:
        sock.settimeout(deadline.left())
        return sock if tls is None else tls.wrap_socket(sock, server_hostname=target.host)
    except BaseException:
        sock.close()
        raise


def _reply(response: HTTPResponse) -> Reply:
    """Read the answer; once its head is here the status counts, however the body ends."""
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        headers.setdefault(name.lower(), value)
    body = io.BytesIO()
    with suppress(Exception):  # a parser of strangers' bytes fails in many ways
        while body.tell() < KEPT and (part := response.read1(KEPT - body.tell())):
            body.write(part)
    return Reply(response.status, headers, body.getvalue())


class _Answer(HTTPResponse):
    """The final answer: what comes before it (100, 102, 103) says only that there will be one."""

    def begin(self) -> None:
        super().begin()
        while _INTERIM <= self.status < _FINAL and self.status != _SWITCHED:
            vars(self)["headers"] = None  # or it would not begin again
            super().begin()


class _Line:
    """A socket as `http.client` uses it, on which nothing waits past the deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            self._sock.settimeout(self._deadline.left())
            self._sock.sendall(data[start : start + _CHUNK])

    def makefile(self, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._deadline))

    def close(self) -> None:
        """Do nothing: `http.client` closes after the headers, and the body is still to be read."""


class _Reader(io.RawIOBase):
    """Reads from a socket, until the deadline, and no more than an answer may have."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._room = _LARGEST_HEAD + KEPT

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self._room <= 0:
            raise ConnectionError("the headers of the answer are too long")
        self._sock.settimeout(self._deadline.left())
        read = self._sock.recv_into(buffer)
        self._room -= read
        return read
