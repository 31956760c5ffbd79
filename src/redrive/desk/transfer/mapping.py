"""Mappings: which column or JSON path of a record becomes which field of a job, as declared in text.

    payload=body    attempts=retry_count    state=st:failed=dead,waiting=pending

The same text stands on the command line (`--map`), in `redrive.toml` and in Python. Other programs'
formats are such declarations too (`formats`), and an export uses them backwards.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast

from redrive.desk.transfer.formats import fields, record, times
from redrive.desk.transfer.formats.failings import Failing, failing
from redrive.desk.transfer.formats.fields import Fields, Raw
from redrive.desk.transfer.formats.pieces import MORE, Piece
from redrive.desk.transfer.formats.quarantine import QUARANTINED
from redrive.desk.transfer.formats.record import Draft, Format, Line, TransferOptions
from redrive.desk.transfer.rules import (
    BY_ATTEMPTS,
    COUNTS,
    ERRORS,
    NUMBER,
    SKIP,
    STATES,
    TARGETS,
    TIMES,
    Condition,
    Path,
    Rule,
    at,
    check_field,
    condition_of,
    is_there,
    moment,
    pair_of,
    parsed,
    rule_of,
    word_of,
    written,
)
from redrive.errors import UsageError
from redrive.jobs.job import Job, State

_ERROR_LINE = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: (.*))?", re.DOTALL)
_SHOWN: Final = 30
_DAY: Final = 86400
_PAST: Final = tuple(name for name in TIMES if name != "due")
_NEEDED: Final = {
    "key": "the mapping names no key, so a second import would add every row again; add"
    " --map key=COLUMN, with a column that tells the rows apart, such as id",
    "payload": "the mapping names no payload; add --map payload=COLUMN for a column with a JSON"
    " object, --map payload.NAME=COLUMN for its members, or --map payload='*' for all columns",
    "state": "the mapping names no state; add --map state=COLUMN:failed=dead,waiting=pending, or"
    " --set state=dead or --set state=pending for all rows",
    "handler": "the mapping names no handler; add --handler NAME, or --map handler=COLUMN",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMapping:
    """What the fields of a source mean. Make one with `FieldMapping.of`."""

    name: str
    """Part of every key, so that two sources may count their rows alike."""
    rules: Mapping[str, Rule]
    constants: Mapping[str, str] = field(default_factory=dict[str, str])
    """What holds where a record has no value."""
    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        map: Mapping[str, str | Sequence[str]] | Iterable[str],  # noqa: A002 - the word for it
        *,
        set: Mapping[str, object] | Iterable[str] = (),  # noqa: A002
        where: Iterable[str] = (),
        **more: Any,
    ) -> Self:
        """Read a mapping: `FieldMapping.of("emails", {"key": "id", "payload": "body", …})`."""
        rules: dict[str, Rule] = {}
        for rule in [rule_of(text) for text in _texts(map)]:
            before = rules[rule.name].paths if rule.name in rules else ()
            rules[rule.name] = rule._replace(paths=before + rule.paths)
        given: Mapping[str, object] = (
            cast("Mapping[str, object]", set)
            if isinstance(set, Mapping)
            else dict(pair_of(text) for text in set)
        )
        constants = {field: word_of(value) for field, value in given.items()}
        for constant in constants:
            check_field(tuple(constant.split(".")))
        if constants.get("state", "dead") not in STATES:
            raise UsageError(
                f"state cannot be {constants['state']!r}; use one of {', '.join(STATES)}"
            )
        return cls(
            name=name,
            rules=rules,
            constants=constants,
            conditions=tuple(condition_of(text) for text in where),
            **more,
        )

    def check(self, handler: str | None = None) -> None:
        """Refuse a mapping that lacks what every job needs, with the option that helps."""
        there = {*self.rules, *self.constants, *(["handler"] if handler else [])}
        there |= {"payload" for name in there if name.startswith("payload.")}
        for name, why in _NEEDED.items():
            if name not in there:
                raise UsageError(why)

    @property
    def may_be_pending(self) -> bool:
        """True if a record can become a pending job."""
        rule = self.rules.get("state")
        words = {*(rule.values.values() if rule else ()), self.constants.get("state", "dead")}
        return (rule is not None and not rule.values) or bool(words & {"pending", BY_ATTEMPTS})

    def paths(self) -> set[Path]:
        """Return the places that are read."""
        paths = {path for rule in self.rules.values() for path in rule.paths if path != ("*",)}
        return paths | {condition.path for condition in self.conditions}

    def check_columns(self, piece: Piece) -> None:
        """Refuse a mapping whose columns are not in the first record."""
        value = parsed(piece.raw.decode(errors="replace"))
        if not isinstance(value, dict) or value.keys() == QUARANTINED:
            return
        columns, paths = list(cast("Fields", value)), self.paths()
        missing = sorted(
            written(path) for path in paths if not {path[0], ".".join(path)} & {*columns}
        )
        if missing and (piece.is_row or len(missing) == len(paths)):
            names = ", ".join(columns[:_SHOWN]) + (", …" if len(columns) > _SHOWN else "")
            inside = "" if piece.is_row else "; name the list of records inside with --records NAME"
            raise UsageError(
                f"no such column in {self.name}: {', '.join(missing)}; it has: {names}{inside}"
            )

    def leaves_out(self, value: Fields) -> str:
        """Return why a record is left out on purpose; an empty text for one that is not."""
        for condition in self.conditions:
            if not condition.holds(value):
                return f"the filter on {written(condition.path)} leaves it out"
        return "its state is mapped to skip" if self._value("state", value) == SKIP else ""

    def format(self) -> Format:
        """Return this mapping as the importer takes it."""
        return Format(
            name=self.name,
            fits=lambda _: True,
            job=lambda lines, asked: self.job(lines[-1], asked),
            ignores=self.leaves_out,
            is_mapped=True,
        )

    def job(self, line: Line, asked: TransferOptions) -> Job:
        """Make a job of a record; its id depends on its key alone."""
        draft = self.draft(line, asked)
        for name in _PAST if asked.now else ():
            if (at_time := getattr(draft, name)) is not None and at_time > asked.now + _DAY:
                raise ValueError(f"{name} is in the future: {times.iso(at_time)}")
        draft.failings = self.failings(draft, line.value)
        name = f"{self.name}\0{draft.ident}"
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        row = hashlib.sha256(_canonical(line.value).encode()).hexdigest()[:20]
        draft.origin = {**draft.origin, "row": row}
        draft.moment = int.from_bytes(digest[-5:]) / 1000
        return record.made(draft, asked, None, format=self.name)

    def draft(self, line: Line, asked: TransferOptions) -> Draft:
        """Read a record."""
        value = line.value
        if isinstance(value.get(MORE), list):
            raise ValueError(f"has values without a column: {value[MORE]!r}")  # noqa: TRY004
        made, failed, most = self._counts(value)
        state, reason = TARGETS[self._target(value, failed if made is None else made, most)]
        is_done = state is State.COMPLETED
        key = self._key(value)
        draft = Draft(
            ident=str(key[0]) if len(key) == 1 else json.dumps(key, ensure_ascii=False),
            handler=str(self._value("handler", value) or asked.handler or ""),
            payload=self._payload(line),
            state=state,
            reason=reason,
            value=self.rules["state"].raw(value) if "state" in self.rules else None,
            attempts=failed + is_done if made is None else made,
            failed=failed if made is None else max(0, made - is_done),
            max_attempts=most,
            tags=tuple(dict.fromkeys(map(record.fit_name, self._tags(value)))),
            origin={"key": key[0]} if [type(part) for part in key] == [int] else {},
        )
        for name in TIMES:
            if name in self.rules or name in self.constants:
                setattr(draft, name, self._time(name, value, asked))
        return draft

    def failings(self, draft: Draft, value: Fields) -> list[Failing]:
        """Return the failure that a record tells of, if it does."""
        message, kind, code, trace, category = (
            word_of(self._value(name, value)) for name in ERRORS
        )
        if not (message or kind or code or trace or category or draft.failed_at is not None):
            return []
        if trace and not message:
            message, kind = _last_line(trace, kind)
        found = failing(
            draft.latest if draft.failed_at is None else draft.failed_at,
            message,
            draft.payload,
            kind=kind,
            code=code or None,
            stack=trace,
            category=category,
        )
        return [found]

    def _value(self, name: str, value: Fields) -> object:
        found = self.rules[name].value(value) if name in self.rules else None
        return self.constants.get(name) if found is None else found

    def _counts(self, value: Fields) -> tuple[int | None, int, int]:
        attempts, failures, most = (self._count(name, value) for name in COUNTS)
        return attempts, failures or 0, most or 0

    def pending_handlers(self, pieces: Iterable[Piece], asked: TransferOptions) -> Iterator[str]:
        """Yield the handler of each record that would become a pending job, without making it."""
        for piece in pieces:
            value = parsed(piece.raw.decode(errors="replace"))
            if isinstance(value, dict) and value.keys() == QUARANTINED:
                value = parsed(str(cast("Fields", value)["text"]))
            with suppress(ValueError, TypeError):
                row = cast("Fields", value if isinstance(value, dict) else {})
                made, failed, most = self._counts(row)
                if self.leaves_out(row):
                    continue
                if self._target(row, failed if made is None else made, most) == "pending":
                    named = str(self._value("handler", row) or "")
                    yield asked.handler or record.fit_name(named)

    def _target(self, value: Fields, made: int, most: int) -> str:
        """Return the state that a record is mapped to."""
        name = word_of(self._value("state", value))
        if not name and "state" in self.rules:
            places = ", ".join(map(written, self.rules["state"].paths))
            raise ValueError(f"{places} has no value; add =STATE to the values of state")
        if name == BY_ATTEMPTS:
            if not most:
                raise ValueError("max_attempts is missing, and the state depends on it")
            return "dead" if made >= most else "pending"
        if name not in TARGETS:
            raise ValueError(f"state cannot be {name!r}; map it to one of {', '.join(STATES)}")
        return name

    def _key(self, value: Fields) -> list[object]:
        paths = self.rules["key"].paths
        parts = [at(value, path) for path in paths]
        for path, part in zip(paths, parts, strict=True):
            if not is_there(part) or type(part) not in (str, int, float):
                raise ValueError(f"{written(path)} must be a text or a number; found {part!r}")
        return parts

    def _count(self, name: str, value: Fields) -> int | None:
        rule = self.rules.get(name)
        found = None if rule is None else rule.raw(value)
        shift = int(rule.option or 0) if rule and found is not None else 0
        number: object = self.constants.get(name) if found is None else found
        if isinstance(number, str) and NUMBER.fullmatch(number):
            number = float(number) if "." in number else int(number)
        if isinstance(number, float) and number.is_integer():  # as spreadsheets write it
            number = int(number)
        return None if number is None else max(0, fields.count(number, name) + shift)

    def _time(self, name: str, value: Fields, asked: TransferOptions) -> float | None:
        found = self._value(name, value)
        if found is None:
            return None
        try:
            option = self.rules[name].option if name in self.rules else ""
            return moment(found, option, asked.zone)
        except times.NaiveTime:
            raise
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name} {error}") from error

    def _tags(self, value: Fields) -> Iterator[str]:
        for path in self.rules["tags"].paths if "tags" in self.rules else ():
            found = at(value, path)
            tags = cast("list[object]", found) if isinstance(found, list) else [found]
            yield from filter(None, map(word_of, tags))
        yield from filter(None, self.constants.get("tags", "").split(","))

    def _payload(self, line: Line) -> str:
        """Return the payload: one value that is an object, or several put together."""
        parts = [rule for rule in self.rules.values() if rule.name.startswith("payload.")]
        constants = {
            name: text for name, text in self.constants.items() if name.startswith("payload.")
        }
        members: Fields = {}
        if "payload" in self.rules:
            text = _object(line, self.rules["payload"]) or self.constants.get("payload")
            if text is None:
                places = ", ".join(map(written, self.rules["payload"].paths))
                raise ValueError(f"payload is missing: {places} has no value")
            if not parts and not constants:
                return text
            members = {name: Raw(fields.cut(text, name)) for name in json.loads(text)}
        for name, text in constants.items():
            put(members, tuple(name.split(".")[1:]), text)
        for rule in parts:
            there = (path for path in rule.paths if at(line.value, path) is not None)
            path = next(there, rule.paths[0])
            if path[0] in line.value or ".".join(path) in line.value:
                put(members, rule.field[1:], _member(line, path, rule.option))
        return fields.written(members)


_canonical = json.JSONEncoder(sort_keys=True).encode


def mapped(pieces: Iterable[Piece], mapping: FieldMapping) -> Iterator[Piece]:
    """Pass on records, unless the first shows that the mapping is meant for others."""
    is_first = True
    for piece in pieces:
        if is_first and not piece.trouble:
            is_first = False
            mapping.check_columns(piece)
        yield piece


def _last_line(trace: str, kind: str) -> tuple[str, str]:
    """Return the message and the type of an error, which the last line of a traceback has."""
    line = (trace.strip().splitlines() or [""])[-1]
    named = _ERROR_LINE.fullmatch(line)
    return (line, kind) if kind or named is None else (named[2] or "", named[1])


def _object(line: Line, rule: Rule) -> str | None:
    if rule.paths == (("*",),):
        return line.text
    for path in rule.paths:
        found = at(line.value, path)
        if isinstance(found, dict):
            return _text(line, path, cast("object", found))
        if isinstance(found, str) and isinstance(parsed(found), dict):
            return found
        if is_there(found):
            name = written(path)
            raise ValueError(
                f"{name} holds no JSON object; map it as a member: --map payload.{name}={name}"
            )
    return None


def _member(line: Line, path: Path, option: str) -> object:
    value = at(line.value, path)
    if option == "json" and isinstance(value, str):
        if value and parsed(value) is None and value.strip() != "null":
            raise ValueError(f"{written(path)} is not JSON: {value!r}")
        return Raw(value or "null")
    if option == "text" and value is not None:
        return word_of(value)
    return Raw(_text(line, path, value))


def _text(line: Line, path: Path, value: object) -> str:
    """Return a value as JSON; numbers and objects as they are spelled in the record, if we can."""
    if isinstance(value, float | dict | list):
        try:
            return fields.cut(line.text, *path)
        except (ValueError, IndexError):  # a column with dots, an item of a list, text in text
            pass
    return json.dumps(value, ensure_ascii=False)


def put(members: Fields, path: Path, value: object) -> None:
    """Put a value at a path of an object."""
    for name in path[:-1]:
        inner: object = members.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{written(path)} would stand inside a value")  # noqa: TRY004
        members = cast("Fields", inner)
    members[path[-1]] = value


def _texts(map: Mapping[str, Any] | Iterable[str]) -> Iterator[str]:  # noqa: A002
    if not isinstance(map, Mapping):
        yield from map
        return
    for name, given in cast("Mapping[str, Any]", map).items():
        yield from (f"{name}={text}" for text in ([given] if isinstance(given, str) else given))
