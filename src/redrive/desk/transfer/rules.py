"""The grammar of mappings: `FIELD=COLUMN,COLUMN:OPTION`, read from text.

A column is a name or a path into JSON (`error.message`, `tries.-1.at`); one with odd characters stands
in double quotes. An option is a value map (`failed=dead,*=pending`), a shift of a number (`+1`), a
format of times with a zone (`%Y/%m/%d@Asia/Tokyo`), or `json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

from redrive.desk.transfer.formats import times
from redrive.desk.transfer.formats.fields import Fields
from redrive.errors import UsageError
from redrive.jobs.job import Reason, State

TIMES: Final = ("created", "updated", "due", "finished", "failed_at", "first_failed", "died_at")
COUNTS: Final = ("attempts", "failures", "max_attempts")
ERRORS: Final = ("error", "error.type", "error.code", "error.trace", "error.category")
FIELDS: Final = ("key", "payload", "handler", "state", "tags", *COUNTS, *ERRORS, *TIMES)
"""What can be mapped; `payload.NAME` too."""
SKIP, BY_ATTEMPTS = "skip", "by_attempts"
TARGETS: Final[Mapping[str, tuple[State, Reason | None]]] = {
    "pending": (State.PENDING, None),
    "completed": (State.COMPLETED, Reason.DONE),
    "resolved": (State.RESOLVED, Reason.RESOLVED),
    "dead": (State.DEAD, Reason.EXHAUSTED),
    "dead.permanent": (State.DEAD, Reason.PERMANENT),
    "dead.expired": (State.DEAD, Reason.EXPIRED),
}
STATES: Final = (*TARGETS, BY_ATTEMPTS, SKIP)
"""What a state can be mapped to: `by_attempts` is pending while attempts are left, else dead."""
_PART: Final = r'"((?:[^"]|"")*)"'
_NAME = re.compile(rf'{_PART}|([^".,:=]+)')
_VALUE: Final = rf'(?:{_PART}|([^",=]*))'
_PAIR = re.compile(rf"{_VALUE}={_VALUE}(?:,|$)")
_CONDITION = re.compile(rf'((?:{_PART}|[^"=!])+)(!?=)(.*)', re.DOTALL)
_SHIFT = re.compile(r"[+-]\d{1,9}")
NUMBER = re.compile(r"\s*[+-]?\d{1,18}(?:\.\d{1,9})?\s*")
_SHORTEST_EPOCH: Final = 9
_ALL_DIGITS: Final = re.compile(r"(?:%[YymdHMSfj])+")
_INDEX = re.compile(r"-?\d{1,9}")
_FORMS: Final = {"", "auto", "iso", "naive", *times.UNITS}

Path = tuple[str, ...]


class Rule(NamedTuple):
    """One field: the places it may stand in, and how its value is read."""

    field: Path
    paths: tuple[Path, ...] = ()
    """The first that has a value counts; a key and tags are made of all of them."""
    values: Mapping[str, str] = {}
    """What each value becomes; `*` stands for all others (`*=*`: as they are), empty for no value."""
    option: str = ""
    """A shift of a number, a format of times with a zone, or `json`."""

    @property
    def name(self) -> str:
        """The field as it is written."""
        return ".".join(self.field)

    def raw(self, record: Fields) -> object:
        """Return the first value that there is, as the record has it."""
        return next(filter(is_there, (at(record, path) for path in self.paths)), None)

    def value(self, record: Fields) -> object:
        """Return the first value that there is, as the value map has it."""
        found = self.raw(record)
        if not self.values:
            return found
        word = word_of(found)
        known = self.values.get(word, None if found is None else self.values.get("*"))
        if known == "*" or (known is None and found is None):
            return found
        if known is None:
            places = ", ".join(map(written, self.paths))
            raise ValueError(f"{self.name}: {word!r} in {places} is not mapped; add {word}=…")
        return known


class Condition(NamedTuple):
    """A record is kept if a place has one of these values, or none of them."""

    path: Path
    words: frozenset[str]
    is_wanted: bool

    def holds(self, record: Fields) -> bool:
        """Return True if a record is kept."""
        return (word_of(at(record, self.path)) in self.words) is self.is_wanted


def is_there(value: object) -> bool:
    """Return True unless a value is null or an empty text, which is what CSV has for null."""
    return value is not None and value != ""


def word_of(value: object) -> str:
    """Return a value as value maps and filters have it: no value is an empty text."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def at(value: object, path: Path) -> object:
    """Return what stands at a path; a name with dots may be one column. None if nothing is there."""
    if len(path) == 1 and type(value) is dict:  # most are columns of a table
        return cast("Fields", value).get(path[0])
    if len(path) > 1 and (found := _inner(value, ".".join(path))) is not None:
        return found
    for name in path:
        inner = parsed(value) if isinstance(value, str) else value
        if is_there(value) and not _has_names(inner, name):
            raise ValueError(f"{written(path)}: {name} must stand in an object; found {value!r}")
        value = _inner(inner, name)
    return value


def _has_names(value: object, name: str) -> bool:
    """Return True for an object, and for a list if the name is a number."""
    return type(value) in ((dict, list) if _INDEX.fullmatch(name) else (dict,))


def _inner(value: object, name: str) -> object:
    if isinstance(value, dict):
        return cast("Fields", value).get(name)
    items = cast("list[object]", value) if isinstance(value, list) else []
    is_item = _INDEX.fullmatch(name) and -len(items) <= int(name) < len(items)
    return items[int(name)] if is_item else None


