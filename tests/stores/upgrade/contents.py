"""All that a store holds, as JSON: the same for every kind of store and every version of Redrive."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

_BY_CLOCK = ("lease_end", "boot")
"""Measured by the clock of each store."""
_RUNS = (-1, 1, -2, 2)


def contents(store: Any, everything: Any) -> dict[str, Any]:
    """Return what is stored; `everything` is a query for all jobs in all states."""
    ids = sorted(job.id for job in store.find(everything).jobs)
    actions = getattr(store, "actions", None) or store.acts  # as commit 1ad7865 calls them
    return {
        "now": store.now(),
        "jobs": {job_id: _job(store.get(job_id)) for job_id in ids},
        "groups": {
            str(group.number): {"fingerprint": group.fingerprint, "title": group.title}
            for group in store.groups(everything)
        },
        "acts": [_plain(action) for action in reversed(actions(limit=1000))],
        "notes": {
            note.name: {"value": note.value, "expires_in": note.expires_in}
            for note in store.notes()
        },
        "runs": {
            str(run): {str(state): jobs for state, jobs in store.members(run).states.items()}
            for run in _RUNS
        },
    }


def _job(job: Any) -> dict[str, Any]:
    return {name: value for name, value in _plain(job).items() if name not in _BY_CLOCK}


def _plain(record: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return plain
