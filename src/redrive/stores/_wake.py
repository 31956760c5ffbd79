"""Hints within one host: "something may be due", told to the processes that listen to a file store.

A listener is a datagram socket in a directory that belongs to the store: `redrive-<user>/<hash>`
under the temporary directory, for its owner alone. A process that added something sends a byte to each
socket there. That never waits, never fails and proves nothing: a full socket has hints enough, one
that nobody holds any more is removed, and a process that hears nothing finds the work by looking.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import secrets
import socket
import stat
import threading
import time
import weakref
from pathlib import Path

from redrive.stores._files import identity_of, is_still, log
from redrive.stores.listening import HintListener

_TICK = 100_000_000
"""Nanoseconds after which a directory that changes again has another time of change for certain."""

_TRIES = 100
"""How often a directory may be removed, by the last who left it, just before we move in."""


class SocketHintListener:
    """Hears the datagrams of one socket."""

    def __init__(self, sock: socket.socket, path: str = "") -> None:
        sock.setblocking(False)
        self._socket = sock
        self._identity = identity_of(sock.fileno())
        self._end = weakref.finalize(self, _end, sock, self._identity, path)
        _listening.add(self)

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 once it is closed, here or by a program that closes everything."""
        descriptor = self._socket.fileno()
        return descriptor if is_still(descriptor, self._identity) else -1

    def drain(self) -> None:
        """Take in every hint that came."""
        with contextlib.suppress(OSError):
            while self.fileno() >= 0:
                self._socket.recv(1)

    def close(self) -> None:
        """Hear no more; twice is fine."""
        self._end()

    def in_child(self) -> None:
        """Go deaf after a fork: the socket and its name are the parent's."""
        if self._end.detach():
            _release(self._socket, self._identity)


class PairHintListener(SocketHintListener):
    """Hears the threads of its own process."""

    def __init__(self) -> None:
        sock, self._mouth = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        super().__init__(sock)
        self._mouth.setblocking(False)
        self._said = identity_of(self._mouth.fileno())
        self._lock = threading.RLock()
        weakref.finalize(self, _release, self._mouth, self._said)

    def hint(self) -> None:
        """Be heard, unless it is closed or has hints enough."""
        with self._lock, contextlib.suppress(OSError):
            if is_still(self._mouth.fileno(), self._said):
                self._mouth.send(b"!")

    def close(self) -> None:
        """Hear no more; twice is fine."""
        with self._lock:
            super().close()
            _release(self._mouth, self._said)

    def in_child(self) -> None:
        """Go deaf after a fork, whichever thread was just saying something."""
        super().in_child()
        self._lock = threading.RLock()
        _release(self._mouth, self._said)


class Hints:
    """How the users of one file tell each other that there is something to do."""

    def __init__(self, store: Path) -> None:
        name = hashlib.blake2b(os.fsencode(os.path.realpath(store)), digest_size=8).hexdigest()
        self._place = f"{os.environ.get('TMPDIR') or '/tmp'}/redrive-{os.geteuid()}/{name}"  # noqa: S108 - only if ours alone
        self._seen: tuple[int, int] | None = None
        self._listeners: list[str] = []

    def send(self) -> None:
        """Wake every process that listens. Where nobody does, this asks the system one thing."""
        if not self._listeners and not os.access(self._place, os.F_OK):
            return  # the quickest way to ask: nothing is raised
        try:
            found = os.lstat(self._place)
        except OSError:
            return
        if self._seen != (found.st_ino, found.st_mtime_ns):
            self._look(found)
        for path in self._listeners:
            _send(path)

    def _look(self, found: os.stat_result) -> None:
        """See who listens, in a directory that nobody else can put anything into."""
        self._seen, self._listeners = None, []
        with contextlib.suppress(OSError):
            if _is_private(found):
                names = os.listdir(self._place)  # noqa: PTH208 - this is asked for names only
                self._listeners = [f"{self._place}/{name}" for name in names if name[0] != "."]
        if time.time_ns() - found.st_mtime_ns > _TICK:
            self._seen = found.st_ino, found.st_mtime_ns

    def listen(self) -> HintListener | None:
        """Return a listener for this store; none where there is no safe place for a socket."""
        try:
            return SocketHintListener(*_bound(self._place))
        except OSError as error:
            log.warning("no notifications of new jobs, the store is polled instead: %s", error)
            return None


def _bound(place: str) -> tuple[socket.socket, str]:
    """Make a socket with a name in the directory, and the directories where they are missing.

    Its final name is given last: one that is not yet bound would be taken for a dead one.
    """
    for _ in range(_TRIES):
        name = secrets.token_hex(4)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            _make_private(os.path.dirname(place))  # noqa: PTH120 - all of this is in plain text
            _make_private(place)
            sock.bind(f"{place}/.{name}")
            os.rename(f"{place}/.{name}", f"{place}/{name}")  # noqa: PTH104
        except FileNotFoundError:
            sock.close()
        except BaseException:
            sock.close()
            raise
        else:
            return sock, f"{place}/{name}"
    raise FileNotFoundError(errno.ENOENT, "removed again and again", place)


def _make_private(directory: str) -> None:
    """Make a directory, unless it is there; PermissionError if it is not this user's alone."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)  # noqa: PTH102
    if not _is_private(os.lstat(directory)):
        raise PermissionError(errno.EPERM, "not a directory of this user alone", directory)


def _is_private(found: os.stat_result) -> bool:
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    )


def _send(path: str) -> None:
    try:
        _mouth.socket().sendto(b"!", path)
    except ConnectionRefusedError:
        _remove(path)  # the process that listened there was killed
    except OSError:
        pass


class _Mouth:
    """The one socket of a process that hints are sent from; it has no name and keeps nothing."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._identity = (0, 0)

    def socket(self) -> socket.socket:
        """Return it; a new one if a program that closes everything closed it."""
        mouth = self._socket
        if mouth is not None and is_still(mouth.fileno(), self._identity):
            return mouth
        with self._lock:
            if self._socket is not None and self._socket is not mouth:
                return self._socket  # another thread was first
            if mouth is not None:
                mouth.detach()
            self._socket = mouth = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            mouth.setblocking(False)
            self._identity = identity_of(mouth.fileno())
            atexit.register(_release, mouth, self._identity)
            return mouth


def _end(sock: socket.socket, identity: tuple[int, int], path: str) -> None:
    if path:
        _remove(path)
    _release(sock, identity)


def _release(one: socket.socket, identity: tuple[int, int]) -> None:
    """Close a socket, unless its number was given to another file."""
    if is_still(one.fileno(), identity):
        one.close()
    else:
        one.detach()


def _remove(path: str) -> None:
    """Remove a socket, and the directories after the last one."""
    with contextlib.suppress(OSError):
        os.unlink(path)  # noqa: PTH108
        place = os.path.dirname(path)  # noqa: PTH120
        os.rmdir(place)  # noqa: PTH106
        os.rmdir(os.path.dirname(place))  # noqa: PTH106, PTH120


_mouth = _Mouth()
_listening: weakref.WeakSet[SocketHintListener] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for listener in list(_listening):
        listener.in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
