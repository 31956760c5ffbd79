"""Policies with a name, exact to the second. `DEFAULT` is what a handler gets that names none."""

from __future__ import annotations

from collections.abc import Mapping

from redrive.policies.policy import DEAD, Keep, Pause, Policy, Rule
from redrive.strategies import constant, exponential

_DAY = 86400.0
_FOREVER = Keep(completed=_DAY, resolved=_DAY, dead=None)

DEFAULT = Policy(max_age="7d", pause=Pause(), keep=_FOREVER)
"""The table of categories, 25 attempts in all, a week at most; an outage pauses the lane."""

HOOKS = Policy(
    attempts=5,
    wait=exponential(60, cap=3600, jitter="30s"),
    alike=True,
    hints="ignore",
    keep=Keep(completed=_DAY, resolved=_DAY, dead=7 * _DAY),
)
"""Hooks posted from a scheduled script: 1, 2, 4, 8 minutes ± 30 s, dead at the fifth failure."""

ARTICLES = Policy(
    attempts=6,
    wait=exponential(300, cap=86400, jitter="none"),
    alike=True,
    hints="floor",
    keep=_FOREVER,
)
"""Articles for an AI service: 5 minutes, doubling, five retries."""

SUMMARIES = Policy(
    attempts=3,
    wait=constant(0, jitter="none"),
    alike=True,
    hints="ignore",
    keep=Keep(completed=None, resolved=None, dead=None),
)
"""A job table behind a service: three attempts without a wait; nothing is ever deleted."""

SYNC = Policy(
    attempts=10,
    wait=exponential(1, cap=300, jitter="none"),
    alike=True,
    rate_limit=Rule(attempts=4, wait=constant(10, jitter="none")),
    auth=DEAD,
    invalid=DEAD,
    permanent=DEAD,
    hints="floor",
    keep=Keep(completed=_DAY, resolved=None, dead=None),
)
"""Data on its way to a warehouse: 1, 2, 4 … 256 s, dead at the tenth failure."""

EVENTS = Policy(
    attempts=4,
    wait=exponential(1, cap=300, jitter=0.2),
    alike=True,
    auth=DEAD,
    invalid=DEAD,
    permanent=DEAD,
    hints="ignore",
    keep=_FOREVER,
)
"""Events of a stream: 1, 2, 4 s ± 20 %, three retries."""

PRESETS: Mapping[str, Policy] = {
    "DEFAULT": DEFAULT,
    "HOOKS": HOOKS,
    "ARTICLES": ARTICLES,
    "SUMMARIES": SUMMARIES,
    "SYNC": SYNC,
    "EVENTS": EVENTS,
}
"""Every preset by its name."""
