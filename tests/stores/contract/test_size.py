"""size and schema: what a store tells about itself without looking at its jobs."""

from __future__ import annotations

from kit import make_job
from redrive.stores.contract import Store
from stores.contract.verbs import add


def test_a_store_grows_with_its_jobs(store: Store) -> None:
    before = store.size()
    assert (before is None) == (store.schema is None) == (store.durability == "memory")
    add(store, *(make_job(str(n), payload=f'"{n:03d}{"x" * 50_000}"') for n in range(20)))
    assert before is None or (store.size() or 0) > before
