"""Answers that all requests share for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")
_MOST = 500
"""How many answers are kept, at most."""
_RECENT = 60.0


class Shared:
    """Answers that all callers share for a while; one of them asks, the others wait for it."""

    def __init__(self) -> None:
        self._entries: dict[object, tuple[threading.Lock, float, Any]] = {}
        self._lock = threading.Lock()
        self._changes = 0

    def get(self, key: object, seconds: float | Callable[[T], float], ask: Callable[[], T]) -> T:
        """Return the answer of the last `seconds` (these may depend on it), or ask.

        Errors are not kept, nor is what was asked before a change.
        """
        with self._lock:
            changes = self._changes
            lock = self._entries.setdefault(key, (threading.Lock(), 0.0, None))[0]
            while len(self._entries) > _MOST:
                self._entries.pop(next(iter(self._entries)))
        with lock:
            _, ends, answer = self._entries.get(key, (lock, 0.0, None))
            if time.monotonic() >= ends:
                answer = ask()
                lasts = seconds(answer) if callable(seconds) else seconds
                with self._lock:
                    if changes == self._changes:
                        self._entries[key] = lock, time.monotonic() + lasts, answer
            return cast("T", answer)

    def last(self, key: object) -> Any:
        """Return the last answer if it is not a minute old, without asking; else None."""
        _, ends, answer = self._entries.get(key, (None, 0.0, None))
        return answer if time.monotonic() < ends + _RECENT else None

    def clear(self) -> None:
        """Forget all answers: something was changed."""
        with self._lock:
            self._changes += 1
            self._entries.clear()
