"""A small shop whose jobs failed in every way, for tests of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from click.testing import CliRunner, Result

from kit import START, make_attempt, make_failure, make_job
from redrive import Job, Reason, Redrive, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.jobs.job import Failure
from redrive.testing import ManualClock

HOUR = 3600.0

TIMEOUT = make_failure(
    "transient",
    cause="refused",
    type="ConnectionError",
    message="mail.example refused the connection",
    traceback='Traceback (most recent call last):\n  File "mail.py", line 7, in send\n'
    "ConnectionError: mail.example refused the connection\n",
)
WRONG_KEY = make_failure(
    "auth", cause="key", type="HTTPStatusError", message="401 Unauthorized", status=401
)
ODD = make_failure("unknown", cause="odd", type="KeyError", message="'vat_id'")


@dataclass
class Shop:
    """A place with a store, and a way to run commands there at a time that stands still."""

    folder: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(START + 24 * HOUR))
    url: str = "redrive.db"

    def app(self) -> Redrive:
        return Redrive(self.url, clock=self.clock, actor="ada")

    def run(self, *words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(root, list(words), obj=Cli(self.clock), input=stdin)

    def drawn(self, *words: str, width: int = 130) -> str:
        """Run a command, and return what it would draw on a terminal with colours."""
        env = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(width)}
        done = CliRunner(env=env).invoke(root, list(words), obj=Cli(self.clock))
        assert done.exit_code in {0, 1}, done.output
        return done.stdout

    def add(self, *jobs: Job) -> list[Job]:
        """Store jobs, each dead one at the time of its death, so that the death is counted."""
        now = self.clock.now()
        with self.app() as app:
            added = app.store.add([])
            for died_at, some in groupby(jobs, key=lambda job: job.died_at):
                self.clock.jump((died_at or now) - self.clock.now())
                added += app.store.add(list(some))
                app.store.fold()  # before the clock goes back
            self.clock.jump(now - self.clock.now())
        return added

    def state_of(self, job_id: str) -> str:
        with self.app() as app:
            return str(app.get(job_id).state)

    def names(self) -> list[str]:
        """Every file of the place."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


def name(number: int) -> str:
    """Give the id of the shop's job of that number."""
    return f"01J9ZQ4B7V5X2C8D3E6F1G{number:04d}"


def tried(job: Job, failure: Failure, *, times: int = 1) -> Job:
    """Give a job the history of attempts that failed."""
    history = tuple(
        make_attempt(
            replace(job, lease=number, attempts=number), failure, worker="w1", started=job.created
        )
        for number in range(1, times + 1)
    )
    return replace(
        job,
        history=history,
        failure=replace(failure, traceback=""),
        attempts=times,
        lease=times,
        spent={failure.category.value: times},
        first_failed=job.created,
    )


def dead_letter(number: int, failure: Failure = TIMEOUT, **fields: object) -> Job:
    died = START + number * 60
    plain = {
        "handler": "mail.send",
        "state": State.DEAD,
        "reason": Reason.EXHAUSTED,
        "created": START,
        "updated": died,
        "finished": died,
        "died_at": fields.get("updated", died),
        "payload": '{"to":"ada@example.com","password":"hunter22"}',
        **fields,
    }
    return tried(make_job(name(number), **plain), failure, times=3)


def shop_jobs() -> list[Job]:
    """Give jobs in every state, of three causes."""
    waiting = make_job(name(6), handler="pay.charge", due=START + 25 * HOUR, updated=START + HOUR)
    return [
        dead_letter(1),
        dead_letter(2),
        dead_letter(3, WRONG_KEY, handler="pay.charge", reason=Reason.PERMANENT, tags=("vip",)),
        dead_letter(4, ODD, handler="pdf.print", key="invoice-4"),
        make_job(name(5), handler="pay.charge", updated=START + 5),
        tried(waiting, TIMEOUT),
        make_job(
            name(7),
            handler="mail.send",
            state=State.COMPLETED,
            reason=Reason.DONE,
            attempts=1,
            updated=START + 7,
            finished=START + 7,
        ),
    ]
