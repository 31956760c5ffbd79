"""One call that is retried in place: its failures, and what follows each of them.

Nothing here decides. A call that fails becomes a job in memory, which is handled like any other:
`classify`, `decide`, `jobs.transitions`. `on=` only selects the errors that come this far.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from threading import RLock

from redrive.classify import classify
from redrive.errors import GiveUp, Skip
from redrive.in_place import waiting
from redrive.in_place.options import MISSING, Plan, Raised, RetryEvent
from redrive.jobs import durations, logger, transitions
from redrive.jobs.job import Category, Dead, Failure, Job, Reason, Retry, Verdict
from redrive.jobs.outcomes import Failed, Outcome
from redrive.policies import decide
from redrive.policies.policy import Policy
from redrive.strategies import Rand

log = logger.log.getChild("retry")


class _Failures:
    """The failed attempts of this process; a forked child begins at 0, with a lock that is free."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = RLock()  # a signal handler may retry, too
        self._numbers: Counter[tuple[str, str, str]] = Counter()

    def add(self, outcome: str, name: str, category: str) -> None:
        with self._lock:
            self._numbers[outcome, name, category] += 1

    def counts(self) -> dict[tuple[str, str, str], int]:
        with self._lock:
            return dict(self._numbers)


_failures = _Failures()
os.register_at_fork(after_in_child=_failures.forget)


def counts() -> dict[tuple[str, str, str], int]:
    """Return how often this process retried and gave up, by outcome, function and category."""
    return _failures.counts()


class Walk:
    """The failures of one call: a job that is not stored."""

    def __init__(self, policy: Policy, began: float, rand: Rand, name: str = "") -> None:
        self.policy = policy
        self.rand = rand
        self.job = Job(
            id="",
            handler=name,
            lane=name,
            payload="{}",
            created=began,
            due=began,
            since=began,
            updated=began,
        )

    def after(self, outcome: Outcome, now: float) -> Verdict:
        """Count an attempt with this outcome, and return what happens to the call."""
        job = transitions.claimed(self.job, holder="", now=now, lease_end=now)
        verdict = decide.decide(job, outcome, self.policy, now, self.rand)
        failure = outcome.failure if isinstance(outcome, Failed) else None
        self.job = transitions.settled(job, verdict, failure, now=now, group=None)
        return verdict


class Call:
    """One call from its first failure on."""

    def __init__(self, plan: Plan, began: float) -> None:
        limit, policy = waiting.TEST_MODE.attempts, plan.policy
        if limit is not None:
            policy = policy.limited(min(limit, policy.max_attempts))
        self._plan = plan
        self._walk = Walk(policy, began, plan.rand, plan.name)
        self._waited = 0.0
        self.delay = 0.0
        """Seconds until the next attempt."""
        self.falls_back = False
        """True if the call ended and returns its fallback."""

    @property
    def attempts(self) -> int:
        """How many attempts have failed."""
        return self._walk.job.attempts

    def goes_on(self, error: Exception) -> bool:
        """Count a failed attempt; return True if another follows after `delay` seconds."""
        if type(error) is Raised:
            raise error.wrong from error.wrong.__cause__
        failure = self._failure(error)
        if failure is None:
            log.debug("%s raised %s, which is not retried", self._plan.name, type(error).__name__)
            return False
        # Waits that tests skip count as if they had passed.
        is_skipped = waiting.TEST_MODE.is_on and self._plan.sleep is None
        now = self._plan.clock() + (self._waited if is_skipped else 0.0)
        verdict = self._walk.after(Failed(failure), now)
        self._report(error, failure, verdict)
        if isinstance(verdict, Retry):
            self.delay = verdict.delay
            self._waited += verdict.delay
            return True
        has_ended = isinstance(verdict, Dead) and verdict.reason is not Reason.PERMANENT
        self.falls_back = has_ended and self._plan.fallback is not MISSING
        return False

    def _failure(self, error: Exception) -> Failure | None:
        """Return what an error means; None if it is not to be retried."""
        on, policy = self._plan.on, self._plan.policy
        if issubclass(type(error), Skip | GiveUp):
            return None
        is_named = on is not None and on.names(error)
        if on is not None and not is_named and not on.categories:
            return None
        failure = classify(error, rules=policy.on, now=time.time())
        category = failure.category
        if on is not None:
            if not is_named and category not in on.categories:
                return None
            is_unknown = category is Category.UNKNOWN and policy.named(category) is None
            if is_unknown or policy.rule(category).dead:  # retried only because `on` names it
                failure = replace(failure, category=Category.TRANSIENT)
        asked = self._plan.wait(error) if self._plan.wait is not None else None
        if asked is not None:
            seconds = durations.seconds(asked, name="the result of wait")
            failure = replace(failure, hint=seconds, hint_source=decide.HANDLER)
        return failure

    def _report(self, error: Exception, failure: Failure, verdict: Verdict) -> None:
        """Log and count a failed attempt, then call the hook; what it raises is raised."""
        name, attempt, category = self._plan.name, self.attempts, failure.category
        if isinstance(verdict, Dead):
            _failures.add("given_up", name, category.value)
            count = "1 attempt" if attempt == 1 else f"{attempt} attempts"
            why = verdict.detail if verdict.reason is Reason.EXPIRED else failure.why
            note = f"given up after {count}, {verdict.reason}: {why}"
            log.warning("%s: %s", name, note)
            with suppress(Exception):  # an error may be raised again and again, and refuse notes
                if f"redrive: {note}" not in getattr(error, "__notes__", ()):
                    error.add_note(f"redrive: {note}")
        elif isinstance(verdict, Retry):
            _failures.add("retried", name, category.value)
            delay = durations.words(verdict.delay)
            text = "%s failed, attempt %d, %s (%s); next attempt in %s"
            log.info(text, name, attempt, category, failure.why, delay)
            if self._plan.on_retry is not None:
                event = RetryEvent(name, attempt, self._waited, error, failure, verdict.delay)
                self._plan.on_retry(event)
