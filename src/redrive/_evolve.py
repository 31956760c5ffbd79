"""Jobs with some fields changed, and jobs from their values, both fast.

`dataclasses.replace` and the constructor of a frozen class set every field by a call; that was half
the time of claiming and settling a job. Here a twin with the same slots is filled by plain
assignment and then becomes a job. Nobody else ever sees the twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from redrive.job import Job

FIELDS = tuple(field.name for field in fields(Job))
"""The fields of a job in their order."""


class _Open:
    """A job that can still be written to: the same slots, so its class can be changed."""

    __slots__ = FIELDS


def _compile() -> tuple[Callable[..., Job], Callable[..., Job]]:
    """Write both functions out field by field, as `dataclasses` does for its own."""
    source = [
        f"def job_of({', '.join(FIELDS)}):",
        "    new = create(Open)",
        *(f"    new.{name} = {name}" for name in FIELDS),
        "    new.__class__ = Job",
        "    return new",
        "def evolve(job, /, **changes):",
        "    new = create(Open)",
        *(f"    new.{name} = job.{name}" for name in FIELDS),
        "    for name, value in changes.items():",
        "        setattr(new, name, value)",
        "    new.__class__ = Job",
        "    return new",
    ]
    made: dict[str, Any] = {"Open": _Open, "Job": Job, "create": object.__new__}
    exec("\n".join(source), made)  # noqa: S102 - the text above, and the names of our own fields
    return made["job_of"], made["evolve"]


# Given out as they are: a wrapper with a signature of its own would cost a third more.
job_of, evolve = _compile()
"""`job_of(*values)` makes a job of the values of all FIELDS, in their order; `evolve(job, due=5.0)`
gives a copy with these fields changed."""
