"""Hearing that something may be due, without asking the store again and again."""

from __future__ import annotations

from typing import Protocol


class HintListener(Protocol):
    """Hears that something may be due. Hints may be lost or heard twice: look now and then anyway.

    A forked child is deaf: it listens for itself.
    """

    def fileno(self) -> int:
        """Return the descriptor to poll for reading: ask before each poll; -1 while nothing is heard."""
        ...

    def drain(self) -> None:
        """Take in the hints that came, then look. It never waits and never raises.

        Called now and then, hint or not, it hears again after a lost connection.
        """

    def close(self) -> None:
        """Hear no more; twice is fine."""
