"""Hints among processes: no place that is not ours alone, nobody waited for, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redrive.stores._wake import Hints, SocketHintListener
from redrive.stores.listening import HintListener


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary directory of this test's own, with a short name: a socket's may not be long."""
    made = Path(f"/tmp/wake-{os.getpid()}")
    made.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(made))
    yield made
    for each in sorted(made.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() and not each.is_symlink() else each.unlink()
    made.rmdir()


@pytest.fixture
def hints(temporary: Path, tmp_path: Path) -> Hints:
    return Hints(tmp_path / "jobs.db")


def listen(hints: Hints) -> HintListener:
    listener = hints.listen()
    assert listener is not None
    return listener


def heard(listener: HintListener) -> bool:
    ready = bool(select.select([listener.fileno()], [], [], 0)[0])
    listener.drain()
    return ready


def test_a_socket_is_in_a_directory_that_only_its_owner_may_enter(
    hints: Hints, temporary: Path
) -> None:
    listener = listen(hints)
    users, place, name = sorted(temporary.rglob("*"))
    assert stat.S_IMODE(users.stat().st_mode) == stat.S_IMODE(place.stat().st_mode) == 0o700
    assert name.is_socket()
    listener.close()
    assert list(temporary.iterdir()) == []


def test_two_names_of_one_file_are_one_store_and_another_file_is_another(
    temporary: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    listener = listen(Hints(tmp_path / "jobs.db"))
    Hints(tmp_path / "other.db").send()
    assert not heard(listener)
    Hints(tmp_path / "link" / "jobs.db").send()
    assert heard(listener)
    listener.close()


def as_link(place: Path) -> None:
    elsewhere = place.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    place.symlink_to(elsewhere)


def as_open(place: Path) -> None:
    place.mkdir()
    place.chmod(0o770)


def as_file(place: Path) -> None:
    place.touch(mode=0o600)


@pytest.mark.parametrize("make", [as_link, as_open, as_file])
@pytest.mark.parametrize("whose", ["user", "store"])
def test_a_place_that_others_could_reach_is_not_used(
    make: Callable[[Path], None], whose: str, hints: Hints, caplog: pytest.LogCaptureFixture
) -> None:
    place = Path(hints._place)
    if whose == "store":
        place.parent.mkdir(mode=0o700)
    make(place if whose == "store" else place.parent)
    assert hints.listen() is None
    assert "polled instead" in caplog.text


@pytest.mark.parametrize("make", [as_link, as_open])
def test_nothing_is_sent_to_a_place_that_others_could_reach(
    make: Callable[[Path], None], hints: Hints
) -> None:
    Path(hints._place).parent.mkdir(mode=0o700)
    make(Path(hints._place))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as trap:
        trap.bind(f"{hints._place}/trap")
        hints.send()
        assert not select.select([trap], [], [], 0)[0]
        Path(hints._place).chmod(0o700)


LISTENER = """
import sys
from pathlib import Path
from redrive.stores._wake import Hints
listener = Hints(Path(sys.argv[1])).listen()
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def listening_process(store: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that listens until its input ends."""
    command = [sys.executable, "-c", LISTENER, str(store)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


def test_the_socket_of_a_killed_listener_is_removed_by_the_next_hint(
    hints: Hints, temporary: Path, tmp_path: Path
) -> None:
    listener = listen(hints)
    with listening_process(tmp_path / "jobs.db") as process:
        hints.send()
        process.send_signal(signal.SIGKILL)
    assert len(list(Path(hints._place).iterdir())) == 2
    hints.send()
    assert len(list(Path(hints._place).iterdir())) == 1
    assert heard(listener)
    listener.close()
    assert list(temporary.iterdir()) == []


def test_a_listener_that_ends_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    with listening_process(tmp_path / "jobs.db") as process:
        assert len(list(temporary.rglob("*"))) == 3
        process.communicate("")
    assert process.returncode == 0
    assert list(temporary.iterdir()) == []


def test_a_listener_that_takes_nothing_in_holds_nobody_up(hints: Hints) -> None:
    listener = listen(hints)
    for _ in range(5_000):
        hints.send()
    assert heard(listener)
    assert not heard(listener)
    listener.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    path = tmp_path / "theirs"
    path.write_bytes(b"precious")
    return path


def test_a_fork_leaves_the_socket_to_the_parent(hints: Hints, temporary: Path) -> None:
    listener = listen(hints)
    assert isinstance(listener, SocketHintListener)
    copy = socket.socket(fileno=os.dup(listener.fileno()))
    listener.in_child()  # what runs in the child; the copy is the parent's descriptor
    assert listener.fileno() == -1
    listener.close()
    hints.send()
    assert copy.recv(10) == b"!"
    copy.close()
    hints.send()
    assert list(temporary.iterdir()) == []
