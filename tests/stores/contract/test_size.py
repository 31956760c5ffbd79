"""size and schema: what a store tells about itself without looking at its jobs."""

from __future__ import annotations

import secrets

from kit import make_job
from redrive.stores.contract import Store
from stores.contract.verbs import add


def test_a_store_grows_with_its_jobs(store: Store) -> None:
    before = store.size()
    assert (before is None) == (store.schema is None) == (store.durability == "memory")
    # Until it does: a store may first use the space of jobs that were removed.
    for number in range(before is not None and 1000):
        add(store, make_job(str(number), payload=f'"{secrets.token_hex(100_000)}"'))
        if (store.size() or 0) > (before or 0):
            return
    assert before is None
