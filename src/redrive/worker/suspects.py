"""Jobs that crashed before: one at a time, in a child or while nothing else runs here (ADR 8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from redrive.attempts.leases import ALONE, Task
from redrive.worker.dispatch import Hands

EVERY = 1.0
"""Seconds between two looks for suspects, while there are none."""


class Suspects:
    """The suspect that a worker holds; `claim` takes some, `busy` is how many tasks the worker has."""

    def __init__(
        self, hands: Hands, claim: Callable[[int], list[Task]], busy: Callable[[], int]
    ) -> None:
        self._hands = hands
        self._claim = claim
        self._busy = busy
        self._task: Task | None = None
        self._runs = False
        self._since = 0.0
        self._not_before = 0.0
        self._may_be_more = False

    @property
    def is_pressing(self) -> bool:
        """Whether to look again at once: one waits to be alone, or another may be due."""
        return self._may_be_more or (self._task is not None and not self._runs)

    @property
    def must_be_alone(self) -> bool:
        """Whether a suspect runs, or is to run, in this very process.

        Not for ever: one that never ends must not stop all the others.
        """
        return (
            self._task is not None
            and not self._hands.is_apart(self._task)
            and time.monotonic() - self._since < ALONE
        )

    def take(self) -> None:
        """Take one; it runs in a child, or here when nothing else does."""
        now = time.monotonic()
        self._pass_over(now)
        if self._task is None and now >= self._not_before:
            self._task = next(iter(self._claim(1)), None)
            self._since = now
            self._may_be_more = False
        if self._task is None or self._runs:
            return
        if self._hands.is_apart(self._task) or self._busy() == 1:
            self._runs = True
            self._hands.put([self._task])
        elif now - self._since > ALONE:  # it had its chance; now it is the turn of all the others
            self._not_before = now + 2 * ALONE
            self._give_back(ALONE)

    def _pass_over(self, now: float) -> None:
        """Let the next one have its turn beside one that works for long in a child."""
        is_apart = self._task is not None and self._hands.is_apart(self._task)
        if is_apart and self._runs and now - self._since > ALONE:
            self._task, self._runs = None, False

    def settled(self, tasks: Collection[Task]) -> None:
        """Note which tasks have ended."""
        if self._task in tasks:
            self._task, self._runs = None, False
            self._may_be_more = True

    def drain(self) -> None:
        """Return one that did not begin."""
        if self._task is not None and not self._runs:
            self._give_back(None)

    def _give_back(self, delay: float | None) -> None:
        assert self._task is not None  # noqa: S101 - asked before
        self._runs = True
        self._hands.give_back(self._task, delay=delay)
