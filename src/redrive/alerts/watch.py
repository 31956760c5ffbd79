"""The watch: one process at a time checks the conditions, stores the alerts that are due, and sends them.

Sent and pending alerts are in one note, changed by compare-and-set, so each alert is decided once,
whichever process checks. Each becomes one job per channel, with an idempotency key, before it is removed
from the note; if the process dies in between, the next one submits the same jobs. Messages are sent here
too, outside the slots of the worker: a channel that hangs delays no job.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from redrive.alerts import messages
from redrive.alerts.channels import Channel
from redrive.alerts.conditions import NAME, look, newest
from redrive.alerts.each import Each
from redrive.alerts.messages import Message
from redrive.alerts.rules import Cause, Change, LastAlert, judge
from redrive.attempts import presence
from redrive.attempts.runtime import Runtime
from redrive.context import current
from redrive.errors import KeyConflict, RetryLater, StoreError, UsageError
from redrive.jobs.logger import log
from redrive.payloads import strict_json
from redrive.payloads.arguments import Arguments
from redrive.payloads.masking import error_text, inert
from redrive.policies.policy import Keep, Policy
from redrive.registry import Entry, Registry
from redrive.strategies import exponential
from redrive.submission import Options
from redrive.worker.passes import PassRunner

if TYPE_CHECKING:
    from redrive.alerts import Alerts
    from redrive.app import Redrive
    from redrive.stores.contract import Store

POLICY = Policy(
    attempts=2000,
    max_age="1d",
    wait=exponential(5, cap=300),
    alike=True,
    keep=Keep(dead=30 * 86400.0),
)
"""A message is retried for a day, whatever is wrong: the channel may be repaired."""
FEW = 5  # more changes than this at once are folded into one message
MOST = 20  # messages in ten minutes, at most; what comes then is folded later
_SPAN = 600.0
_NOTE, _TURN, _CHANNELS = "alerts", "alerts:turn", "alert-channels"
_CHANNELS_LAST = 30 * 86400.0
"""Seconds for which the channels of a program are known after it last began to watch."""
_NEW_EVERY, _SAME_EVERY = 86400.0, 30.0
"""Seconds in which a channel is sent one message that a group is new, and one of each other kind."""
_LASTS = 15.0  # seconds for which a process keeps its turn: less than the silence that is reported
_SHARE = 20.0
"""A check may take 1/20 of the time: after one that took a second, the next waits twenty."""
_REST = 30.0  # seconds for which a channel that failed is not tried again
_PATIENCE, _AGAIN = 30.0, 3600.0
"""Seconds of a failing store before messages are sent without it, and between two of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The last alerts, and messages that are decided and not yet jobs."""

    born: float
    number: int = 0
    """How many messages there were."""
    told: Mapping[str, LastAlert] = field(default_factory=dict[str, LastAlert])
    sent: tuple[float, ...] = ()
    """When the last ones were decided."""
    outbox: tuple[tuple[int, Message], ...] = ()

    def written(self) -> str:
        """Return the text of the note."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def read(cls, text: str) -> Book:
        """Read the text of the note."""
        value: dict[str, Any] = json.loads(text)
        value["told"] = {subject: LastAlert(**last) for subject, last in value["told"].items()}
        value["outbox"] = tuple((number, Message.read(body)) for number, body in value["outbox"])
        value["sent"] = tuple(value["sent"])
        return cls(**value)


