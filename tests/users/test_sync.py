"""R-SYNC: sessions on their way to a warehouse. Each test names the sentence it walks."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from alertkit import Mailbox, Slack, mail_server, slack_like
from redrive import Job, Redrive, State
from redrive.alerts import webhook
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.testing import ManualClock
from tablekit import each_row

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DOUBLING = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]
YEAR = 365 * 86400.0

CHANNELS = """
[alerts.channels.slack]
url_env = "SLACK_URL"
allow = {allow}
[alerts.channels.mail]
kind = "apprise"
url_env = "MAIL_URL"
"""
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise")  # of its imports


class Answered(Exception):
    """The warehouse answered with this status."""

    def __init__(self, status: int, after: float | None = None) -> None:
        super().__init__(f"the warehouse answered {status}")
        self.status = status
        self.retry_after = after


@dataclass
class User:
    """The user's service, the time, and the warehouse it writes to."""

    module: ModuleType
    store: Path
    slack: Slack
    mailbox: Mailbox
    clock: ManualClock = field(default_factory=ManualClock)
    failing: dict[str, Exception] = field(default_factory=dict)
    """By session: why it is not taken."""
    rows: list[tuple[str, dict[str, str], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.app: Redrive
        self.app, self.sync = self.module.connect(
            str(self.store), self.insert, clock=self.clock, alerts=self.module.alerts()
        )

    def insert(self, table: str, row: dict[str, str], key: str) -> None:
        if error := self.failing.get(row["sessionId"]):
            raise error.with_traceback(None)
        self.rows.append((table, row, key))

    @staticmethod
    def task(session: str) -> dict[str, Any]:
        return {"userId": "u-4711", "sessionId": session, "tableName": "events", "retryCount": 0}

    def register(self, session: str) -> Job:
        job: Job = self.sync.submit(**self.task(session))
        return job

    def work(self, job: Job) -> Job:
        """Pass over what is due until this job has ended; time passes as it waits."""
        while not (now := self.app.get(job.id)).is_terminal:
            self.clock.advance(max(0.0, now.due - self.clock.now()))
            self.app.run_due()
        self.app.run_due()  # what is told of the last change
        return now

    def die(self, session: str, error: Exception | None = None) -> Job:
        self.failing[session] = error or ConnectionError("the warehouse is down")
        return self.work(self.register(session))

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(root, [*words, "--store", str(self.store)], obj=Cli())

    def read_mail(self) -> list[str]:
        return [one.get_content().replace("\r\n", "\n") for one in self.mailbox.mails]


@pytest.fixture
def channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Slack, Mailbox]]:
    """Both receivers, named in the configuration beside the program."""
    with slack_like() as slack, mail_server() as mailbox:
        monkeypatch.setenv("SLACK_URL", slack.url)
        monkeypatch.setenv("MAIL_URL", mailbox.url)
        text = CHANNELS.format(allow=json.dumps(slack.allow))
        (tmp_path / "redrive.toml").write_text(text, "utf-8")
        monkeypatch.chdir(tmp_path)
        yield slack, mailbox


@pytest.fixture
def user(
    channels: tuple[Slack, Mailbox], load_example: Callable[[str], ModuleType], tmp_path: Path
) -> Iterator[User]:
    made = User(load_example("sync"), tmp_path / "sync.db", *channels)
    with made.app:
        yield made


@pytest.fixture
def slack_too() -> Iterator[Slack]:
    with slack_like() as slack:
        yield slack


def waits(job: Job) -> list[float]:
    return [round(b.started - a.started, 3) for a, b in itertools.pairwise(job.history)]


def test_r_sync_1_a_task_is_registered_and_its_row_arrives(user: User) -> None:
    job = user.register("s-1")
    assert json.loads(job.payload) == user.task("s-1")
    assert user.work(job).state is State.COMPLETED
    assert user.rows == [("events", {"userId": "u-4711", "sessionId": "s-1"}, job.id)]


def test_r_sync_1_ten_failures_in_all_and_the_tenth_is_a_dead_letter(user: User) -> None:
    dead = user.die("s-1")
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "exhausted", 10)
    assert waits(dead) == DOUBLING


def test_r_sync_1_what_works_at_the_last_attempt_is_done_and_nobody_is_told(user: User) -> None:
    user.failing["s-1"] = ConnectionError("the warehouse is down")
    job = user.register("s-1")
    for wait in [0.0, *DOUBLING[:-1]]:
        user.clock.advance(wait)
        assert user.app.run_due().failed == 1
    user.failing.clear()
    done = user.work(job)
    assert (done.state, done.attempts, len(user.rows)) == ("completed", 10, 1)
    assert (user.slack.bodies, user.mailbox.mails) == ([], [])


