"""A format of another program is a mapping, a shape to know its records by, and a few hooks.

A hook is a named function for what a mapping cannot say: `prepare` completes a record before it is
read, `read` changes what it tells, `wrote` changes the record that an export writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from redrive.desk.transfer.formats import fields, record, times
from redrive.desk.transfer.formats.fields import Fields, Raw
from redrive.desk.transfer.formats.record import EXTRA, Draft, Format, Line, TransferOptions
from redrive.desk.transfer.mapping import FieldMapping, put
from redrive.desk.transfer.rules import COUNTS, ERRORS, TARGETS, TIMES, Rule, at, form_and_zone
from redrive.jobs.job import Job, State

_PART: Final = dict(zip(ERRORS, ("message", "type", "code", "traceback", "category"), strict=True))
_ALIKE: Final = {
    State.PENDING: (State.PENDING,),
    State.RUNNING: (State.PENDING,),
    State.DEAD: (State.DEAD,),
    State.COMPLETED: (State.COMPLETED, State.RESOLVED),
    State.RESOLVED: (State.RESOLVED, State.COMPLETED),
}
"""Which states a record may write alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration(FieldMapping):
    """A mapping that is also used backwards: a job is written as the record it would be made of."""

    words: Mapping[State, str] = field(default_factory=dict[State, str])
    """How states go out that the value map does not tell."""
    one_way: frozenset[str] = frozenset()
    """Fields that are read and not written."""

    def row(self, job: Job, asked: TransferOptions) -> Fields:
        """Write a job as the record that it would be made of."""
        row: Fields = {}
        for rule in self.rules.values():
            if rule.name not in self.one_way and at(row, rule.paths[0]) is None:
                put(row, rule.paths[0], self._out(rule, job, asked))
        return row

    def word(self, state: State) -> str | None:
        """Return how the records write a state."""
        if state in self.words:
            return self.words[state]
        values = self.rules["state"].values.items() if "state" in self.rules else ()
        known = ((TARGETS[name][0], word) for word, name in values if name in TARGETS)
        words = dict(reversed([*known]))
        return next((words[like] for like in _ALIKE[state] if like in words), None)

    def known(self) -> Fields:
        """Return the names of the fields that are mapped, as `fields.rest` takes them."""
        known: Fields = {EXTRA: None}
        for rule in self.rules.values():
            for path in rule.paths if rule.name not in self.one_way else ():
                put(known, path, None)
        return known

    def _out(self, rule: Rule, job: Job, asked: TransferOptions) -> object:
        name = rule.name
        if name in TIMES:
            return _time_out(getattr(job, name.replace("failed_at", "first_failed")), rule, asked)
        if name in COUNTS:
            counts = (job.attempts, sum(job.spent.values()), job.max_attempts)
            return max(0, counts[COUNTS.index(name)] - int(rule.option or 0))
        if name in ERRORS:
            failed = (one.failure for one in reversed(job.history) if one.failure is not None)
            failure = next(failed, job.failure)
            return str(getattr(failure, _PART[name]) or "") or None if failure else None
        if rule.field[0] == "payload":
            member = ".".join(rule.field[1:])
            return record.members_of(job)[member] if member else Raw(job.payload)
        if name == "state":
            return self.word(job.state)
        origin = record.origin_of(job, self.name)
        return origin.get("key", origin.get("id", job.id)) if name == "key" else job.handler


def _time_out(at: float | None, rule: Rule, asked: TransferOptions) -> object:
    form = form_and_zone(rule.option)[0]
    if at is None:
        return None
    if form == "naive":
        return asked.naive(at)
    if form not in times.UNITS:
        return times.iso(at)
    number = round(at * times.UNITS[form], 3)
    return Raw(int(number) if number.is_integer() else number)


def has_shape(text: str) -> Callable[[Fields], bool]:
    """Return the check that a record has these fields; those that end with {} must be objects."""
    names = text.split()
    return lambda value: all(
        isinstance(value.get(name[:-2]), dict) if name.endswith("{}") else name in value
        for name in names
    )


def declared(
    mapping: Declaration,
    fits: Callable[[Fields], bool],
    *,
    prepare: Callable[[Line], Line] = lambda line: line,
    read: Callable[[Draft, Line], None] = lambda _draft, _line: None,
    wrote: Callable[[Job, Fields], Fields] = lambda _job, _row: {},
    **more: Any,
) -> Format:
    """Make a format; `wrote` returns what of a job the field `redrive` has to hold besides."""

    def job(lines: Sequence[Line], asked: TransferOptions) -> Job:
        line = prepare(lines[-1])
        draft = mapping.draft(line, asked)
        read(draft, line)
        draft.failings = mapping.failings(draft, line.value)
        return job_of(mapping, draft, [line], asked)

    def write(job: Job, asked: TransferOptions) -> Iterator[Fields]:
        row = mapping.row(job, asked)
        yield complete(mapping, job, row, **wrote(job, row))

    functions: dict[str, Any] = {"job": job, "write": record.each(write), **more}
    return Format(name=mapping.name, fits=fits, **functions)


def job_of(
    mapping: Declaration,
    draft: Draft,
    lines: Sequence[Line],
    asked: TransferOptions,
    known: Fields | None = None,
) -> Job:
    """Make the job that lines tell of; fields that nobody knows stay with it."""
    if draft.created is None:
        raise ValueError(f"{'.'.join(mapping.rules['created'].paths[0])} is missing")
    left: Fields = {}
    for line in lines:
        left = {**left, **fields.rest(line.value, known or mapping.known())}
    draft.origin = {**draft.origin, "fields": left}

    def is_same(state: State) -> bool:
        is_written = draft.value is not None and mapping.word(state) == draft.value
        return state is draft.state or is_written

    return record.made(
        draft, asked, lines[-1].value.get(EXTRA), format=mapping.name, is_same=is_same
    )


def complete(mapping: Declaration, job: Job, row: Fields, **more: object) -> Fields:
    """Return a record with what the format has no place for, and the fields that nobody knows."""
    row[EXTRA] = record.beside(job, mapping.constants["handler"], **more)
    return fields.joined(row, record.origin_of(job, mapping.name).get("fields") or {})