class Watch:
    """Checks the store of one app, and sends its alerts."""

    def __init__(self, alerts: Alerts, app: Redrive) -> None:
        self._alerts = alerts
        self._app = app
        self._failed: dict[str, float] = {}  # when each channel last failed
        self._next = 0.0
        self._watching = False
        self._one_at_a_time = threading.Lock()
        """Several threads of a program may run passes at the same time."""
        self._store_url = ""
        self._failing_since: float | None = None
        self._sent_directly: float | None = None
        self._each = Each(alerts, app, self._submit)
        self.entry = Entry(
            name=NAME,
            function=self.send,
            arguments=Arguments(self.send, NAME),
            policy=POLICY,
            lane=NAME,
            isolation="thread",
        )

    def tick(self) -> None:
        """Check if it is time, submit decided messages, and send what is due. It never raises."""
        with self._one_at_a_time:
            self._tick()

    def _tick(self) -> None:
        try:
            store = self._app.submitter.store
            self._note_channels(store)
            if self._take_turn(store) and time.monotonic() >= self._next:
                self._look(store)
            self._each.flush()
            self._send_due(store)
        except StoreError as error:
            self._store_failed(error)
        except Exception:
            log.exception("checking for alerts failed; trying again")
        else:
            self._store_works()

    def _note_channels(self, store: Store) -> None:
        """Note the channels of this program once, for `redrive alerts list`."""
        if not self._store_url:
            channels = [
                {"name": channel.name, "kind": kind_of(channel), "reads": list(channel.variables)}
                for channel in self._alerts.channels.values()
            ]
            store.note(_CHANNELS, json.dumps({"channels": channels}), expires_in=_CHANNELS_LAST)
            self._store_url = store.url

    def _look(self, store: Store) -> None:
        """Check the store, and set the time of the next check by how long it took."""
        began = time.monotonic()
        try:
            self.look(store)
        except StoreError:
            raise
        except Exception:
            log.exception("checking for alerts failed; trying again")
        self._next = began + _SHARE * (time.monotonic() - began)

    def leave(self) -> None:
        """Release the turn, so that another process can check at once."""
        self._next = 0.0
        with suppress(StoreError):  # else it ends by itself
            store = self._app.submitter.store
            for note in store.notes(_TURN):
                if note.value == self._app.submitter.holder:
                    store.note(_TURN, None, expected=note.version)

    def _take_turn(self, store: Store) -> bool:
        last, holder = next(iter(store.notes(_TURN)), None), self._app.submitter.holder
        if last is not None and last.value != holder:
            self._watching = False
            return False
        version = 0 if last is None else last.version
        taken = store.note(_TURN, holder, expected=version, expires_in=_LASTS)
        self._watching = taken is not None
        return self._watching

    def look(self, store: Store) -> None:
        """Decide which messages to send, store them, and make jobs of them."""
        book, version = self._book(store)
        book, version = self._handed_over(store, book, version)
        now = store.now()
        sent = tuple(at for at in book.sent if 0 <= now - at < _SPAN)  # clocks are set back, too
        if len(sent) >= MOST:
            return
        rules = self._alerts.rules
        world = look(self._app.desk, book.told, rules, born=book.born)
        changes, alerts = judge(world, book.told, rules)
        if alerts == book.told and version:
            return
        messages = self._worded(changes, now)
        outbox = tuple(enumerate(messages, book.number + 1))
        after = replace(
            book,
            number=book.number + len(messages),
            told=alerts,
            sent=(*sent, *(now for _ in messages)),
            outbox=outbox,
        )
        note = store.note(_NOTE, after.written(), expected=version, durable=True)
        if note is not None:
            self._handed_over(store, after, note.version)

    def _book(self, store: Store) -> tuple[Book, int]:
        note = next((note for note in store.notes(_NOTE) if note.name == _NOTE), None)
        if note is None:
            return Book(born=store.now()), 0
        try:
            return Book.read(note.value), note.version
        except (ValueError, TypeError, KeyError):
            log.exception("the record of sent alerts cannot be read; starting with an empty one")
            return Book(born=store.now()), note.version

    def _source(self) -> messages.Source:
        return messages.Source(store=self._store_url, wording=self._alerts.wording)

    def _worded(self, changes: list[Change], now: float) -> list[Message]:
        source = self._source()
        if len(changes) > FEW:
            return [messages.folded(changes, now, source)]
        return [
            messages.worded(
                change,
                now,
                source,
                newest(self._app.desk, change.about) if isinstance(change.about, Cause) else (),
            )
            for change in changes
        ]

    def _handed_over(self, store: Store, book: Book, version: int) -> tuple[Book, int]:
        """Submit the decided messages as jobs, then remove them from the note."""
        if not book.outbox:
            return book, version
        for number, message in book.outbox:
            log.info("alert: %s", message.title)
            for name in self._alerts.channels:
                key = f"alert-{int(book.born)}-{number}-{name}"
                covered = self._each.covers(name, message)
                if not covered and _may_send(store, message, name, key):
                    self._submit(message, name, key)
        after = replace(book, outbox=())
        note = store.note(_NOTE, after.written(), expected=version, durable=True)
        return after, note.version if note is not None else 0

    def _submit(self, message: Message, channel: str, key: str) -> None:
        """Store a message as a job; one that has the key already is the same message."""
        payload = strict_json.dumps({"channel": channel, "message": asdict(message)})
        with suppress(KeyConflict):  # the program has worded it differently since
            self._app.submitter.submit(self.entry, payload, Options(key=key))

    def _send_due(self, store: Store) -> None:
        presence.serve(store, NAME)
        submitter, registry = self._app.submitter, Registry()
        registry.add(self.entry)
        holder = f"{submitter.holder}-alerts"
        PassRunner(Runtime(store, registry, submitter.bus, submitter.settings, holder)).run()

    def send(self, channel: str, message: Any) -> str:
        """Send one message; the handler of its job."""
        known: Channel | None = self._alerts.channels.get(channel)
        if known is None:
            raise UsageError(f"no channel {channel!r}; known: {', '.join(self._alerts.channels)}")
        now = self._app.submitter.settings.clock.now()
        if 0 <= now - self._failed.get(channel, -_REST) < _REST:
            raise RetryLater(f"{channel} failed a moment ago", after=_REST)
        try:
            return known.send(Message.read(message), ident=current().key)
        except Exception:
            self._failed[channel] = now
            raise

    def _store_failed(self, error: StoreError) -> None:
        """Report a store that fails: on standard error, then by each channel if this process watches."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            sys.stderr.write(f"redrive: alerts cannot use the store: {inert(error_text(error))}\n")
        last = self._sent_directly
        is_due = now - self._failing_since >= _PATIENCE and (last is None or now - last >= _AGAIN)
        if self._watching and is_due:
            self._sent_directly = now
            self._send_directly("the store cannot be used", error_text(error), "store_down")

    def _store_works(self) -> None:
        if self._sent_directly is not None:
            self._send_directly("the store can be used again", "", "store_up")
        self._failing_since = self._sent_directly = None

    def _send_directly(self, title: str, text: str, state: str) -> None:
        clock = self._app.submitter.settings.clock
        text = "\n".join([*([text] if text else []), *self._source().lines()])
        message = messages.plain(f"Redrive: {title}", text, clock.now(), state=state)
        sys.stderr.write(f"redrive: {inert(message.text)}\n")
        for name, channel in self._alerts.channels.items():
            try:
                channel.send(message, ident=f"direct-{state}-{time.time():.0f}")
            except Exception as error:  # noqa: BLE001 - best effort, and the others are to be tried
                log.warning("alert by %s failed: %s", name, error_text(error))


def _may_send(store: Store, message: Message, channel: str, key: str) -> bool:
    """Return False if the same was sent by another decision: what was told may be lost."""
    group = message.facts.get("group")
    if not isinstance(group, str):
        return True
    every = _NEW_EVERY if message.state == "new" else _SAME_EVERY
    name = f"alert:{group}:{channel}:{message.state}"
    if store.note(name, key, expected=0, expires_in=every, durable=True) is not None:
        return True
    return any(
        (note.name, note.value) == (name, key) for note in store.notes(name)
    )  # after a crash


def kind_of(channel: Channel) -> str:
    """Return what kind of channel it is, such as slack."""
    return type(channel).__name__.lower()


def channels_noted(store: Store) -> list[dict[str, Any]]:
    """Return the channels of the program that watched a store last: name, kind, and what each reads."""
    try:
        (note,) = (note for note in store.notes(_CHANNELS) if note.name == _CHANNELS)
        return [
            {"name": str(one["name"]), "kind": str(one["kind"]), "reads": list(one["reads"])}
            for one in note.fields["channels"]
        ]
    except (KeyError, TypeError, ValueError):  # nobody watched, or another program wrote it
        return []
