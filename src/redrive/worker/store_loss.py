"""Find out that a worker's store is gone for good: then only opening it again can help.

A server that does not answer is waited for: it comes back by itself. A file that was replaced,
removed or cut does not: an open connection refuses the right file too once it is back.
"""

from __future__ import annotations

import time

from redrive.errors import StoreDamaged, StoreError, StoreForeign, StoreLost, StoreMissing

_PATIENCE = 5.0
"""Seconds that a store has to come back: somebody may move it away and back."""
_ANYWHERE = (StoreMissing, StoreForeign)
_FILES = (*_ANYWHERE, StoreLost, StoreDamaged)


class StoreLoss:
    """The errors of a store since the last round in which it worked."""

    def __init__(self, *, is_server: bool) -> None:
        self._kinds = _ANYWHERE if is_server else _FILES
        self._since: float | None = None

    @property
    def is_suspected(self) -> bool:
        """Whether the last round failed in a way that may be for good."""
        return self._since is not None

    def worked(self) -> None:
        """Note that a round succeeded."""
        self._since = None

    def failed(self, error: StoreError) -> bool:
        """Note an error; return True if the store has been gone for too long to come back."""
        now = time.monotonic()
        if not isinstance(error, self._kinds):
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        return now - self._since > _PATIENCE
