"""Who works on what: each worker leaves a note that ends soon after its last sign of life.

From these notes people see which lanes nobody serves. Jobs without a handler anywhere wait and spend
nothing; past the greatest age of the program's own policy they become dead letters.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

from redrive import __version__
from redrive.attempts.counters import EVERY
from redrive.attempts.executions import conclude, told
from redrive.jobs.job import Category, Failed, State
from redrive.policies.policy import Policy
from redrive.registry import Registry
from redrive.stores.contract import Query, Store, every
from redrive.stores.worker_notes import SERVES, WORKER, missing, served
from redrive.worker.runtime import Site

SIGN_EVERY = EVERY
LASTS = 3 * SIGN_EVERY


def sign(
    site: Site,
    since: float,
    *,
    lasts: float = LASTS,
    blocked: Mapping[str, object] | None = None,
) -> None:
    """Write that this process serves its handlers, and what it did since the last time.

    `blocked` names the job that blocks its event loop, and since when.
    A pass signs before and after: it may learn that it lacks a library that a handler needs.
    """
    value = {
        "version": __version__,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": since,
        "lasts": lasts,
        "handlers": sorted(site.registry.served_names()),
        "lanes": sorted(site.registry.served_lanes()),
        "missing": _missing(site.registry),
        **({"blocked": blocked} if blocked else {}),
    }
    site.store.note(WORKER + site.holder, json.dumps(value), expires_in=lasts)
    site.counters.write(site.store)


def _missing(registry: Registry) -> dict[str, list[str]]:
    """Return the handlers that this process cannot run: the lane of each, and why."""
    lost = registry.names() - registry.served_names()
    entries = {name: registry.need(name) for name in sorted(lost)}
    return {name: [one.lane, registry.withdrawn[one.name]] for name, one in entries.items()}


def serve(store: Store, name: str) -> None:
    """Say that this process runs the jobs of one handler and lane apart from its worker."""
    store.note(SERVES + name, "{}", expires_in=2 * LASTS)


def leave(site: Site) -> None:
    """Take the note away; what was done stays counted."""
    site.store.note(WORKER + site.holder, None)
    site.counters.write(site.store)


def bury_unserved(site: Site, policy: Policy) -> int:
    """Make dead letters of jobs that nobody has a handler for and that grew too old to wait."""
    if policy.oldest is None:
        return 0
    known = served(site.store, "handlers") | site.registry.names() | missing(site.store).keys()
    waiting = Query(states=frozenset({State.PENDING}), older_than=policy.oldest)
    too_old = site.store.now() - policy.oldest
    ids = {
        job.id: job.handler
        for job in every(site.store, waiting)
        if job.handler not in known and job.since < too_old
    }
    return _bury(site, ids) if ids else 0


def _bury(site: Site, ids: Mapping[str, str]) -> int:
    claims = site.store.claim(
        frozenset(ids.values()),
        limit=len(ids),
        holder=site.holder,
        lease_for=site.lease_for,
        only=list(ids),
        ignore_waits=True,
    )
    for claim in claims:
        why = f"no handler named {claim.job.handler!r} anywhere"
        failure = told(Category.PERMANENT, "NoHandler", why, final=True)
        site.settle(
            conclude(
                claim,
                Failed(failure),
                None,
                started=site.clock.now(),
                duration=0.0,
                worker=site.worker,
                now=site.store.now(),
            )
        )
    return len(claims)