def parsed(text: str) -> object:
    """Return what JSON text holds; None for what is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def written(path: Path) -> str:
    """Write a path as it is read."""
    return ".".join(quoted(name, ".,:=") if name else '""' for name in path)


def quoted(text: str, odd: str) -> str:
    """Put text with a quote or one of these characters into double quotes."""
    return '"' + text.replace('"', '""') + '"' if {*text} & {'"', *odd} else text


def form_and_zone(option: str) -> tuple[str, str]:
    """Take the option of a time apart."""
    form, sign, zone = option.rpartition("@")
    return (form, zone) if sign else (option, "")


def moment(value: object, option: str, default: times.Zone | None) -> float:
    """Read a time in a format (`s`, `ms`, `us`, `ns`, or one of strptime), `@` its zone.

    Beside a format of strptime, a column may have ISO 8601 and numbers since 1973.
    """
    form, name = form_and_zone(option)
    named = times.zone_of(name) if name else None
    zone = (lambda: named) if name else default or times.no_zone
    if isinstance(value, str) and "%" in form:
        try:
            return times.moment(value, zone, form)
        except times.NaiveTime:
            raise
        except ValueError:
            pass
        is_short = len(value.strip()) < _SHORTEST_EPOCH
        if NUMBER.fullmatch(value) and (is_short or _ALL_DIGITS.fullmatch(form)):
            raise ValueError(f"is not a time in the format {form}: {value!r}")
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = float(value) if "." in value else int(value)
    return times.moment(value, zone, "" if "%" in form else form)


def rule_of(text: str) -> Rule:
    """Read one rule."""
    names, end = _path(text, 0)
    if text[end : end + 1] != "=":
        raise UsageError(f"{text!r} is not a mapping; write FIELD=COLUMN, such as payload=body")
    check_field(names)
    paths: list[Path] = []
    while not paths or text[end : end + 1] == ",":
        path, end = _path(text, end + 1)
        paths.append(path)
    if end < len(text) and text[end] != ":":
        raise UsageError(
            f"{text!r} cannot be read from {text[end:]!r} on; put a column with odd characters in"
            " double quotes"
        )
    rule = Rule(names, tuple(paths))
    return _with_option(rule, text[end + 1 :]) if text[end + 1 :] else rule


def _path(text: str, start: int) -> tuple[Path, int]:
    names: list[str] = []
    while (match := _NAME.match(text, start)) is not None:
        names.append(_unquoted(*match.groups()))
        start = match.end()
        if text[start : start + 1] != ".":
            return tuple(names), start
        start += 1
    raise UsageError(f"{text!r} lacks the name of a column at {text[start:]!r}")


def _unquoted(quoted: str | None, bare: str | None) -> str:
    return (bare or "") if quoted is None else quoted.replace('""', '"')


def check_field(names: Path) -> None:
    """Refuse what is no field of a job."""
    name = ".".join(names)
    if name not in FIELDS and not (names[0] == "payload" and len(names) > 1):
        raise UsageError(
            f"{name!r} is not a field of a job; use one of {', '.join(FIELDS)}, or payload.NAME"
        )


def _with_option(rule: Rule, option: str) -> Rule:
    name, why = rule.name, ""
    if name in TIMES:
        form, zone = form_and_zone(option)
        if form not in _FORMS and "%" not in form:
            why = f"use {', '.join(times.UNITS)}, or a format such as %Y/%m/%d %H:%M"
        times.zone_of(zone or "UTC")
    elif name in COUNTS:
        why = "" if _SHIFT.fullmatch(option) else "write a number to add, such as +1"
    elif rule.field[0] == "payload":
        is_known = option in {"json", "text"} and len(rule.field) > 1
        why = "" if is_known else "payload.NAME has the options json and text"
    else:
        return rule._replace(values=_values(name, option))
    if why:
        raise UsageError(f"{option!r} is no option of {name}; {why}")
    return rule._replace(option=option)


def _values(name: str, text: str) -> Mapping[str, str]:
    """Read `a=b,c=d`; a part with a comma or an equals sign stands in double quotes."""
    values = dict(_pairs(text))
    if name == "state" and (wrong := {*values.values()} - {*STATES}):
        raise UsageError(
            f"state cannot be {', '.join(sorted(wrong))}; use one of {', '.join(STATES)}"
        )
    return values


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    start = 0
    while start < len(text):
        match = _PAIR.match(text, start)
        if match is None:
            raise UsageError(
                f"{text[start:]!r} is not a value map; write VALUE=WORD,VALUE=WORD, and a column"
                " whose name has a colon in double quotes"
            )
        yield _unquoted(match[1], match[2]), _unquoted(match[3], match[4])
        start = match.end()


def condition_of(text: str) -> Condition:
    """Read a filter: `COLUMN=VALUE,VALUE` or `COLUMN!=VALUE`."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a filter; write COLUMN=VALUE,VALUE or COLUMN!=VALUE")
    path, end = _path(match[1], 0)
    if end != len(match[1]):
        raise UsageError(f"{match[1]!r} is not a column; put odd characters in double quotes")
    return Condition(path, frozenset(match[4].split(",")), match[3] == "=")


def pair_of(text: str) -> tuple[str, str]:
    """Read a constant: `FIELD=VALUE`."""
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"{text!r} has no =; write FIELD=VALUE, such as state=dead")
    return name, value
