"""The watch: one process at a time checks the store, decides which alerts are due, and sends them.

What was sent is in one note, changed by compare-and-set after the messages became jobs, one per channel,
whose idempotency keys have the version of that note: a process that dies in between leaves it as it was,
and the next one submits the same jobs. Messages are sent here too, outside the slots of the worker: a
channel that hangs delays no job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from redrive.alerts import messages
from redrive.alerts.channels import Channel
from redrive.alerts.conditions import NAME, look, newest
from redrive.alerts.messages import Message, Source, Text
from redrive.alerts.rules import SPAN, Change, LastAlert, Memory, judge
from redrive.attempts import presence
from redrive.attempts.runtime import Runtime
from redrive.context import current
from redrive.errors import KeyConflict, RetryLater, StoreError, UsageError
from redrive.jobs.job import Group, Job
from redrive.jobs.logger import log
from redrive.payloads import strict_json
from redrive.payloads.arguments import Arguments
from redrive.payloads.masking import error_text
from redrive.payloads.wildcards import matches
from redrive.policies.policy import Keep, Policy
from redrive.registry import Entry, Registry
from redrive.strategies import exponential
from redrive.submission import Options
from redrive.worker.passes import PassRunner

if TYPE_CHECKING:
    from redrive.alerts import Alerts
    from redrive.app import Redrive
    from redrive.events import Event
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
SINGLES = 20  # per-job alerts in ten minutes, at most; what comes then is a message about the group
LISTENER = "alerts"
_NOTE, _TURN, _CLAIM, _SINGLE = "alerts", "alerts:turn", "alert:", "alert:job:"
_NEW_EVERY, _SAME_EVERY = 86400.0, 30.0
"""Seconds in which a channel is sent one message that a group is new, and one of each other kind."""
_LASTS = 15.0  # seconds for which a process keeps its turn: less than the silence that is reported
_SHARE = 20.0
"""A check may take 1/20 of the time: after one that took a second, the next waits twenty."""
_REST = 30.0  # seconds for which a channel that failed is not tried again


class Watch:
    """Checks the store of one app, and sends its alerts."""

    def __init__(self, alerts: Alerts, app: Redrive) -> None:
        self._alerts = alerts
        self._app = app
        self._failed: dict[str, float] = {}  # when each channel last failed
        self._next = 0.0
        self._store_fails = False
        self.entry = Entry(
            name=NAME,
            function=self.send,
            arguments=Arguments(self.send, NAME),
            policy=POLICY,
            lane=NAME,
            isolation="thread",
        )
        if alerts.each:
            app.on("died", name=LISTENER)(self.heard)

    def tick(self) -> None:
        """Check if it is time, and send what is due. It never raises."""
        try:
            store = self._app.submitter.store
            if self._take_turn(store) and time.monotonic() >= self._next:
                self._look(store)
            self._send_due(store)
        except StoreError as error:
            if not self._store_fails:
                log.warning("alerts cannot use the store: %s", error_text(error))
            self._store_fails = True
        except Exception:
            log.exception("checking for alerts failed; trying again")
        else:
            self._store_fails = False

    def _look(self, store: Store) -> None:
        """Check the store, and set the time of the next check by how long it took."""
        began = time.monotonic()
        try:
            self.look(store)
        except StoreError:
            raise
        except Exception:  # what is decided already is sent all the same
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
            return False
        version = 0 if last is None else last.version
        return store.note(_TURN, holder, expected=version, expires_in=_LASTS) is not None

    def look(self, store: Store) -> None:
        """Decide which messages to send, make jobs of them, and store what was told."""
        told, sent, version = _told(store)
        now = store.now()
        sent = [at for at in sent if 0 <= now - at < SPAN]  # clocks are set back, too
        if not version or len(sent) >= MOST:
            return
        world = look(self._app.desk, told, self._alerts.rules)
        changes, after = judge(world, told, self._alerts.rules)
        if after == told:
            return
        if len(changes) > FEW:
            message = messages.folded(changes, now, self._source(store))
            self._send_all(lambda _: message, f"alert-{version}-many")
        else:
            for change in changes:
                self._tell(store, change, now, f"alert-{version}-{change.subject}")
        sent += [now] * min(len(changes), 1 if len(changes) > FEW else FEW)
        text = {"told": {subject: asdict(last) for subject, last in after.items()}, "sent": sent}
        written = json.dumps(text, ensure_ascii=False)
        store.note(_NOTE, written, expected=version, durable=True)

    def _tell(self, store: Store, change: Change, now: float, key: str) -> None:
        """Submit the message for a change to each channel that may send it."""
        jobs: list[Job] = []
        if isinstance(change.about, Group):
            if change.state != "regressed" and self._is_each(change.about.handlers):
                return  # each of its jobs has its own
            jobs = newest(self._app.desk, change.about)
        source = self._source(store)
        self._send_all(
            lambda text: messages.of_change(change, now, source, jobs, text),
            key,
            claim=f"{change.subject}:{change.state}",
            every=_NEW_EVERY if change.state == "new" else _SAME_EVERY,
        )

    def _is_each(self, handlers: Collection[str]) -> bool:
        """Return True if the dead letters of these handlers are alerted one by one."""
        each = self._alerts.each
        fits = [any(matches(pattern, handler) for pattern in each) for handler in handlers]
        return bool(fits) and all(fits)

    def heard(self, event: Event) -> None:
        """Submit the message about one dead letter; when there were many, one about its group."""
        job, store = event.job, self._app.submitter.store
        if job is None or not self._is_each([job.handler]):
            return
        name, key = f"{_SINGLE}{event.number}", f"alert-job-{event.number}"
        singles, source = {note.name for note in store.notes(_SINGLE)}, self._source(store)
        if name in singles or len(singles) < SINGLES or job.group is None:
            store.note(name, "", expires_in=SPAN)
            self._send_all(lambda text: messages.of_job(job, event.at, source, text), key)
            return
        group, now = self._app.desk.groups.get(job.group), store.now()
        change = Change("growing", group.name, group)
        self._send_all(
            lambda text: messages.of_change(change, now, source, [job], text),
            key,
            claim=f"{group.name}:each",
            every=SPAN,
        )

    def _send_all(
        self,
        worded: Callable[[Text | None], Message],
        key: str,
        *,
        claim: str = "",
        every: float = 0.0,
    ) -> None:
        """Submit a message for each channel; with `claim` once in so many seconds."""
        store = self._app.submitter.store
        for name, channel in self._alerts.channels.items():
            own = f"{key}-{name}"
            if not claim or _may_send(store, f"{_CLAIM}{claim}:{name}", own, every):
                text: Text | None = getattr(channel, "text", None) or self._alerts.text
                message = worded(text)
                log.info("alert by %s: %s", name, message.title)
                payload = strict_json.dumps({"channel": name, "message": asdict(message)})
                with suppress(KeyConflict):  # it was worded by a process that died
                    self._app.submitter.submit(self.entry, payload, Options(key=own))

    def _source(self, store: Store) -> Source:
        service, base_url = self._alerts.service, self._alerts.base_url
        return Source(store=store.url, service=service, base_url=base_url)

    def _send_due(self, store: Store) -> None:
        presence.serve(store, NAME)
        submitter, registry = self._app.submitter, Registry()
        registry.add(self.entry)
        holder = f"{submitter.holder}-alerts"
        PassRunner(Runtime(store, registry, submitter.bus, submitter.settings, holder)).run()

    def send(self, channel: str, message: Any) -> str:
        """Send one message; the handler of its job, whose id names it over all stores."""
        known: Channel | None = self._alerts.channels.get(channel)
        if known is None:
            raise UsageError(f"no channel {channel!r}; known: {', '.join(self._alerts.channels)}")
        now = self._app.submitter.settings.clock.now()
        if 0 <= now - self._failed.get(channel, -_REST) < _REST:
            raise RetryLater(f"{channel} failed a moment ago", after=_REST)
        try:
            return known.send(Message.read(message), ident=f"alert-{current().job_id}")
        except Exception:
            self._failed[channel] = now
            raise


def _told(store: Store) -> tuple[Memory, list[float], int]:
    """Return the last alerts, when messages were decided, and the version of the note that says so.

    A note that is missing or cannot be read is made anew; version 0 if another process just did.
    """
    note = next((note for note in store.notes(_NOTE) if note.name == _NOTE), None)
    if note is not None:
        try:
            value: Mapping[str, Any] = json.loads(note.value)
            told = {subject: LastAlert(**last) for subject, last in value["told"].items()}
            return told, [float(at) for at in value["sent"]], note.version
        except (ValueError, TypeError, KeyError, AttributeError):
            log.exception("the record of sent alerts cannot be read; starting with an empty one")
    expected = 0 if note is None else note.version
    made = store.note(_NOTE, '{"told":{},"sent":[]}', expected=expected, durable=True)
    return {}, [], made.version if made is not None else 0


def _may_send(store: Store, claim: str, key: str, every: float) -> bool:
    """Return True to one key in `every` seconds; that key may ask again, after a crash."""
    if store.note(claim, key, expected=0, expires_in=every, durable=True) is not None:
        return True
    return any((note.name, note.value) == (claim, key) for note in store.notes(claim))