def test_r_sync_1_a_rate_limit_has_three_retries_of_ten_seconds(user: User) -> None:
    dead = user.die("s-1", Answered(429))
    assert (dead.state, dead.attempts, waits(dead)) == ("dead", 4, [10.0, 10.0, 10.0])


def test_r_sync_1_a_rate_limit_that_asks_for_longer_gets_it(user: User) -> None:
    """It would be refused again before; not all come back in the same second."""
    assert all(45 <= wait <= 50 for wait in waits(user.die("s-1", Answered(429, after=45))))


@each_row("status", [400, 401, 403])
def test_r_sync_1_a_refusal_has_no_retry(user: User, status: int) -> None:
    dead = user.die("s-1", Answered(status))
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "permanent", 1)


def test_r_sync_2_the_dead_entry_has_the_task_the_error_the_count_and_the_time(user: User) -> None:
    job = user.die("s-1", Answered(503))
    died = user.clock.now()
    dead = user.app.get(job.id)
    assert (dead.state, dead.attempts, dead.finished) == ("dead", 10, died)
    assert json.loads(dead.payload) == user.task("s-1")
    assert dead.failure is not None
    assert dead.failure.message == "the warehouse answered 503"
    last = dead.history[-1].failure
    assert last is not None
    assert "raise error" in last.traceback


def test_r_sync_2_failed_retrying_resolved(user: User) -> None:
    """The three statuses, and the time at which it was resolved or succeeded."""
    succeeds, closed = user.die("s-1"), user.die("s-2")
    user.clock.advance(60)
    user.app.desk.retry(succeeds.id)
    again = user.app.get(succeeds.id)
    assert (again.state, again.redrives, again.finished) == ("pending", 1, None)
    user.failing.clear()
    done = user.work(again)
    assert (done.state, done.finished) == ("completed", user.clock.now())
    user.clock.advance(60)
    user.app.desk.resolve(closed.id, reason="deleted by its user")
    resolved = user.app.get(closed.id)
    assert (resolved.state, resolved.finished) == ("resolved", user.clock.now())


def test_r_sync_2_dead_and_resolved_entries_stay(user: User) -> None:
    dead, closed = user.die("s-1"), user.die("s-2")
    user.app.desk.resolve(closed.id, reason="deleted by its user")
    user.clock.advance(30 * YEAR)
    user.app.run_due()
    assert [user.app.get(one.id).state for one in (dead, closed)] == ["dead", "resolved"]


def test_r_sync_3_slack_and_the_mailbox_hear_of_a_dead_letter(user: User) -> None:
    user.die("session-9")
    said = "BigQuery同期が10回失敗しました: session=session-9"
    assert user.slack.titles == [f"[DEAD] {said}"]
    assert user.slack.texts[0].startswith(f"[DEAD] {said}\n")
    (mail,) = user.mailbox.mails
    assert mail["Subject"] == f"[DEAD] {said}"
    assert mail["To"] == "ops@example.org"
    (text,) = user.read_mail()
    (job,) = user.app.desk.jobs.find(handler="bigquery.sync").jobs
    for part in (said, "the warehouse is down", f"redrive retry {job.id}"):
        assert part in text


def test_r_sync_3_a_webhook_gets_the_body_of_the_users_own(
    user: User, slack_too: Slack, tmp_path: Path
) -> None:
    hook = webhook(url=slack_too.url, allow=slack_too.allow, text=user.module.failure, name="hook")
    told = user.module.alerts(*user.app.alerts.channels.values(), hook)  # type: ignore[union-attr]
    app, sync = user.module.connect(str(tmp_path / "hook.db"), user.insert, alerts=told)
    user.failing["s-1"] = Answered(403)
    with app:
        app.run_due()
        sync.submit(**user.task("s-1"))
        app.run_due()
        app.run_due()
    said = "BigQuery同期が1回失敗しました: session=s-1"
    data = {"sessionId": "s-1", "attempts": 1}
    assert slack_too.bodies == [{"type": "bigquery_sync_failure", "message": said, "data": data}]
    assert user.slack.titles == [f"[DEAD] {said}"]
    assert [mail["Subject"] for mail in user.mailbox.mails] == user.slack.titles


def test_r_sync_3_the_number_is_that_of_its_attempts(user: User) -> None:
    user.die("s-1", Answered(403))
    assert "BigQuery同期が1回失敗しました: session=s-1" in user.slack.titles[0]


