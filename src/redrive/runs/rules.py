"""The rules of a run: when it stops, how many jobs it lets go now, and how people write them down.

Pure: the counts and the time come in as arguments. `driver` carries out what is decided here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

from redrive.errors import UsageError
from redrive.jobs import checks
from redrive.runs.run_records import Counts, Run, Spec

SLICE = 1000  # how many jobs of a run are let go and not yet tried, at most
AHEAD = 2.0  # seconds for which jobs are let go in advance: what is let go can be paused no more
RAMP_STEP = 10.0  # seconds after which a ramp doubles; it begins at a tenth of the rate
JUDGED_FROM = 10  # how many jobs must have been tried before a share of them means anything
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*(s|m|h))?")
_STOP = re.compile(r"(\d{1,9})|(\d{1,3}(?:\.\d{1,9})?)\s*%")
_FULL = 100.0


def stops(run: Run, counts: Counts) -> str:
    """Return why a run must go no further; empty while it may.

    A job whose first attempt failed counts as failed while it waits for its next one: retries may
    take a day. It counts as succeeded if it does succeed before the run stops.
    """
    failed, tried = counts.failed + counts.failing, counts.ended + counts.failing
    if run.spec.canary and not run.passed and run.released >= run.spec.canary:
        awaited = counts.untried if counts.waiting else counts.working
        if awaited == 0 and failed and _is_too_many(run.spec.stop_on or "1", failed, tried):
            return f"{failed:,} of {tried:,} canary jobs failed again"
        if counts.waiting:
            return ""  # judged as a whole, once all of it was tried
    return (
        too_many(run.spec.stop_on, failed, tried, canary=run.spec.canary) if counts.waiting else ""
    )


def too_many(stop_on: str, failed: int, tried: int, *, canary: int = 0) -> str:
    """Return how many failed, if these are too many; a share is judged once enough were tried."""
    few = stop_on.endswith("%") and tried < max(JUDGED_FROM, canary)
    if not stop_on or few or not _is_too_many(stop_on, failed, tried):
        return ""
    return f"{failed:,} of {tried:,} failed again"


def _is_too_many(stop_on: str, failed: int, tried: int) -> bool:
    if stop_on.endswith("%"):
        return failed > 0 and failed * _FULL >= float(stop_on[:-1]) * tried
    return failed >= int(stop_on)


def due(run: Run, counts: Counts, now: float) -> tuple[Run, list[float]]:
    """Return how many jobs to let go now, each with its delay, and what to remember of it."""
    canary = run.spec.canary
    if canary and not run.passed:
        if run.released < canary:
            return run, [0.0] * min(canary - run.released, counts.waiting)
        if counts.untried:
            return run, []
        run = replace(run, passed=True)
    rate = run.spec.rate
    most = SLICE if rate is None else max(SLICE, int(rate * AHEAD))
    room = min(counts.waiting, most - counts.untried)
    if rate is None:
        return run, [0.0] * room
    return _paced(run, rate, room, now)


def _paced(run: Run, rate: float, room: int, now: float) -> tuple[Run, list[float]]:
    """Spread what is due in the next seconds; time in which nobody looked is not made up for."""
    at, ramped = max(run.paced, now), run.ramped or now
    delays: list[float] = []
    while at < now + AHEAD and len(delays) < room:
        delays.append(at - now)
        at += 1.0 / speed(run.spec, rate, at - ramped)
    return replace(run, paced=at, ramped=ramped), delays


def speed(spec: Spec, rate: float, passed: float) -> float:
    """Return the jobs a second at so many seconds into a ramp."""
    if not spec.ramp:
        return rate
    return min(rate, rate / 10 * float(1 << min(int(passed // RAMP_STEP), 10)))


def spec_of(*, canary: int = 0, rate: float | str | None = None, ramp: bool, stop_on: str) -> Spec:
    """Make a spec of what people say; refuses what would not do what it seems to."""
    checks.whole(canary, "canary", least=0)
    if ramp and rate is None:
        raise UsageError("ramp needs a rate, such as 20/s")
    limit = checks.text(stop_on, "stop_on").replace(" ", "")
    most = _FULL if limit.endswith("%") else inf
    if limit and not (_STOP.fullmatch(limit) and 0 < float(limit.rstrip("%")) <= most):
        msg = f"stop_on must be a share such as 10% or a number of jobs, above 0; found {stop_on!r}"
        raise UsageError(msg)
    per_second = None if rate is None else rate_of(rate)
    return Spec(canary=canary, rate=per_second, ramp=ramp, stop_on=limit)


def rate_of(value: float | str) -> float:
    """Turn a rate into jobs a second.

    >>> rate_of("20/s"), rate_of("30/m"), rate_of(5)
    (20.0, 0.5, 5.0)
    """
    parts = _RATE.fullmatch(str(value).strip())
    number = float(parts[1]) / _UNITS[parts[2] or "s"] if parts else 0.0
    if number <= 0:
        raise UsageError(f"a rate must be like 20/s, 30/m or 100/h, above 0; found {value!r}")
    return number
