"""When a worker looks for work again, and how it is woken.

It looks when it heard something (a hint of the store), when a job it knows of falls due, when the
last look found as much as was asked for, and every so often in any case: hints may be lost, so
nothing depends on one.
"""

from __future__ import annotations

import contextlib
import heapq
import select
import socket
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Self

from redrive.jobs.job import Release, Retry, Settlement
from redrive.stores.contract import Store

if TYPE_CHECKING:
    from redrive.stores.listening import Ears

_KNOWN = 1000
"""How many coming due times are remembered; the rest is found by looking."""
_LONGEST_WAIT = 2.0


class Rest:
    """The place where a worker's steering thread waits; inside `with` it can be woken."""

    def __init__(self, store: Store, poll: float) -> None:
        self._store = store
        self._poll = poll
        self._ears: Ears | None = None
        self._bell: socket.socket | None = None
        self._button: socket.socket | None = None
        self.is_asleep = False
        """Whether somebody waits here, whom `rouse` would wake."""
        self._heard = True
        self._next_look = 0.0
        self._dues: list[float] = []
        self._trouble = 0.0

    def __enter__(self) -> Self:
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._ears = self._store.listen()
        return self

    def __exit__(self, *_: object) -> None:
        if self._ears is not None:
            self._ears.close()
        for end in (self._bell, self._button):
            if end is not None:
                end.close()

    @property
    def may_find(self) -> bool:
        """Whether a look for work may find some."""
        now = time.monotonic()
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
            self._heard = True
        return self._heard or now >= self._next_look

    def found(self, number: int, asked: int) -> None:
        """Note what a look found: less than asked for means that there is no more now."""
        self._heard = number >= asked
        self._next_look = time.monotonic() + self._poll
        self._trouble = 0.0

    def expect(self, settlements: Iterable[Settlement]) -> None:
        """Remember when jobs that wait fall due."""
        for settlement in settlements:
            verdict = settlement.verdict
            delay = verdict.delay if isinstance(verdict, Retry | Release) else None
            if delay is not None and len(self._dues) < _KNOWN:
                heapq.heappush(self._dues, time.monotonic() + delay)

    def until(self, timeout: float, *, unless: Callable[[], object]) -> None:
        """Wait until woken, or until it is time for another look; not at all if `unless` holds."""
        now = time.monotonic()
        # A look that is due already waits for room, not for time.
        looks = [at - now for at in (self._next_look, *self._dues[:1]) if at > now]
        self.is_asleep = True
        try:
            if not unless():
                self._wait(min([timeout, *looks]))
        finally:
            self.is_asleep = False

    def _wait(self, seconds: float) -> None:
        assert self._bell is not None  # noqa: S101 - made on entering
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        ears = -1 if self._ears is None else self._ears.fileno()
        if ears >= 0 and not self._heard:  # who knows already waits for room
            poller.register(ears, select.POLLIN)
        ready = {number for number, _ in poller.poll(seconds * 1000)}
        if self._bell.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                while self._bell.recv(4096):
                    pass
        if self._ears is not None and (ears in ready or ears < 0):
            self._ears.drain()  # deaf ones too: that is when they see to a lost connection
            self._heard |= ears in ready

    def wake(self) -> None:
        """End the wait; safe in a signal handler."""
        with contextlib.suppress(OSError):  # full: it is awake already; closed: it is over
            if self._button is not None:
                self._button.send(b"!")

    def rouse(self) -> None:
        """End the wait of who rests, once."""
        self.is_asleep = False
        self.wake()

    def back_off(self) -> None:
        """Wait a little after trouble, longer each time."""
        self._trouble = min(_LONGEST_WAIT, max(0.05, self._trouble * 2))
        self._wait(self._trouble)
