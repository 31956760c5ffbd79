"""Pulling the plug: only what was synced is left, and every promise made is in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import make_action, make_job
from redrive.stores.jsonl import JsonlStore, journal
from redrive.testing import ManualClock
from stores.jsonl.scenes import Film, Operation, picture, scenario

DURABLE = {0, 1, 5, 10, 11, 12, 13, 18, 20, 21, 26}
"""The operations of the scenario that are synced before they return: add, note, moves, amend, act,
subscriptions, what people say of groups."""


class Disk:
    """Remembers what a file was at its last sync, and whether its name was synced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.image = b""
        self.named = False
        self.syncs = 0

    def sync(self, descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if self.path.exists() and inode == self.path.stat().st_ino:
            self.image = self.path.read_bytes()
            self.syncs += 1
        elif inode == self.path.parent.stat().st_ino:
            self.named = self.path.exists()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path / "jobs.jsonl")
    monkeypatch.setattr(os, "fdatasync", disk.sync)
    monkeypatch.setattr(os, "fsync", disk.sync)
    return disk


def after_the_cut(directory: Path, image: bytes, clock: ManualClock) -> JsonlStore:
    path = directory / "after.jsonl"
    path.touch(mode=0o600)
    path.write_bytes(image)
    return JsonlStore(path, clock=clock)


def test_a_power_cut_after_any_operation_leaves_every_synced_promise(
    shot: Film, disk: Disk, tmp_path: Path
) -> None:
    """T5, F1, F7: claims and settles may be undone; adds and actions of people never are."""
    store = JsonlStore(disk.path, clock=shot.clock)
    promised = 0
    for at, operation in enumerate(scenario()):
        operation(store)
        promised = at + 1 if at in DURABLE else promised
        image = disk.image
        seen = picture(after_the_cut(tmp_path, image, shot.clock))
        disk.image = image
        assert seen in shot.pictures[promised : at + 2], at
        assert disk.named


@pytest.mark.parametrize(
    "verb",
    [
        lambda store: store.add([make_job("b")]),
        lambda store: store.note("n", "v", durable=True),
        lambda store: store.note("a", None, durable=True),
        lambda store: store.move(["a"], "resolve", make_action("resolve")),
        lambda store: store.amend("a", "{}", make_action("edit"), expected=0),
        lambda store: store.record(make_action()),
        lambda store: store.add([make_job("a")]),
        lambda store: store.subscribe("hook", ["died"]),
    ],
    ids=[
        *("add", "note", "note removed", "move", "amend", "record", "add again"),
        "subscribe",
    ],
)
def test_what_is_promised_to_survive_is_synced_before_the_call_returns(
    disk: Disk, verb: Operation
) -> None:
    """T5."""
    store = JsonlStore(disk.path, clock=ManualClock())
    store.add([make_job("a")])
    store.note("a", "not synced")
    verb(store)
    kept = disk.path.read_bytes()
    mark = kept.rindex(b'{"crc"')
    assert disk.image[:mark] == kept[:mark]


@pytest.mark.parametrize(
    "verb",
    [
        lambda store: store.claim(["mail"], limit=1, holder="w", lease_for=9),
        lambda store: store.note("n", "v"),
        lambda store: store.purge([]),
        lambda store: store.get("a"),
    ],
    ids=["claim", "note", "purge", "get"],
)
def test_what_only_has_to_survive_a_kill_pays_no_sync(
    disk: Disk, verb: Callable[[JsonlStore], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T5."""
    monkeypatch.setattr(journal, "SYNC_EVERY", float("inf"))
    store = JsonlStore(disk.path, clock=ManualClock())
    store.add([make_job("a")])
    syncs = disk.syncs
    verb(store)
    assert disk.syncs == syncs


def test_what_nobody_asked_to_sync_is_synced_after_a_while(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T5: so a power cut undoes little, and a mark vouches for the rest."""
    monkeypatch.setattr(journal, "SYNC_EVERY", -1.0)
    store = JsonlStore(disk.path, clock=ManualClock())
    store.note("n", "v")
    assert b'"note"' in disk.image
    assert b'"mark"' in disk.path.read_bytes().splitlines()[-1]


def test_closing_syncs_and_marks_what_was_not(disk: Disk) -> None:
    """T2: a journal that was closed ends in a mark, so any flipped byte before it is damage."""
    store = JsonlStore(disk.path, clock=ManualClock())
    store.note("n", "v")
    store.close()
    kept = disk.path.read_bytes()
    assert b'"mark"' in kept.splitlines()[-1]
    assert b'"note"' in disk.image


def test_a_compacted_file_is_synced_before_it_takes_the_name_and_the_name_after(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F8."""
    store = JsonlStore(disk.path, clock=ManualClock())
    store.add([make_job("a")])
    new = Disk(disk.path.with_name("jobs.jsonl.compacting"))
    monkeypatch.setattr(os, "fsync", lambda fd: (disk.sync(fd), new.sync(fd)))
    rename = os.rename

    def check(source: Path, target: Path) -> None:
        assert new.image == source.read_bytes() != b""
        disk.named = False
        rename(source, target)

    monkeypatch.setattr(os, "rename", check)
    store.compact()
    assert disk.named
    assert store.get("a") is not None


def test_the_name_is_synced_again_by_whoever_finds_a_file_he_did_not_make(
    disk: Disk,
) -> None:
    """F7, F8: the one who made or renamed it may have died before."""
    JsonlStore(disk.path, clock=ManualClock()).close()
    disk.named = False
    store = JsonlStore(disk.path, clock=ManualClock())
    assert disk.named
    JsonlStore(disk.path, clock=ManualClock()).compact()
    disk.named = False
    store.add([make_job("a")])
    assert disk.named
