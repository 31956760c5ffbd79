"""The mark of a group: what people and runs noted about it. It is stored as a note.

A group that is marked as resolved and kills again has regressed: its newest death is younger than the
mark.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

PREFIX = "group:"
"""What the names of these notes begin with; the number follows."""

Status = Literal["open", "resolved", "regressed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What was noted about a group, by whom and when."""

    resolved: float | None = None
    """When it was marked as resolved; None while it is open."""
    by: str = ""
    """A person, or a run such as R12."""
    reason: str = ""
    note: str = ""
    noted: float | None = None
    noted_by: str = ""

    def status(self, last_seen: float | None) -> Status:
        """Return the status of a group whose newest dead job died at `last_seen`."""
        if self.resolved is None:
            return "open"
        return "regressed" if last_seen is not None and last_seen > self.resolved else "resolved"

    def dump(self) -> str:
        """Return the text of the note."""
        return json.dumps(asdict(self))


def load(text: str) -> Mark:
    """Read the text of a note; text of another program becomes the `note` of a mark."""
    try:
        value = cast("dict[str, Any]", json.loads(text))
        return Mark(**{name: value[name] for name in Mark.__annotations__ if name in value})
    except (ValueError, TypeError):
        return Mark(note=text)
