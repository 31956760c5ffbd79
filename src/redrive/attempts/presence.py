"""Notes in the store in which a worker or a pass writes what it serves; they expire without a renewal.

They show which lanes no worker serves. `redrive.attempts.worker_notes` reads them.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

from redrive import __version__
from redrive.attempts.counters import EVERY
from redrive.attempts.runtime import Runtime
from redrive.attempts.worker_notes import SERVES, WORKER
from redrive.registry import Registry
from redrive.stores.contract import Store

SIGN_EVERY = EVERY
LASTS = 3 * SIGN_EVERY


def sign(
    runtime: Runtime,
    since: float,
    *,
    lasts: float = LASTS,
    blocked: Mapping[str, object] | None = None,
    slots: Mapping[str, object] | None = None,
    drains: bool = False,
) -> None:
    """Write the handlers and lanes that this process serves, and add its counters.

    `blocked` names the job that blocks its event loop, and since when; `slots` lists what it runs.
    A worker that `drains` takes no more jobs, so it serves none. A pass writes before and after its
    jobs: meanwhile it may find that a library which a handler needs is missing.
    """
    registry = runtime.registry
    value = {
        "version": __version__,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": since,
        "lasts": lasts,
        "handlers": {} if drains else _handlers(registry),
        "lanes": [] if drains else sorted(registry.served_lanes()),
        "missing": _missing(registry),
        **({"release": runtime.release} if runtime.release else {}),
        **({"blocked": blocked} if blocked else {}),
        **({"slots": slots} if slots else {}),
    }
    text = json.dumps(value, ensure_ascii=False)
    runtime.store.note(WORKER + runtime.holder, text, expires_in=lasts)
    runtime.counters.write(runtime.store)


def _handlers(registry: Registry) -> dict[str, dict[str, str]]:
    """Return the handlers that this process serves, by source, with the lane if its name differs."""
    sources: dict[str, dict[str, str]] = {}
    for name in sorted(registry.served_names()):
        entry = registry.need(name)
        lane = "" if entry.lane == name else entry.lane
        sources.setdefault(entry.source, {})[name] = lane
    return sources


def _missing(registry: Registry) -> dict[str, list[str]]:
    """Return the handlers that this process cannot run: the lane of each, and why."""
    lost = registry.names() - registry.served_names()
    entries = {name: registry.need(name) for name in sorted(lost)}
    return {name: [entry.lane, registry.withdrawn[entry.name]] for name, entry in entries.items()}


def serve(store: Store, name: str) -> None:
    """Write that this process runs the jobs of one handler and lane beside its worker."""
    store.note(SERVES + name, "{}", expires_in=2 * LASTS)


def leave(runtime: Runtime) -> None:
    """Remove the note and add the last counters."""
    runtime.store.note(WORKER + runtime.holder, None)
    runtime.counters.write(runtime.store)