def test_r_sync_3_a_task_s_other_fields_stay_out(user: User) -> None:
    user.die("s-1")
    for raw in (*user.slack.raw, *user.mailbox.raw):
        assert b"u-4711" not in raw
    assert not any("u-4711" in text for text in user.read_mail())


def test_r_sync_3_each_session_has_its_message_until_there_are_too_many(user: User) -> None:
    """Twenty messages, then one about the group, which has the others."""
    for number in range(30):
        user.failing[f"s-{number:02}"] = ConnectionError("the warehouse is down")
    jobs = [user.register(session) for session in user.failing]
    assert user.work(jobs[-1]).state is State.DEAD
    assert user.app.desk.groups.find()[0].jobs == 30
    *single, group = user.slack.titles
    assert len(single) == 20
    assert len(user.mailbox.mails) == 21
    assert group.startswith("[GROWING] G1: BigQuery同期が10回失敗しました")
    assert "30 jobs dead" in user.slack.texts[-1]
    assert len({title.rpartition("session=")[2] for title in single}) == 20


def test_r_sync_4_people_look_and_run_one_again(user: User) -> None:
    one, other = user.die("s-1"), user.die("s-2")
    assert "ConnectionError" in user.run("groups").stdout
    assert "the warehouse is down" in user.run("show", one.id).stdout
    user.failing.clear()
    assert user.run("retry", one.id, "--reason", "the warehouse is back").exit_code == 0
    assert user.work(user.app.get(one.id)).state is State.COMPLETED
    assert user.app.get(other.id).state is State.DEAD
    assert [row["sessionId"] for _, row, _ in user.rows] == ["s-1"]
    action = user.app.desk.log.actions()[0]
    assert (action.verb, action.reason, action.done) == ("retry", "the warehouse is back", 1)


def test_r_sync_4_people_run_many_again_and_are_told_when_it_is_over(user: User) -> None:
    jobs = [user.die(f"s-{number}") for number in range(6)]
    user.failing.clear()
    started = user.run("retry", "G1", "--canary", "2", "--yes")
    assert started.exit_code == 0, started.output
    user.work(user.app.get(jobs[-1].id))
    while any(not user.app.get(job.id).is_terminal for job in jobs):
        user.clock.advance(5)
        user.app.run_due()
    assert {user.app.get(job.id).state for job in jobs} == {State.COMPLETED}
    assert sorted(row["sessionId"] for _, row, _ in user.rows) == [f"s-{n}" for n in range(6)]
    user.clock.advance(5)
    user.app.run_due()
    assert user.slack.titles[-1].startswith("[RESOLVED] G1")
    assert user.mailbox.mails[-1]["Subject"].startswith("[RESOLVED] G1")


def test_r_sync_4_what_fails_again_is_a_dead_letter_again(user: User) -> None:
    job = user.die("s-1")
    user.run("retry", job.id)
    again = user.work(user.app.get(job.id))
    assert (again.state, again.attempts, again.redrives) == ("dead", 10, 1)
    assert [one.life for one in again.history] == [0] * 10 + [1] * 10


def test_the_script_registers_what_it_is_given_and_the_worker_knows_it(
    channels: tuple[Slack, Mailbox], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-SYNC 1, as people run it; here the warehouse's client is not installed, and nothing is lost."""
    (tmp_path / "tasks.jsonl").write_text(json.dumps(User.task("s-1")) + "\n", "utf-8")
    monkeypatch.setenv("SYNC_STORE", "sync.db")
    ended = python(str(EXAMPLES / "sync.py"), "tasks.jsonl")
    assert ended.returncode == 1
    assert "handler bigquery.sync cannot run here: No module named 'google'" in ended.stderr
    assert json.loads(ended.stdout) == {"taken": 0, "synced": 0, "dead": 0}
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    worked = python("-m", "redrive", "work", "sync:app", "--once")
    assert worked.returncode == 1
    assert "returned\t1\n" in worked.stdout, worked.stderr
    assert "handler bigquery.sync cannot run here: No module named 'google'" in worked.stderr
    shown = python("-m", "redrive", "status", "--store", "sync.db")
    assert "handler bigquery.sync cannot run: No module named 'google'" in shown.stdout
    with Redrive("sync.db") as app:
        (job,) = app.desk.jobs.find().jobs
    assert (job.state, job.attempts, job.max_attempts, job.failure) == ("pending", 0, 10, None)
    assert job.detail == "returned: bigquery.sync cannot run here: No module named 'google'"


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=60
    )
