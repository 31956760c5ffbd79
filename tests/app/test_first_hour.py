"""What a newcomer tries in the first hour is refused at once, with the right spelling."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.errors import JobNotFound, UsageError
from redrive.stores._files import failed
from tablekit import each_row
from workkit import until


@each_row("url", ["sqlite:///shop.db", "sqlite://shop.db", "jsonl:///shop.db"])
def test_slashes_of_two_meanings_are_refused_with_both_spellings(url: str) -> None:
    scheme = url.partition(":")[0]
    with pytest.raises(UsageError) as refused, Redrive(url) as app:
        app.desk.jobs.counts()
    assert f"'{scheme}:/shop.db' for the absolute path" in str(refused.value)
    assert f"'{scheme}:shop.db' for one below the current directory" in str(refused.value)


def test_a_method_is_refused_as_a_handler() -> None:
    app = Redrive("memory:")
    with pytest.raises(UsageError, match=r"Mailer\.send is a method.*app\.handler\(name\)"):

        class Mailer:
            @app.handler("mail.send")
            def send(self, to: str) -> None: ...


def test_bound_methods_and_functions_in_functions_are_handlers() -> None:
    app = Redrive("memory:")
    sent: list[str] = []

    class Mailer:
        def send(self, to: str) -> None:
            sent.append(to)

        @staticmethod
        @app.handler("mail.check")
        def check(to: str) -> None: ...

    @app.handler("odd")
    def odd(self: str) -> None:
        sent.append(self)

    app.handler("mail.send")(Mailer().send).submit("ada")
    odd.submit("bob")
    with app:
        app.run_due()
    assert sent == ["ada", "bob"]


def test_get_takes_whole_ids_and_the_desk_beginnings_too() -> None:
    with Redrive("memory:") as app:
        job = app.handler("mail.send")(lambda: None).submit()
        assert app.get(job.id).id == job.id
        with pytest.raises(JobNotFound, match="the desk also finds one by the beginning"):
            app.get(job.id[:20])
        assert app.desk.jobs.get(job.id[:20]).id == job.id


def test_a_read_only_file_system_is_called_that(tmp_path: Path) -> None:
    error = OSError(errno.EROFS, "Read-only file system")
    text = str(failed(error, tmp_path / "shop.db"))
    assert text.startswith(f"{tmp_path} is on a read-only file system")
    assert "StateDirectory" in text
    assert "mode 700" not in text


def test_a_worker_that_starts_on_a_paused_lane_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with Redrive("memory:") as app, caplog.at_level(logging.WARNING, "redrive"):
        app.handler("mail.send")(lambda: None)
        app.handler("other")(lambda: None)
        app.desk.lanes.pause("mail.send", reason="the provider is down", actor="ada")
        app.desk.lanes.pause("elsewhere", reason="not ours")
        with app.worker():
            until(lambda: "is paused" in caplog.text)
    lines = [record.getMessage() for record in caplog.records if "paused" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith(
        "lane mail.send is paused by ada (the provider is down): its jobs wait"
    )
