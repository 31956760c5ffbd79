"""Per-job alerts: a message for each dead letter, and digests when there are too many.

A durable listener hears of each death. It submits a message for it, or, after SINGLES messages in SPAN
seconds, adds the job to a note; the watch makes a digest of that every DIGEST_EVERY seconds at most.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from redrive.alerts import job_messages
from redrive.alerts.channels import mode_of
from redrive.alerts.messages import Message, Source
from redrive.errors import RetryLater
from redrive.jobs.logger import log

if TYPE_CHECKING:
    from redrive.alerts import Alerts
    from redrive.app import Redrive
    from redrive.events import Event
    from redrive.stores.contract import Store

SINGLES, SPAN = 20, 600.0  # messages about single jobs, at most, in so many seconds
DIGEST_EVERY = 120.0  # seconds between two digests, at least
LISTED = 200  # how many jobs a digest names; of the others it says how many
LISTENER = "alerts"
_NOTE = "alerts:each"
_TRIES = 5
_COVERED = frozenset({"new", "growing"})  # the messages about groups that single ones replace

Submit = Callable[[Message, str, str], None]
"""Submits a message for a channel under a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Jobs that had no message of their own."""

    jobs: tuple[tuple[int, str, str], ...] = ()
    """The number of the event, the key or id, and the handler."""
    more: dict[str, int] = field(default_factory=dict[str, int])
    """How many others there were, by handler."""

    def add(self, number: int, label: str, handler: str) -> Digest:
        """Return it with one job more."""
        if any(known == number for known, *_ in self.jobs):
            return self
        if len(self.jobs) < LISTED:
            return replace(self, jobs=(*self.jobs, (number, label, handler)))
        return replace(self, more={**self.more, handler: self.more.get(handler, 0) + 1})

    def of(self, handlers: frozenset[str] | None) -> tuple[list[str], Counter[str]]:
        """Return keys, and numbers of jobs by handler; None is every handler."""
        jobs = [one for one in self.jobs if handlers is None or one[2] in handlers]
        more = {name: n for name, n in self.more.items() if handlers is None or name in handlers}
        return [label for _, label, _ in jobs], Counter(one[2] for one in jobs) + Counter(more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """What was sent about single jobs, and what waits for a digest."""

    sent: tuple[float, ...] = ()
    digest_at: float = 0.0
    waiting: Digest = field(default_factory=Digest)
    decided: Digest | None = None
    """The digest that is being submitted."""

    @classmethod
    def read(cls, text: str) -> Book:
        """Read the text of the note."""
        value: dict[str, Any] = json.loads(text)
        for name in ("waiting", "decided"):
            if (digest := value[name]) is not None:
                jobs = tuple((number, label, handler) for number, label, handler in digest["jobs"])
                value[name] = Digest(jobs=jobs, more=digest["more"])
        value["sent"] = tuple(value["sent"])
        return cls(**value)


class Each:
    """Sends the per-job alerts of one app."""

    def __init__(self, alerts: Alerts, app: Redrive, submit: Submit) -> None:
        self._alerts = alerts
        self._app = app
        self._submit = submit
        self._direct = [name for name, one in alerts.channels.items() if mode_of(one) == "each"]
        """The channels that get a message for each dead letter."""
        self._others = [name for name in alerts.channels if name not in self._direct]
        if self._direct or alerts.each:
            app.on("died", name=LISTENER)(self.heard)

    def covers(self, channel: str, message: Message) -> bool:
        """Return True if single messages make this one about a group needless."""
        handlers = cast("list[str] | None", message.facts.get("handlers"))
        is_each = handlers is not None and self._alerts.each.issuperset(handlers)
        return message.state in _COVERED and (channel in self._direct or is_each)

    def _channels(self, handler: str) -> list[str]:
        return [*self._direct, *(self._others if handler in self._alerts.each else [])]

    def heard(self, event: Event) -> None:
        """Submit the messages of one dead letter, or keep it for a digest."""
        job = event.job
        if job is None or not (channels := self._channels(job.handler)):
            return
        is_single = False

        def noted(book: Book, now: float) -> Book:
            nonlocal is_single
            recent = tuple(at for at in book.sent if 0 <= now - at < SPAN)
            is_single = len(recent) < SINGLES
            if is_single:
                return replace(book, sent=(*recent, now))
            waiting = book.waiting.add(event.number, job_messages.label(job), job.handler)
            return replace(book, waiting=waiting)

        self._changed(noted)
        if is_single:
            message = job_messages.of_job(job, event.at, self._source())
            for name in channels:
                self._submit(message, name, f"alert-job-{event.number}-{name}")

    def flush(self) -> None:
        """Submit the digest that is due."""
        book = self._changed(_decided)
        if book.decided is None:
            return
        audiences = ((self._direct, None), (self._others, frozenset(self._alerts.each)))
        for channels, handlers in audiences:
            keys, numbers = book.decided.of(handlers)
            message = job_messages.of_many(keys, numbers, book.digest_at, self._source())
            for name in channels if numbers else ():
                self._submit(message, name, f"alert-digest-{book.decided.jobs[0][0]}-{name}")
        self._changed(lambda book, _: replace(book, decided=None))

    def _source(self) -> Source:
        return Source(store=self._app.submitter.store.url, wording=self._alerts.wording)

    def _changed(self, change: Callable[[Book, float], Book]) -> Book:
        """Change the note by compare-and-set; return what was written."""
        store = self._app.submitter.store
        for _ in range(_TRIES):
            book, version = _read(store)
            after = change(book, store.now())
            if after == book:
                return after
            if store.note(_NOTE, json.dumps(asdict(after)), expected=version, durable=True):
                return after
        raise RetryLater("the record of sent alerts is in use", after=1.0)


def _decided(book: Book, now: float) -> Book:
    """Make a digest of what waits, if it is time."""
    is_early = 0 <= now - book.digest_at < DIGEST_EVERY  # clocks are set back, too
    if book.decided is not None or not book.waiting.jobs or is_early:
        return book
    return replace(book, decided=book.waiting, waiting=Digest(), digest_at=now)


def _read(store: Store) -> tuple[Book, int]:
    note = next((note for note in store.notes(_NOTE) if note.name == _NOTE), None)
    try:
        return (Book(), 0) if note is None else (Book.read(note.value), note.version)
    except (ValueError, TypeError, KeyError):
        log.exception("the record of per-job alerts cannot be read; starting with an empty one")
        return Book(), note.version if note else 0
