"""What `verify` finds in a store."""

from __future__ import annotations

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
