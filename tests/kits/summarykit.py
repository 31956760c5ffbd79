"""The summarising service in a database of its own, with a model that does as it is told."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Self

import psycopg
from click.testing import CliRunner, Result
from psycopg.rows import dict_row

import pgkit
from kit import make_failure, make_job
from redrive import Job, Reason, Redrive, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.jobs.job import Resolution

HANDLER = "article.summarize"
VIEW = "redrive.summarize_job_queue"
COLUMN = ("--column", "article_id=payload.article_id")
INIT = ("init", "--view", "summarize_job_queue", *COLUMN, "--handler", HANDLER)
RETRY = f"UPDATE {VIEW} SET status = 'pending', retry_count = 0"

_TABLES = ["articles", *(f"redrive.{table}" for table in pgkit._TABLES)]
_numbers = itertools.count(1)
_free: list[str] = []


def make_database() -> tuple[str, str]:
    """Make a database; gives its name and URL."""
    name = f"summaries_{os.getpid()}_{next(_numbers)}"
    with pgkit.connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    return name, pgkit.url_of().replace("/postgres?", f"/{name}?")


@contextmanager
def new_database() -> Iterator[str]:
    """An empty database that is removed at the end; gives its URL."""
    name, url = make_database()
    yield url
    with pgkit.connect() as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Service:
    """The service, its users, and an operator who knows SQL."""

    def __init__(self, module: ModuleType, url: str) -> None:
        self.module = module
        self.url = url
        self.failing: dict[str, Exception] = {}
        """What the model raises, by text."""
        self.hanging: set[str] = set()
        """Texts over which the model never ends."""
        self.asked: list[str] = []
        self.while_asked: Callable[[], object] = lambda: None
        self.notices: list[str] = []
        self.app: Redrive
        self.app, self.summarize = self.connect()

    def connect(self, **options: Any) -> tuple[Redrive, Any]:
        made: tuple[Redrive, Any] = self.module.connect(self.url, self.model, **options)
        return made

    async def model(self, text: str) -> str:
        self.asked.append(text)
        self.while_asked()
        if text in self.hanging:
            await asyncio.Event().wait()
        if text in self.failing:
            raise self.failing[text]
        return text.upper()

    def __enter__(self) -> Self:
        self.db = psycopg.connect(self.url)
        self.operator = self.session()
        self.db.execute(self.module.TABLE)
        self.db.commit()
        assert self.run(*INIT).exit_code == 0
        return self

    def __exit__(self, *_: object) -> None:
        self.app.close()
        self.db.close()
        self.operator.close()

    def session(self, **options: Any) -> psycopg.Connection[dict[str, Any]]:
        """A connection of the operator's; what the server says on it is kept in `notices`."""
        settings: dict[str, Any] = {"autocommit": True, "row_factory": dict_row, **options}
        made: psycopg.Connection[dict[str, Any]] = psycopg.connect(self.url, **settings)
        made.add_notice_handler(lambda said: self.notices.append(said.message_primary or ""))
        return made

    def run(self, *words: str) -> Result:
        """Run a command on the service's store."""
        return CliRunner().invoke(root, [*words, "--store", self.url], obj=Cli())

    def accept(self, article: str, body: str) -> Job:
        job: Job = self.module.accept(self.db, self.summarize, article, body)
        return job

    def work(self) -> None:
        self.module.work(self.app)

    def sql(self, query: str, *args: object) -> list[dict[str, Any]]:
        """Ask the operator's question."""
        cursor = self.operator.execute(query.encode(), args or None)
        return cursor.fetchall() if cursor.description else []

    def row(self, article: str) -> dict[str, Any]:
        """The one line of the view about an article."""
        (found,) = self.sql(f"SELECT * FROM {VIEW} WHERE article_id = %s", article)
        return found

    def retry(self, article: str) -> int:
        """Drive an article again as the operator does; gives how many rows were changed."""
        query = f"{RETRY} WHERE article_id = %s".encode()
        return self.operator.execute(query, [article]).rowcount

    def stored(self, *ids: str) -> list[dict[str, Any]]:
        """Whole rows of jobs: what a submit wrote and how they stand."""
        query = "SELECT * FROM redrive.jobs JOIN redrive.states USING (n, id) WHERE id = ANY(%s)"
        return self.sql(f"{query} ORDER BY id", list(ids))

    def keep(self, job_id: str, article: str = "a1", **fields: Any) -> Job:
        """Keep a job of the service that came to be in some other way."""
        payload = f'{{"article_id":"{article}"}}'
        job = make_job(
            job_id, **{"handler": HANDLER, "payload": payload, "max_attempts": 3, **fields}
        )
        return self.app.store.add([job])[0]

    def keep_dead(self, job_id: str, article: str = "a1", **fields: Any) -> Job:
        """Keep a dead letter with all that a life can leave on a job."""
        died: dict[str, Any] = {
            "state": State.DEAD,
            "reason": Reason.CRASH,
            "detail": "3 crashes",
            "finished": 1_750_000_100.0,
            "updated": 1_750_000_100.0,
            "first_failed": 1_750_000_050.0,
            "attempts": 3,
            "spent": {"crash": 2, "timeout": 1},
            "crashes": 2,
            "redrives": 4,
            "lease": 17,
            "failure": make_failure("crash"),
            "key": f"key-{job_id}",
            "tags": ("vip",),
            "run": 7,
            "edits": 1,
            "original": "{}",
            "folded": 2,
            "origin": {"format": "table"},
            "resolution": Resolution(actor="ada", reason="imported so", at=1.0),
        }
        return self.keep(job_id, article, **{**died, **fields})


@contextmanager
def service_of(module: ModuleType) -> Iterator[Service]:
    """The service with nothing in it; its database is emptied for the next who needs one."""
    url = _free.pop() if _free else make_database()[1]
    with Service(module, url) as made:
        yield made
        made.sql("".join(f"DELETE FROM {table};" for table in _TABLES))
    _free.append(url)


@contextmanager
def role(service: Service, name: str) -> Iterator[str]:
    """A role that may use the view; it belongs to the whole server, so it is removed here."""
    name = f"{name}_{os.getpid()}"
    service.sql(f"CREATE ROLE {name}")
    try:
        service.sql(f"GRANT USAGE ON SCHEMA redrive TO {name}")
        service.sql(f"GRANT SELECT, UPDATE ON {VIEW} TO {name}")
        yield name
    finally:
        service.sql(f"RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}")
