"""A group's record as columns and two texts, and back."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from kit import START
from redrive.errors import UsageError
from redrive.jobs.groups import SET_BY_PEOPLE, GroupRecord
from redrive.stores.group_codec import (
    BY_DEATHS,
    BY_PEOPLE,
    COLUMNS,
    check_changes,
    deaths_json,
    group_from,
    group_from_dict,
    group_to_json,
    people_json,
)
from tablekit import each_row

BARE = GroupRecord(number=7, fingerprint="v1:a")
WHOLE = GroupRecord(
    number=7,
    fingerprint="v1:b",
    title="SomeError: häuschen",
    first_seen=START,
    last_seen=START + 9,
    deaths=4,
    first_release="r1",
    last_release="r2",
    since=START + 1,
    regressed=START + 8,
    version=3,
    resolved=START + 5,
    resolved_by="R12",
    reason="fixed",
    owner="ada",
    note="see #4",
    noted=START + 6,
    noted_by="bob",
)


@each_row("record", [BARE, WHOLE, replace(WHOLE, note="")])
def test_a_record_comes_back_equal(record: GroupRecord) -> None:
    columns = {name: getattr(record, name) for name in COLUMNS}
    assert group_from(columns, deaths_json(record), people_json(record)) == record
    assert group_from_dict(json.loads(group_to_json(record))) == record


def test_every_field_is_kept_in_exactly_one_place() -> None:
    assert sorted([*COLUMNS, *BY_DEATHS, *BY_PEOPLE]) == sorted(
        one.name for one in fields(GroupRecord)
    )
    assert set(BY_PEOPLE) == SET_BY_PEOPLE
    assert (deaths_json(BARE), people_json(BARE)) == (None, None)


@each_row("text", ["[]", "{", '{"since":"noon"}'])
def test_text_that_redrive_never_wrote_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        group_from({"number": 7, "fingerprint": "f"}, text, None)


def test_people_set_their_own_fields_only() -> None:
    check_changes({"owner": "ada", "resolved": None, "noted": START})
    with pytest.raises(UsageError, match="deaths of a group cannot be set"):
        check_changes({"deaths": 0})
    with pytest.raises(UsageError, match="a group's owner cannot be 7"):
        check_changes({"owner": 7})
    with pytest.raises(UsageError, match="a group's resolved must be a finite time; found inf"):
        check_changes({"resolved": float("inf")})
