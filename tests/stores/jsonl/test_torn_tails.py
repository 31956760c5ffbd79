"""A journal that ends anywhere opens as what it was after the last whole operation before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import make_job
from redrive.stores.jsonl import JsonlStore
from stores.jsonl.conftest import FULL
from stores.jsonl.scenes import Film, picture, scenario

Reopen = Callable[[bytes], JsonlStore]
pytestmark = pytest.mark.usefixtures("no_sync")

TAILS = {
    "zeros": bytes(97),
    "a page of zeros": bytes(4096),
    "noise": random.Random(7).randbytes(200),
    "noise in lines": b"\n".join(random.Random(8).randbytes(20) for _ in range(9)),
    "half a letter": "€".encode()[:2],
    "half a letter in a line": b'{"crc":"00000000","seq":\xe2\x82',
    "a blank line": b" \n",
    "what another program says": b'{"level":"info","msg":"rotated"}\n',
}


def quarantined(tmp_path: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*.quarantine-*")))


def cuts(film: Film, step: int) -> Iterator[int]:
    """Every place to cut, or a sample with every end of an operation in it."""
    step = 1 if FULL else step
    near = {end + by for end in film.ends for by in (-1, 0, 1)}
    return (at for at in range(len(film.data) + 1) if at % step == 0 or at in near)


def test_every_prefix_opens_as_the_state_after_its_last_whole_operation(
    shot: Film, reopen: Reopen, tmp_path: Path
) -> None:
    """T2, F3."""
    for length in cuts(shot, 37):
        store = reopen(shot.data[:length])
        assert picture(store) == shot.after(length), length


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
def test_a_prefix_with_a_torn_tail_opens_the_same_and_the_bytes_are_kept(
    shot: Film, reopen: Reopen, tmp_path: Path, tail: bytes
) -> None:
    """F3, F4, F77."""
    for length in cuts(shot, 101):
        if length < shot.ends[0]:
            continue
        store = reopen(shot.data[:length] + tail)
        assert picture(store) == shot.after(length), length
        assert quarantined(tmp_path).endswith(tail)
        assert store.verify().ok


def test_a_journal_that_was_mended_goes_on(shot: Film, reopen: Reopen) -> None:
    """F3: appending after a torn tail never joins the two."""
    for length in cuts(shot, 101):
        store = reopen(shot.data[:length])
        store.add([make_job("later", created=shot.clock.now())])
        assert store.get("later") is not None
        assert store.verify().ok, length


def test_a_hole_with_good_lines_after_it_is_cut_at_the_hole(shot: Film, reopen: Reopen) -> None:
    """F5: operations after the last mark may reach the disk in any order."""
    marked = shot.data.rindex(b'"mark"', 0, shot.data.rindex(b'"mark"'))
    start = shot.data.index(b"\n", marked) + 1
    unsynced = shot.data[start : shot.data.rindex(b'{"crc"', 0, shot.data.rindex(b'"mark"'))]
    lines = unsynced.splitlines(keepends=True)
    assert len(lines) > 3
    for at, line in enumerate(lines):
        holed = [*lines[:at], bytes(len(line)), *lines[at + 1 :]]
        store = reopen(shot.data[:start] + b"".join(holed))
        assert picture(store) == shot.after(start + sum(map(len, lines[:at])))


def test_a_reader_uses_what_is_whole_and_touches_nothing(shot: Film, tmp_path: Path) -> None:
    """T6: reading neither creates, locks nor mends."""
    path = tmp_path / "jobs.jsonl"
    path.touch(mode=0o600)
    for length in cuts(shot, 101):
        data = shot.data[:length] + b'{"crc":"'
        path.write_bytes(data)
        if length < shot.ends[0]:
            continue
        store = JsonlStore(path, clock=shot.clock, read_only=True)
        assert picture(store) == shot.after(length), length
        assert path.read_bytes() == data
        store.close()
    assert [one.name for one in tmp_path.iterdir()] == ["jobs.jsonl"]


def test_a_torn_tail_is_said_in_the_log(
    shot: Film, reopen: Reopen, caplog: pytest.LogCaptureFixture
) -> None:
    """F3: repaired, but not in silence."""
    reopen(shot.data[:-5])
    assert "unfinished write" in caplog.text
    assert "quarantine" in caplog.text


def test_the_scenario_writes_every_kind_of_line(shot: Film) -> None:
    for kind in (b"job", b"purge", b"group", b"act", b"note", b"mark"):
        assert b'1,"' + kind + b'":' in shot.data or b'0,"' + kind + b'":' in shot.data
    assert len(scenario()) + 1 == len(shot.ends)
