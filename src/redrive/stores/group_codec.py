"""A group's record as stores keep it: columns, and two sparse JSON texts.

One has what only deaths write, the other what only people write: a fold and a person who change one group
at the same time never overwrite each other. A field at its default is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from typing import Any, cast

from redrive.errors import UsageError
from redrive.jobs.groups import SET_BY_PEOPLE, GroupRecord
from redrive.stores._codec import check_types, encode

COLUMNS = ("number", "fingerprint", "title", "first_seen", "last_seen", "deaths", "version")
"""The fields that are columns; a fold writes `last_seen` and `deaths` of them, people `version`."""
BY_DEATHS = ("first_release", "last_release", "since", "regressed")
BY_PEOPLE = tuple(one.name for one in fields(GroupRecord) if one.name in SET_BY_PEOPLE)
_DEFAULTS = {one.name: one.default for one in fields(GroupRecord)}


def deaths_json(record: GroupRecord) -> str | None:
    """Write the fields that deaths set; None if all are at their defaults."""
    return _sparse(record, BY_DEATHS)


def people_json(record: GroupRecord) -> str | None:
    """Write the fields that people set; None if all are at their defaults."""
    return _sparse(record, BY_PEOPLE)


def _sparse(record: GroupRecord, names: tuple[str, ...]) -> str | None:
    values = {name: getattr(record, name) for name in names}
    kept = {name: value for name, value in values.items() if value != _DEFAULTS[name]}
    return encode(kept) if kept else None


def group_from(columns: Mapping[str, Any], deaths: str | None, people: str | None) -> GroupRecord:
    """Build a record; ValueError or TypeError if a text is not what Redrive wrote."""
    known = dict(columns)
    for text, names in ((deaths, BY_DEATHS), (people, BY_PEOPLE)):
        if text is not None:
            data = cast("dict[str, Any]", json.loads(text))
            check_types(GroupRecord, data)
            known.update({name: data[name] for name in names if name in data})
    return GroupRecord(**known)


def group_to_json(record: GroupRecord) -> str:
    """Write a whole record as one line of a journal has it."""
    return _sparse(record, tuple(_DEFAULTS)) or "{}"


def group_from_dict(data: dict[str, Any]) -> GroupRecord:
    """Read it back; fields of a newer version are left out, and raises as `group_from` does."""
    check_types(GroupRecord, data)
    return GroupRecord(**{name: value for name, value in data.items() if name in _DEFAULTS})


def check_changes(changes: Mapping[str, object]) -> None:
    """Raise UsageError unless people may set all of these fields to these values."""
    unknown = changes.keys() - SET_BY_PEOPLE
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))} of a group cannot be set; "
            f"what can be set: {', '.join(sorted(SET_BY_PEOPLE))}"
        )
    try:
        check_types(GroupRecord, dict(changes))
    except TypeError as error:
        raise UsageError(f"a group's {error}") from None
    for name, value in changes.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"a group's {name} must be a finite time; found {value}")
