"""What a store tells about itself: its size and schema, and what `verify` finds in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple


class Problem(NamedTuple):
    """Something wrong that `verify` found, where, and what to do."""

    where: str
    what: str
    remedy: str


class Report(NamedTuple):
    """What `verify` looked at and found."""

    jobs: int
    problems: list[Problem]
    facts: dict[str, str]
    """Figures and settings for people: version, size, durability, path."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


class Reports(ABC):
    """The part of the contract in which a store describes itself."""

    schema: int | None = None
    """The version of its tables or lines; None for memory."""

    def size(self) -> int | None:
        """Return how many bytes it takes on disk, by a question that is cheap; None for memory."""
        return None

    @abstractmethod
    def verify(self) -> Report:
        """Look at everything that is stored and say what is wrong. Changes nothing."""
