"""Where a store may live, how its files are made, and what is refused with words that help."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit import make_job
from redrive.errors import StoreError, StoreMissing, StoreReadOnly
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock

CLOCK = ManualClock()
NOBODY = 65534


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {one.name: stat.S_IMODE(one.stat().st_mode) for one in directory.iterdir()}


def test_the_home_of_a_user_who_is_not_there_is_no_place_for_a_store() -> None:
    with pytest.raises(StoreError, match=r"~nosuchuser/x\.jsonl cannot be a store.*without ~"):
        JsonlStore("~nosuchuser/x.jsonl", clock=CLOCK)


@pytest.mark.usefixtures("open_umask")
def test_everything_is_made_for_its_owner_only(tmp_path: Path) -> None:
    """T6, F111: whatever the umask; directories, file, lock, quarantine and the compacted file."""
    path = tmp_path / "new" / "deep" / "jobs.jsonl"
    store = JsonlStore(path, clock=CLOCK)
    store.add([make_job("a")])
    with path.open("ab") as file:
        file.write(b"torn")
    store.add([make_job("b")])
    store.compact()
    assert set(modes(tmp_path).values()) == {0o700}
    assert set(modes(tmp_path / "new").values()) == {0o700}
    made = modes(path.parent)
    assert set(made.values()) == {0o600}
    assert len(made) == 3


def test_a_file_that_others_can_read_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """F111."""
    path = tmp_path / "jobs.jsonl"
    JsonlStore(path, clock=CLOCK).close()
    path.chmod(0o644)
    JsonlStore(path, clock=CLOCK).close()
    assert "chmod 600" in caplog.text


@pytest.mark.parametrize(
    "name",
    [
        "with space.jsonl",
        'it\'s "quoted" `$(touch pwned)`.jsonl',
        "two\nlines.jsonl",
        "100%s.jsonl",
        "-rf.jsonl",
        "snow☃.jsonl",
        os.fsdecode(b"latin-\xe9.jsonl"),
    ],
)
def test_odd_names_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """F35."""
    monkeypatch.chdir(tmp_path)
    store = JsonlStore(name, clock=CLOCK)
    store.add([make_job("a")])
    store.compact()
    store.close()
    assert store.url == f"jsonl:{tmp_path / name}"
    assert JsonlStore(Path(name), clock=CLOCK).get("a") is not None
    assert {one.name for one in tmp_path.iterdir()} == {name, f"{name}.lock"}


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """T1."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert JsonlStore("~/x/jobs.jsonl", clock=CLOCK).url == f"jsonl:{tmp_path}/x/jobs.jsonl"


def test_a_directory_a_pipe_and_a_link_are_refused(tmp_path: Path) -> None:
    """F15."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    wanted = {"folder": "directory", "pipe": "pipe", "link": "link", "dangling": "link"}
    for name, word in wanted.items():
        for read_only in (True, False):
            with pytest.raises(StoreError, match=f"{name} is .*{word}"):
                JsonlStore(tmp_path / name, clock=CLOCK, read_only=read_only)
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "real").read_bytes() == b""


@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_a_device_is_refused(device: str) -> None:
    """F15."""
    with pytest.raises(StoreError, match="a device or socket"):
        JsonlStore(device, clock=CLOCK)


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """F15."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="name a file in a directory you own"):
        JsonlStore(tmp_path / "file" / "jobs.jsonl", clock=CLOCK)


def test_a_link_in_the_place_of_the_lock_or_the_new_file_is_not_followed(tmp_path: Path) -> None:
    """F111: nobody can make us write somewhere else."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "a.jsonl.lock").symlink_to(victim)
    with pytest.raises(StoreError, match="symbolic link"):
        JsonlStore(tmp_path / "a.jsonl", clock=CLOCK)
    store = JsonlStore(tmp_path / "b.jsonl", clock=CLOCK)
    store.add([make_job("a")])
    (tmp_path / "b.jsonl.compacting").symlink_to(victim)
    store.compact()
    assert store.get("a") is not None
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_reading_never_creates(tmp_path: Path, options: dict[str, bool]) -> None:
    """T6."""
    with pytest.raises(StoreMissing, match=r"no store at .*jobs\.jsonl.*redrive init"):
        JsonlStore(tmp_path / "none" / "jobs.jsonl", clock=CLOCK, **options)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def humble() -> Iterator[Path]:
    """A directory of somebody who is not root, and that somebody at work."""
    with tempfile.TemporaryDirectory() as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)


def test_a_reader_needs_no_permission_to_write_and_a_writer_is_told_what_it_needs(
    humble: Path,
) -> None:
    """T6, F14."""
    home = humble / "home"
    store = JsonlStore(home / "jobs.jsonl", clock=CLOCK)
    store.add([make_job("a")])
    store.close()
    (home / "jobs.jsonl.lock").unlink()
    (home / "jobs.jsonl").chmod(0o400)
    home.chmod(0o500)
    try:
        reader = JsonlStore(home / "jobs.jsonl", clock=CLOCK, read_only=True)
        assert reader.get("a") is not None
        assert reader.verify().ok
        with pytest.raises(StoreReadOnly, match=r"mode 700.*mode 600"):
            JsonlStore(home / "jobs.jsonl", clock=CLOCK)
    finally:
        home.chmod(0o700)


def test_it_says_how_durable_it_is(tmp_path: Path) -> None:
    """F25."""
    store = JsonlStore(tmp_path / "jobs.jsonl", clock=CLOCK)
    assert store.durability == "full"
    assert store.verify().facts["durability"] == "full"
