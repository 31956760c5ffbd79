"""Policies named after their use, exact to the second. A handler without a policy has `DEFAULT`."""

from __future__ import annotations

from collections.abc import Mapping

from redrive.policies.policy import DEAD, Keep, Pause, Policy, Rule
from redrive.strategies import constant, exponential

_DAY = 86400.0
_FOREVER = Keep(completed=_DAY, resolved=_DAY, dead=None)

DEFAULT = Policy(max_age="7d", pause=Pause(), keep=_FOREVER)
"""The table of categories, 25 attempts in all, a week at most; an outage pauses the lane."""

WEBHOOKS = Policy(
    attempts=5,
    wait=exponential(60, cap=3600, jitter="30s"),
    alike=True,
    hints="ignore",
    keep=Keep(completed=_DAY, resolved=_DAY, dead=7 * _DAY),
)
"""Requests to a receiver that may be down for minutes: 1, 2, 4, 8 minutes ± 30 s, five attempts."""

LLM = Policy(
    attempts=6,
    wait=exponential(300, cap=86400, jitter="none"),
    alike=True,
    hints="floor",
    keep=_FOREVER,
)
"""Calls of a model with long rate limits: 5 minutes, doubling, six attempts."""

BATCH = Policy(
    attempts=3,
    wait=constant(0, jitter="none"),
    alike=True,
    hints="ignore",
    keep=Keep(completed=None, resolved=None, dead=None),
)
"""A job table that is processed in passes: three attempts without a wait; nothing is deleted."""

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
"""Data sent to another system: 1, 2, 4 … 256 s, ten attempts; a rate limit four, every 10 s."""

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
"""Short actions while a program waits: 1, 2, 4 s ± 20 %, four attempts."""

PRESETS: Mapping[str, Policy] = {
    "DEFAULT": DEFAULT,
    "WEBHOOKS": WEBHOOKS,
    "LLM": LLM,
    "BATCH": BATCH,
    "SYNC": SYNC,
    "EVENTS": EVENTS,
}
"""Every preset by its name."""
