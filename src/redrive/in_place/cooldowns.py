"""Cooldowns of providers: pauses, kept as notes in a store and so shared by all workers.

`pause:provider:NAME` lives as long as the cooldown. It is a pause like any other: `redrive status`
shows it, `redrive resume provider:NAME` ends it, and a pause that a person sets is not changed
here. The note `cooled:NAME` is kept an hour longer, so that the next cooldown is longer than the
last, and one caller at a time probes the provider. It also holds the jobs that failed for a reason
that may be their own: `ENOUGH` different jobs within `WINDOW` start a cooldown too, and one success
removes them.

Every write is a compare-and-set on what was read before the provider was called: of many callers
that fail at once only one counts, and a later one changes nothing, unless the server asked it to
wait longer. If the store does not answer, providers are called as if there were no cooldowns.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from redrive.classify.clues import as_whole
from redrive.jobs import durations, logger
from redrive.jobs.job import Category, Failure
from redrive.payloads import masking
from redrive.stores.contract import Store
from redrive.stores.note_verbs import PAUSE, Note
from redrive.strategies import RetryStrategy, delay_after, exponential

log = logger.log.getChild("fallback")
T = TypeVar("T")
_CATEGORIES = {category.value: category for category in Category}

PROVIDER = PAUSE + "provider:"
"""What the names of providers' pauses begin with; the provider's name follows."""
COOLED = "cooled:"
COOLDOWN = exponential(30, cap=600, jitter="none")
"""The cooldown where neither the provider nor the program sets one."""
ENOUGH = 3
"""This many different jobs must fail before failures that may be their own start a cooldown."""
WINDOW = 300.0  # seconds in which they must fail
_REMEMBERED = 3600.0  # seconds after a cooldown in which another one is longer
_PROBE = 60.0  # seconds that a probe has until another caller may try
_LONGER = 1.0  # seconds by which a second hint must end later than the first to be stored
_TRIES = 5


class Override:
    """Where tests keep all cooldowns outside of jobs."""

    store: Store | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one provider: paused or not, and its recent failures."""

    name: str
    left: float | None = None
    """Seconds until its pause ends, for ever being infinity; None if it is not paused."""
    is_explicit: bool = False
    """True if the server or a person set the length of the pause; else Redrive estimated it."""
    is_ours: bool = False
    """True if the pause is a cooldown; False if a person paused it."""
    is_probed: bool = False
    """True if a worker is probing it right now."""
    category: Category = Category.TRANSIENT
    reason: str = ""
    count: int = 0
    """Cooldowns in a row."""
    failed: Mapping[str, float] = field(default_factory=dict[str, float])
    """When which jobs failed for a reason that may be their own, in the last minutes."""
    pause: int = 0
    """The version of the pause."""
    memory: int = 0
    """The version of what is remembered."""


