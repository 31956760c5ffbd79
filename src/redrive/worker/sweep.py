"""Take over jobs whose worker vanished, and dead-letter those that no worker has a handler for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from redrive.attempts.conclusions import conclude, returned
from redrive.attempts.executions import crash, text_failure
from redrive.attempts.runtime import Runtime
from redrive.attempts.worker_notes import WORKER, missing, served
from redrive.errors import StoreError
from redrive.jobs import ids
from redrive.jobs.job import Category, Claim, Settlement, State
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Failed
from redrive.policies.policy import Policy
from redrive.stores.contract import Query, Store, every
from redrive.stores.note_verbs import note_named
from redrive.worker import suspects

Count = Callable[[Settlement], object]


def sweep(runtime: Runtime, count: Count = lambda _: None) -> int:
    """Take over jobs whose lease expired, and decide about each as about any failure.

    Only those of our own handlers: others have policies that we do not know. `count` is called with
    each crash that was settled; returns how many jobs were taken over.
    """
    return _take_over(runtime, "worker vanished, lease expired", None, count)


def sweep_holder(runtime: Runtime, holder: str) -> None:
    """Take over the jobs of a holder whose process has certainly ended; no lease need expire."""
    _take_over(runtime, "its worker process died", holder, lambda _: None)
    runtime.store.note(WORKER + holder, None)


def _take_over(runtime: Runtime, why: str, holder: str | None, count: Count) -> int:
    total = 0
    while claims := runtime.store.seize(
        # Without a note of attempts that began: if this process dies now, they count as begun.
        by=f"{runtime.holder}~",
        lease_for=runtime.lease_for,
        holder=holder,
        handlers=runtime.registry.names(),
    ):
        for claim in claims:
            _settle_crash(runtime, claim, why, count)
        total += len(claims)
    return total


def _settle_crash(runtime: Runtime, claim: Claim, why: str, count: Count) -> None:
    """Settle a job whose worker vanished; an error with one stops no other."""
    holder = claim.lost_by or ""
    log.warning("job %s: %s (held by %s)", claim.job.id, why, holder)
    entry = runtime.registry.need(claim.job.handler)
    try:
        if suspects.never_began(runtime.store, claim, entry):
            runtime.settle(returned(claim))
            return
        settlement = conclude(
            claim,
            crash(why),
            entry,
            started=claim.job.updated,
            duration=max(0.0, runtime.clock.now() - claim.job.updated),
            worker=ids.worker_of(holder),
            release=_release_of(runtime.store, holder),
            now=runtime.now(),
            rand=runtime.rand,
        )
        if runtime.settle(settlement) is not None:
            count(settlement)
    except StoreError:
        raise
    except Exception:
        log.exception("job %s could not be settled; it stays for the next sweep", claim.job.id)


def _release_of(store: Store, holder: str) -> str | None:
    """Return the release that a worker has noted; None if its note has expired."""
    note = note_named(store, WORKER + holder)
    release: object = note.fields.get("release") if note else None
    return release if isinstance(release, str) else None


def bury_unserved(runtime: Runtime, policy: Policy) -> int:
    """Dead-letter jobs that no worker has a handler for and that are older than the policy allows."""
    if policy.oldest is None:
        return 0
    store = runtime.store
    known = served(store, "handlers") | runtime.registry.names() | missing(store).keys()
    waiting = Query(states=frozenset({State.PENDING}), older_than=policy.oldest)
    too_old = store.now() - policy.oldest
    handlers = {
        job.id: job.handler
        for job in every(store, waiting)
        if job.handler not in known and job.since < too_old
    }
    return _bury(runtime, handlers) if handlers else 0


def _bury(runtime: Runtime, handlers: Mapping[str, str]) -> int:
    claims = runtime.store.claim(
        frozenset(handlers.values()),
        limit=len(handlers),
        holder=runtime.holder,
        lease_for=runtime.lease_for,
        only=list(handlers),
        ignore_waits=True,
    )
    for claim in claims:
        why = f"no handler named {claim.job.handler!r} anywhere"
        failure = text_failure(Category.PERMANENT, "NoHandler", why, claim.job.handler, final=True)
        runtime.settle(
            conclude(
                claim,
                Failed(failure),
                None,
                started=runtime.clock.now(),
                duration=0.0,
                worker=runtime.worker,
                release=runtime.release,
                now=runtime.store.now(),
            )
        )
    return len(claims)
