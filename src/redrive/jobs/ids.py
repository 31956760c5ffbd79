"""Ids made by the client: 26 characters, sorted by time, unique without asking anybody.

48 bits of milliseconds and 80 random bits in Crockford's base 32. Within one millisecond the random
part counts up, so ids of one process sort in the order they were made.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import threading
import time
from functools import lru_cache

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_SHIFTS = range(110, -1, -10)
_RANDOM_BITS = 80


class _Maker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = (0, 0)

    def make(self) -> str:
        """Return the next id."""
        moment = time.time_ns() // 1_000_000
        with self._lock:
            last_moment, last_random = self._last
            if moment <= last_moment:
                moment, number = last_moment, last_random + 1
            else:
                # One bit is left free, so that counting up cannot overflow into the time.
                number = secrets.randbits(_RANDOM_BITS - 1)
            self._last = (moment, number)
        return _text((moment << _RANDOM_BITS) | number)

    def forget(self) -> None:
        """Start afresh: a forked child that counted on would make its parent's ids again."""
        self._lock = threading.Lock()
        self._last = (0, 0)


def _text(number: int) -> str:
    return _head(number >> 10) + _PAIRS[number & 1023]


@lru_cache(maxsize=1)
def _head(number: int) -> str:
    """Return all but the last two characters; ids of one bulk have them in common."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


_maker = _Maker()
os.register_at_fork(after_in_child=_maker.forget)


def new_id() -> str:
    """Make an id for a job."""
    return _maker.make()


def new_holder() -> str:
    """Make the name under which one start of a worker holds its leases: `host:pid/` and chance."""
    return f"{socket.gethostname()}:{os.getpid()}/{secrets.token_hex(8)}"


def worker_of(holder: str) -> str:
    """Return the `host:pid` in a holder's name; the name itself if it has none."""
    return holder.rpartition("/")[0] or holder


def named_id(name: str) -> str:
    """Make the id of something that has a name elsewhere: for one name always the same."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return _text(int.from_bytes(digest) >> 256 - 130)
