"""Connections of `redrive serve`: none may stay in the way, and no client may have too many.

uvicorn waits for the head of a request without limit and counts every connection against one number, so
a few hundred half-sent requests would keep everybody out. Here each connection that waits for its client
(TLS handshake, head, body, a client that does not read) has a limit of time, and there is a limit of
connections for each client and for all. When one of these is reached, the connection that has waited
longest makes room for the new one, so that a request that is sent whole, such as a probe, always gets in.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from redrive.jobs.logger import log

MOST = 800  # connections of all clients; fewer where the limit of open files is low
_RESERVE = 128  # open files that are kept for the store, logs and probes
_DROPPED = 32  # dropped connections that may wait for the event loop to close them
LIMITS = {"handshake": 10.0, "head": 10.0, "body": 30.0, "reading": 60.0, "closing": 5.0}
"""Seconds for each thing that a connection waits for its client to do."""
_V6_NETWORK = 64  # one IPv6 client has at least so large a network: its addresses count as one


@dataclass(slots=True, eq=False)
class _Entry:
    """One accepted connection."""

    sock: socket.socket
    client: str
    since: float
    protocol: Any = None
    phase: tuple[str, object] = ("handshake", None)

    def look(self, now: float) -> str:
        """Return what the connection waits for its client to do; empty while we are at work on it."""
        phase = _phase_of(self.protocol) if self.protocol else ("handshake", None)
        if phase != self.phase:
            self.phase, self.since = phase, now
        return phase[0]

    def drop(self) -> None:
        """Close it at once, whatever is still to be sent."""
        if self.protocol is not None:
            self.protocol.transport.abort()
        else:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def _phase_of(protocol: Any) -> tuple[str, object]:
    """Return what is waited for, with the request that it is about: the next one has its own time."""
    if protocol.transport.is_closing():
        return "closing", None
    if protocol.transport.get_write_buffer_size():
        return "reading", protocol.cycle
    match protocol.conn.their_state:
        case h11.IDLE:
            return "head", protocol.cycle
        case h11.SEND_BODY:
            return "body", protocol.cycle
        case _:
            return "", protocol.cycle


def most_connections() -> int:
    """Return how many connections there may be, so that files are left for everything else."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else max(16, min(MOST, files - _RESERVE))


@dataclass
class Connections:
    """All connections of one server. `each` is the limit for one client; 0 where there is none."""

    each: int
    most: int = field(default_factory=most_connections)
    _entries: dict[object, _Entry] = field(default_factory=dict[object, _Entry])
    _dropped: list[socket.socket] = field(default_factory=list[socket.socket])

    def accepted(self, sock: socket.socket, address: tuple[Any, ...]) -> None:
        """Take in a new connection; another one may have to make room for it."""
        client = client_of(str(address[0]))
        now = time.monotonic()
        if len(self._entries) >= self.most:
            self._forget_closed()
        counts = Counter(entry.client for entry in self._entries.values())
        crowded = None
        if self.each and counts[client] >= self.each:
            crowded = client
        elif len(self._entries) >= self.most:
            crowded = counts.most_common(1)[0][0]
        new = _Entry(sock, client, now)
        if crowded is not None and not self._make_room(crowded, now):
            self._drop(new)
            return
        self._entries[address[:2]] = new

    def is_behind(self) -> bool:
        """Return True if many were dropped whose files are still open: then no more is accepted now."""
        self._dropped = [sock for sock in self._dropped if sock.fileno() >= 0]
        return len(self._dropped) >= _DROPPED

    def _drop(self, entry: _Entry) -> None:
        self._dropped.append(entry.sock)
        entry.drop()

    def _make_room(self, client: str, now: float) -> bool:
        """Drop the connection of a client that has waited longest; False if all are being served."""
        waiting = [
            (entry.since, key)
            for key, entry in self._entries.items()
            if entry.client == client and entry.look(now)
        ]
        if not waiting:
            return False
        _, key = min(waiting, key=lambda pair: pair[0])
        self._drop(self._entries.pop(key))
        return True

    def made(self, protocol: Any) -> None:
        """Store the protocol of a connection."""
        entry = self._entries.get((protocol.client or ("",))[:2])
        if entry is not None:
            entry.protocol = protocol
        else:  # it had to make room meanwhile
            protocol.transport.abort()

    def lost(self, protocol: Any) -> None:
        """Forget a connection that has ended."""
        key = (protocol.client or ("",))[:2]
        entry = self._entries.get(key)
        if entry is not None and entry.protocol is protocol:
            del self._entries[key]

    def sweep(self) -> None:
        """Drop what has waited too long."""
        self._forget_closed()
        now = time.monotonic()
        for entry in list(self._entries.values()):
            waits_for = entry.look(now)
            if waits_for and now - entry.since > LIMITS[waits_for]:
                log.debug("dropped a connection of %s: %s", entry.client, waits_for)
                entry.drop()

    def _forget_closed(self) -> None:
        """Forget connections whose handshake failed; no event reports that."""
        gone = [key for key, entry in self._entries.items() if entry.sock.fileno() < 0]
        for key in gone:
            del self._entries[key]


def client_of(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or a network of IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ip_network((parsed, _V6_NETWORK), strict=False))
    return str(parsed)


class Listener(socket.socket):
    """A listening socket that counts every connection before anything is read from it."""

    connections: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection and count it; the event loop asks again soon if none may come now."""
        if self.connections.is_behind():
            raise BlockingIOError
        sock, address = super().accept()
        self.connections.accepted(sock, address)
        return sock, address


def listener(sock: socket.socket, connections: Connections) -> Listener:
    """Return the same listening socket, guarded; the one given is of no use after it."""
    guarded = Listener(fileno=sock.detach())
    guarded.connections = connections
    return guarded


def server_for(config: uvicorn.Config, connections: Connections) -> uvicorn.Server:
    """Return a server whose connections are guarded; its socket must be a `listener`."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            connections.made(self)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.lost(self)
            super().connection_lost(exc)

    class Server(uvicorn.Server):
        async def on_tick(self, counter: int) -> bool:
            if counter % 10 == 0:  # once a second
                connections.sweep()
            return await super().on_tick(counter)

    config.http = Protocol
    return Server(config)