@dataclass(frozen=True, slots=True)
class Cooling:
    """The cooldowns in one store: how long they are, and whose turn it is to probe."""

    store: Store
    strategy: RetryStrategy
    longest: float

    def look(self, names: Collection[str]) -> list[Standing]:
        """Return the state of these providers."""
        return self._fenced(lambda: self._look(names)) or [Standing(name) for name in names]

    def _look(self, names: Collection[str]) -> list[Standing]:
        pauses = {note.name: note for note in self.store.notes(PROVIDER)}
        memories = {note.name: note for note in self.store.notes(COOLED)}
        if not pauses and not memories:
            return []
        now = self.store.now()
        return [
            _standing(name, pauses.get(PROVIDER + name), memories.get(COOLED + name), now)
            for name in names
        ]

    def probe(self, standing: Standing) -> Standing | None:
        """Claim the first call of a provider after its cooldown; None if another process has it."""
        if not standing.count:
            return standing
        if standing.is_probed:
            return None
        written = self._fenced(
            lambda: self._remember(standing, lasts=_REMEMBERED, probe=self.store.now())
        )
        return replace(standing, memory=written.version) if written else None

    def cool(self, standing: Standing, failure: Failure) -> float:
        """Start a cooldown after a failure; return its seconds."""
        hinted = failure.hint is not None
        asked = failure.hint if failure.hint is not None else self._guess(standing.count)
        seconds = min(asked, self.longest)
        left = standing.left or 0.0
        if left >= seconds or (standing.left is not None and not standing.is_ours):
            return left
        self._fenced(lambda: self._cool(standing, failure, seconds, hinted=hinted))
        return seconds

    def _guess(self, count: int) -> float:
        """Ask the strategy; if it raises, use the default, so that the next provider is still called."""
        try:
            return delay_after(self.strategy, count, random.random)
        except Exception as error:  # noqa: BLE001 - user code
            name, usual = type(self.strategy).__name__, delay_after(COOLDOWN, count, random.random)
            log.warning("%s raised %s: the usual cooldown is used", name, type(error).__name__)
            return usual

    def _cool(self, standing: Standing, failure: Failure, seconds: float, *, hinted: bool) -> None:
        lasts = seconds + _REMEMBERED
        counted = self._remember(standing, lasts=lasts, count=standing.count + 1)
        paused = counted and self._pause(standing, failure, seconds, hinted=hinted)
        if hinted and not paused:
            self._prolong(standing.name, failure, seconds)

    def suspect(self, name: str, job: str, failure: Failure) -> float | None:
        """Count a failure that may be the job's own; return the seconds if it starts a cooldown."""
        return self._fenced(lambda: self._suspect(name, job, failure))

    def _suspect(self, name: str, job: str, failure: Failure) -> float | None:
        for _ in range(_TRIES):
            (standing,) = self._look([name]) or [Standing(name)]
            if standing.left is not None:
                return standing.left  # others were faster
            failed = {**standing.failed, job: self.store.now()}
            lasts = _REMEMBERED if standing.count else WINDOW
            if written := self._remember(standing, lasts=lasts, failed=failed):
                counted = replace(standing, failed=failed, memory=written.version)
                return self.cool(counted, failure) if len(failed) >= ENOUGH else None
        return None

    def _prolong(self, name: str, failure: Failure, seconds: float) -> None:
        """Apply the server's hint to a cooldown that another process started and that ends sooner."""
        for _ in range(_TRIES):
            (standing,) = self._look([name]) or [Standing(name)]
            least = seconds - _LONGER if standing.is_explicit else seconds
            if not standing.memory or (standing.left or 0.0) >= least:
                return
            if standing.left is not None and not standing.is_ours:
                return
            if self._pause(standing, failure, seconds, hinted=True):
                self._remember(standing, lasts=seconds + _REMEMBERED)
                return

    def _pause(self, standing: Standing, failure: Failure, seconds: float, *, hinted: bool) -> bool:
        why = f"{failure.category}, {failure.why}"
        value = {
            "by": "fallback",
            "reason": why,
            "since": self.store.now(),
            "category": failure.category,
            "told": hinted,
        }
        if not self._write(PROVIDER + standing.name, value, standing.pause, seconds):
            return False
        level = log.error if failure.category is Category.AUTH else log.warning
        span = durations.words(seconds)
        level("%s is in cooldown for %s: %s", standing.name, span, masking.inert(why))
        return True

    def warm(self, standing: Standing) -> None:
        """Record that a provider works again."""
        if standing.memory:
            self._fenced(lambda: self._warm(standing))

    def _warm(self, standing: Standing) -> None:
        if standing.pause and standing.is_ours:
            self.store.note(PROVIDER + standing.name, None, expected=standing.pause)
        forgotten = self.store.note(COOLED + standing.name, None, expected=standing.memory)
        if forgotten and standing.count:
            log.info("%s works again", standing.name)

    def _remember(self, standing: Standing, *, lasts: float, **changes: object) -> Note | None:
        """Store what is known of a provider; None if another process did meanwhile."""
        value = {"count": standing.count, "failed": standing.failed, **changes}
        return self._write(COOLED + standing.name, value, standing.memory, lasts)

    def _write(self, name: str, value: object, expected: int, lasts: float) -> Note | None:
        return self.store.note(name, json.dumps(value), expected=expected, expires_in=lasts)

    def _fenced(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - a store of the user's own may raise anything
            log.warning("cooldowns are not stored, because the store does not answer: %s", error)
            return None


def _standing(name: str, pause: Note | None, memory: Note | None, now: float) -> Standing:
    paused, remembered = (note.fields if note else {} for note in (pause, memory))
    left = None if pause is None else math.inf if pause.expires_in is None else pause.expires_in
    probed = remembered.get("probe")
    return Standing(
        name,
        left=left,
        is_explicit=pause is not None and paused.get("told") is not False,
        is_ours="category" in paused,
        is_probed=isinstance(probed, float) and 0 <= now - probed < _PROBE,
        category=_CATEGORIES.get(paused.get("category", ""), Category.TRANSIENT),
        reason=str(paused.get("reason", "")),
        count=as_whole(remembered.get("count")) or 0,
        failed=_recent(remembered.get("failed"), now),
        pause=pause.version if pause else 0,
        memory=memory.version if memory else 0,
    )


def _recent(failed: object, now: float) -> dict[str, float]:
    """Return the last jobs that failed within the window."""
    if not isinstance(failed, dict):
        return {}
    pairs = cast("dict[str, object]", failed).items()
    recent = {job: at for job, at in pairs if isinstance(at, float) and 0 <= now - at < WINDOW}
    return dict(sorted(recent.items(), key=lambda pair: pair[1])[-ENOUGH:])
