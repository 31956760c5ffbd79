"""Two releases of a program side by side: each runs what it can, and kills nothing of the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crewkit import crew
from redrive import Redrive
from redrive.errors import KeyConflict, UsageError
from workkit import number, until, url_of

PROGRAM = """
import os
from pathlib import Path
from redrive import Redrive

app = Redrive(os.environ["CREW_URL"], release="{release}")
HERE = Path(os.environ["CREW_DIRECTORY"]).parent

@app.handler("mail.send"{renamed})
def send({parameter}: str) -> None:
    with (HERE / "sent").open("a") as file:
        file.write(f"{release} {{{parameter}}}\\n")

@app.handler("wait.{release}")
def wait() -> None:
    import time
    (HERE / "waits").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
"""


def program(directory: Path, release: str, parameter: str, renamed: str = "") -> Path:
    """Write one release of the program into a directory of its own."""
    home = directory / release
    home.mkdir()
    text = PROGRAM.format(release=release, parameter=parameter, renamed=renamed)
    (home / f"{release}.py").write_text(text, encoding="utf-8")
    return home


def test_a_worker_leaves_jobs_to_the_release_that_can_run_them(tmp_path: Path) -> None:
    url = url_of("sqlite", tmp_path)
    old = program(tmp_path, "old", "name")
    new = program(tmp_path, "new", "who", ', renamed={"name": "who"}')
    with Redrive(url) as app:

        @app.handler("wait.new")
        def wait() -> None: ...

        @app.handler("mail.send")
        def send(**arguments: str) -> None: ...

        with crew(new, url, "--concurrency", "1", program="new:app", path=new):
            wait.submit()
            until((tmp_path / "waits").exists, 60)  # the new release is busy
            jobs = [send.submit(who=f"new {n}") for n in range(3)]
            jobs += [send.submit(name=f"old {n}") for n in range(3)]
            with crew(old, url, program="old:app", path=old):
                until(lambda: "returned: the stored" in (old / "log").read_text(), 60)
                (tmp_path / "go").touch()
                until(lambda: number(app, "completed") == 7, 90)
        assert all(app.get(job.id).attempts == 1 for job in jobs)
    sent = (tmp_path / "sent").read_text().splitlines()
    assert {line for line in sent if "new " in line[4:]} == {f"new new {n}" for n in range(3)}
    assert sorted(line[4:] for line in sent if "old" in line[4:]) == ["old 0", "old 1", "old 2"]


def test_without_a_release_that_takes_them_they_are_dead_with_advice(tmp_path: Path) -> None:
    with Redrive(url_of("sqlite", tmp_path)) as before:

        @before.handler("mail.send")
        def send(name: str) -> None: ...

        job = send.submit("Ada")
    with Redrive(url_of("sqlite", tmp_path)) as after:

        @after.handler("mail.send")
        def send_now(who: str) -> None: ...

        after.run_due()
        dead = after.get(job.id)
        assert dead.state == "dead"
        assert dead.failure is not None
        assert "missing 'who'; unknown 'name'" in dead.failure.message
        assert "renamed={'old': 'new'}" in dead.failure.message


def test_a_renamed_parameter_kills_nothing(tmp_path: Path) -> None:
    sent: list[str] = []
    with Redrive(url_of("sqlite", tmp_path)) as before:

        @before.handler("mail.send")
        def send(name: str, lines: int = 1) -> None: ...

        job = send.submit("Ada")
    with Redrive(url_of("sqlite", tmp_path)) as after:

        @after.handler("mail.send", renamed={"name": "who", "lines": "length"})
        def send_now(who: str, length: int = 1) -> None:
            sent.append(f"{who} {length}")

        send_now.submit("Bob", 2)
        after.run_due()
        assert after.get(job.id).state == "completed"
    assert sent == ["Ada 1", "Bob 2"]


def test_a_key_stays_the_same_job_after_its_parameter_was_renamed(tmp_path: Path) -> None:
    with Redrive(url_of("sqlite", tmp_path)) as before:

        @before.handler("mail.send")
        def send(name: str) -> None: ...

        job = send.options(key="7").submit("Ada")
    with Redrive(url_of("sqlite", tmp_path)) as after:

        @after.handler("mail.send", renamed={"name": "who"})
        def send_now(who: str) -> None: ...

        again = send_now.options(key="7")
        assert again.submit("Ada").id == job.id
        tried = again.try_now("Ada").job
        assert tried is not None
        assert tried.id == job.id
        with pytest.raises(KeyConflict):
            again.submit("Bob")


@pytest.mark.parametrize(
    "renamed", [{"name": "missing"}, {"who": "who"}, {"who": "length"}, ["name"], "name"]
)
def test_a_wrong_rename_is_refused(renamed: Any) -> None:
    app = Redrive("memory:")
    with pytest.raises(UsageError, match="must map a former name to a parameter"):

        @app.handler("mail.send", renamed=renamed)
        def send(who: str, length: int = 1) -> None: ...
