"""While another process holds a file store's lock, commands that look show what they found."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive.errors import StoreBusy
from redrive.stores import _files
from shopkit import Shop, name, shop_jobs
from tablekit import each_row


@pytest.fixture(params=["redrive.db", "jsonl:redrive.jsonl"])
def shop(request: pytest.FixtureRequest, empty: Shop) -> Shop:
    empty.url = request.param
    empty.add(*shop_jobs())
    return empty


@pytest.fixture
def held(shop: Shop) -> Iterator[None]:
    """The lock is held by somebody who does not let go."""
    place = Path(shop.url.removeprefix("jsonl:") + ".lock")
    with place.open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.usefixtures("held")
@each_row("words", [["list"], ["status"], ["groups"], ["show", name(1)], ["log"], ["verify"]])
def test_what_was_read_is_shown(
    shop: Shop, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(lock: _files.FileLock) -> None:
        pytest.fail(f"{words} waits for {lock.place}")

    monkeypatch.setattr(_files.FileLock, "_wait", wait)
    result = shop.run(*words, "--store", shop.url)
    assert (result.exit_code, bool(result.stdout)) == (0, True), result.output


@pytest.mark.usefixtures("held")
def test_an_export_that_cannot_be_recorded_says_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(lock: _files.FileLock) -> None:
        raise StoreBusy(f"{lock.place} is held")

    monkeypatch.setattr(_files.FileLock, "_wait", wait)
    result = shop.run("export", "--store", shop.url)
    assert (result.exit_code, result.stdout.count("\n")) == (0, len(shop_jobs())), result.output
    assert "not in the audit log" in result.stderr
