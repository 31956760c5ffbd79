"""The numbers of a stream since it was made, for `get_metrics`."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping


class Tally:
    """Counts from many threads; what is switched off counts nothing and shows nothing."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._categories: Counter[str] = Counter()
        self._slowest = 0.0
        self._spent = 0.0

    def add(self, *names: str) -> None:
        """Count one of each."""
        if self.enabled:
            with self._lock:
                self._counts.update(names)

    def attempt(self, seconds: float, category: str | None) -> None:
        """Count one try, how long it took, and the category it failed with."""
        if not self.enabled:
            return
        with self._lock:
            self._counts["attempts"] += 1
            self._spent += seconds
            self._slowest = max(self._slowest, seconds)
            if category is not None:
                self._categories[category] += 1

    def snapshot(self) -> Mapping[str, object]:
        """Give all numbers as they are now; empty when switched off."""
        if not self.enabled:
            return {}
        with self._lock:
            counts, attempts = self._counts, self._counts["attempts"]
            ended = counts["succeeded"] + counts["dead_lettered"] + counts["not_kept"]
            return {
                "emitted": counts["emitted"],
                "succeeded": counts["succeeded"],
                "recovered": counts["recovered"],
                "retries": counts["retries"],
                "dead_lettered": counts["dead_lettered"],
                "not_kept": counts["not_kept"],
                "attempts": attempts,
                "failures_by_category": dict(self._categories),
                "success_rate": round(counts["succeeded"] / ended, 4) if ended else None,
                "average_latency_ms": round(self._spent / attempts * 1000, 3) if attempts else None,
                "longest_latency_ms": round(self._slowest * 1000, 3) if attempts else None,
            }
