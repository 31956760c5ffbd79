"""A format of another program is a mapping, a shape to know its records by, and a few hooks.

A hook is a named function for what a mapping cannot say: `prepare` completes a record before it is
read, `read` changes what it tells, `wrote` changes the record that an export writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from redrive.desk.transfer.formats import fields, record
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.record import EXTRA, Asked, Format, Line, Told
from redrive.desk.transfer.mapping import FieldMapping
from redrive.jobs.job import Job


def has_shape(text: str) -> Callable[[Fields], bool]:
    """Return the check that a record has these fields; those that end with {} must be objects."""
    names = text.split()

    def fits(value: Fields) -> bool:
        return all(
            isinstance(value.get(name[:-2]), dict) if name.endswith("{}") else name in value
            for name in names
        )

    return fits


def declared(
    mapping: FieldMapping,
    fits: Callable[[Fields], bool],
    *,
    prepare: Callable[[Line], Line] = lambda line: line,
    read: Callable[[Told, Line], None] = lambda _told, _line: None,
    wrote: Callable[[Job, Fields], Fields] = lambda _job, _row: {},
    **more: Any,
) -> Format:
    """Make a format; `wrote` returns what of a job the field `redrive` has to hold besides."""

    def job(lines: Sequence[Line], asked: Asked) -> Job:
        line = prepare(lines[-1])
        told = mapping.told(line, asked)
        read(told, line)
        told.failings = mapping.failings(told, line.value)
        return job_of(mapping, told, [line], asked)

    def write(job: Job, asked: Asked) -> Iterator[Fields]:
        row = mapping.row(job, asked)
        yield complete(mapping, job, row, **wrote(job, row))

    functions: dict[str, Any] = {"job": job, "write": record.each(write), **more}
    return Format(name=mapping.name, fits=fits, **functions)


def job_of(
    mapping: FieldMapping,
    told: Told,
    lines: Sequence[Line],
    asked: Asked,
    known: Fields | None = None,
) -> Job:
    """Make the job that lines tell of; fields that nobody knows stay with it."""
    if told.created is None:
        raise ValueError(f"{'.'.join(mapping.rules['created'].paths[0])} is missing")
    left: Fields = {}
    for line in lines:
        left = {**left, **fields.rest(line.value, known or mapping.known())}
    told.origin = {**told.origin, "fields": left}
    return record.made(
        told,
        asked,
        lines[-1].value.get(EXTRA),
        format=mapping.name,
        is_same=lambda state: state is told.state or mapping.word(state) == told.value,
    )


def complete(mapping: FieldMapping, job: Job, row: Fields, **more: object) -> Fields:
    """Return a record with what the format has no place for, and the fields that nobody knows."""
    row[EXTRA] = record.beside(job, mapping.constants["handler"], **more)
    return fields.joined(row, record.origin_of(job, mapping.name).get("fields") or {})
