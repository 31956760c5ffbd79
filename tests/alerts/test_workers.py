"""Alerts beside real workers: no message twice, nobody slowed down, none lost by kill -9."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from alertkit import Kept, Slack, die, tick
from redrive import Redrive
from redrive.alerts import Alerts, webhook
from redrive.alerts.conditions import NAME
from workkit import all_done, until

HERE = Path(__file__).parent

PROGRAM = """
import os, re, sys, time
sys.path += [sys.argv[3], sys.argv[3] + "/kits"]
from alertkit import tick
from redrive import Redrive
from redrive.alerts import Alerts

class File:
    name, variables = "file", ()
    def send(self, message, *, ident):
        said = [f"{ident} {message.subject} {message.state}"]
        if message.subject == "many":
            said += [f"{ident} {one} new" for one in re.findall(r"\\bG[0-9]+\\b", message.text)]
        out = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(out, "".join(f"{line}\\n" for line in said).encode())
        os.close(out)
        return "ok"

app = Redrive(sys.argv[1], lease=1, alerts=Alerts(File()))
tick(app)
print("ready", flush=True)
while True:
    tick(app)
    time.sleep(0.001)
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redrive.worker.worker._WATCH", 0.02)


def test_a_slack_that_hangs_slows_no_job_down(slack_hangs: Slack, tmp_path: Path) -> None:
    """One slot, a channel that hangs, and 200 jobs that do not wait for it."""
    channel = webhook(url_env="SLACK_URL", allow=slack_hangs.allow, timeout=5)
    with Redrive(tmp_path / "jobs.db", alerts=Alerts(channel)) as app:

        @app.handler("quick")
        def quick(number: int) -> None:
            """Take no time."""

        die(app, KeyError("vat_id"))
        with app.worker(concurrency=1) as worker:
            until(lambda: app.desk.jobs.find(handler=NAME, state="running").jobs)
            for one in range(200):
                quick.submit(one)
            until(
                lambda: not app.desk.jobs.find(handler="quick", state=["pending", "running"]).jobs
            )
            assert app.desk.jobs.find(handler=NAME, state="running").jobs, (
                "Slack has not answered yet"
            )
            assert slack_hangs.bodies == []
            until(lambda: slack_hangs.bodies)
            worker.stop()


@pytest.fixture
def slack_hangs(slack: Slack) -> Slack:
    slack.hang = 3.0
    return slack


def test_kill_9_loses_and_doubles_no_decision(tmp_path: Path) -> None:
    """A watcher is killed twelve times, each time while a cause is being told."""
    store, out = tmp_path / "jobs.db", tmp_path / "told.txt"
    program = tmp_path / "watcher.py"
    program.write_text(PROGRAM, "utf-8")
    chance = random.Random(7)
    with Redrive(store, lease=1) as app:
        app.desk.jobs.counts()
        for cause in range(12):
            child = subprocess.Popen(
                [sys.executable, str(program), str(store), str(out), str(HERE.parent)],
                stdout=subprocess.PIPE,
            )
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            app.store.note("alerts:turn", None)
            die(app, type(f"Odd{cause}Error", (Exception,), {})("x"))
            time.sleep(chance.uniform(0.0, 0.03))
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
            app.store.note("alerts:turn", None)  # its turn ends after a minute
    kept = Kept(name="file")
    with Redrive(store, lease=1, alerts=Alerts(kept)) as app:
        tick(app)
        until(lambda: (tick(app), all_done(app))[1])
        jobs = app.desk.jobs.find(handler=NAME).jobs
        # Not by counting: a message whose sender was killed may have a cause of its own.
        causes = {(group.name, "new") for group in app.desk.groups.find(handler="mail.send")}
    lines = [line.split() for line in out.read_text("utf-8").splitlines()]
    told = {(subject, state) for _, subject, state in lines} | set(kept.told())
    assert len(causes) == 12
    assert causes <= told | folded(kept)
    assert len({job.key for job in jobs}) == len(jobs)
    decided = Counter((subject, state) for _, subject, state in {tuple(line) for line in lines})
    assert max(decided.values(), default=1) == 1, "each change was decided once"


def folded(kept: Kept) -> set[tuple[str, str]]:
    many = [message.text for message in kept.messages if message.subject == "many"]
    return {(one, "new") for text in many for one in re.findall(r"\bG\d+\b", text)}
