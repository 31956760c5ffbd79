"""Adding jobs in a transaction of the caller's: they are stored if, and only if, it commits.

Two statements go over the caller's connection: the first asks where it leads and when its transaction
began, the second is a call of `add_within`, which stores the jobs or returns those that are there. Here
is what to ask and what the answers mean, without a driver; `transactions` has the drivers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg

from redrive.errors import StoreBusy, StoreMissing, UsageError
from redrive.jobs.job import Job
from redrive.stores.counting import Tick
from redrive.stores.postgres import adding
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.rows import job_from_json
from redrive.stores.postgres.transactions import Conversation
from redrive.stores.sql.outbox import EventRow

Extras = Callable[[Sequence[Job]], tuple[Sequence[Tick], Sequence[EventRow]]]
"""Returns the counts and events of new jobs."""

_LOOKS = 5
"""How often to look for who stored an id or key; a strict transaction never sees it."""
_AUTOCOMMIT, _TAKEN = "25P01", "23505"


@dataclass(frozen=True, slots=True)
class Adding:
    """Jobs to add, with all that our own connections had to be asked for: it asks nothing more."""

    database: Database
    name: str
    """The name of the store's database."""
    server: str
    """The id of its server; empty if not everybody may read it."""
    jobs: Sequence[Job]
    place: Callable[[Job], int | None]
    extras: Extras
    wait: float
    """Seconds to wait for each lock."""

    def conversation(self) -> Conversation[list[Job]]:
        """Add the jobs; return the answer for each."""
        texts = self.database.queries.texts
        asked = texts["within" if self.server else "within_any"].decode()
        name, server, begun, exists = json.loads((yield asked, None))
        self._check_place(name, server, exists=exists)
        there: dict[str, Job] = {}
        for _ in range(_LOOKS):
            fresh, answers = adding.sorted_out(self.jobs, there.values(), self.place)
            if not fresh:
                return answers
            request = self._request(fresh, begun)
            answer = json.loads((yield texts["add_within"].decode(), request))
            if answer.get("stored"):
                return answers
            self._check_code(answer.get("code", _TAKEN), answer.get("message", ""))
            there |= {job.id: job for job in map(job_from_json, answer.get("there") or ())}
        msg = (
            f"an id or key was stored meanwhile in {self._url}, which this transaction does not see; "
            "roll it back and repeat it"
        )
        raise StoreBusy(msg)

    @property
    def _url(self) -> str:
        return self.database.address.url

    def _request(self, jobs: Sequence[Job], begun: str) -> str:
        (texts, numbers, times), extras = adding.arguments(jobs, *self.extras(jobs))
        request = {
            "texts": texts,
            "numbers": numbers,
            "times": times,
            "extras": extras,
            "begun": begun,
            "wait": max(1, round(self.wait * 1000)),
            "channel": self.database.address.channel,
            "known": self.database.queries.version,
        }
        return json.dumps(request, ensure_ascii=False)

    def _check_place(self, name: str, server: str, *, exists: bool) -> None:
        if (name, server) != (self.name, self.server):
            self.database.__dict__.pop("names", None)  # asked again: the store may have moved
        if name != self.name:
            msg = (
                f"the connection given as `within` is to the database {name!r}, but the store "
                f"{self._url} is in {self.name!r}; use a connection to {self.name!r}, or keep the "
                f"store in {name!r}"
            )
            raise UsageError(msg)
        if server != self.server:
            msg = (
                f"the connection given as `within` is to a database {name!r} on another server "
                f"(system identifier {server}) than the store {self._url} ({self.server}); "
                "use a connection to the store's server"
            )
            raise UsageError(msg)
        if not exists:
            msg = (
                f"the connection given as `within` sees no store of this version in the schema "
                f"{self.database.address.schema!r} of {name!r}; `redrive init` creates one"
            )
            raise StoreMissing(msg)

    def _check_code(self, code: str, message: str) -> None:
        """Raise our error for one of the server's; that an id or key is taken is none."""
        if code == _AUTOCOMMIT:
            msg = (
                "the connection given as `within` is in autocommit mode, without a transaction; "
                "open one, such as `with connection.transaction():` (psycopg, asyncpg), "
                "`with session.begin():` (SQLAlchemy) or `with transaction.atomic():` (Django)"
            )
            raise UsageError(msg)
        if code != _TAKEN:
            error = _error_of(code, message)
            raise self.database.explained(error) from error


def _error_of(code: str, message: str) -> psycopg.Error:
    try:
        return psycopg.errors.lookup(code)(message)
    except KeyError:
        return psycopg.DatabaseError(message)
