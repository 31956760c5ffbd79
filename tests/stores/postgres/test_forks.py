"""Parent and child of a fork share no connection (F20)."""

from __future__ import annotations

import os
import warnings

from redrive.jobs.job import State
from redrive.stores.postgres import PostgresStore
from stores.contract.verbs import add_one, claim_one, get


def fork() -> int:
    """Fork, although threads of the test run are about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def test_a_child_has_connections_of_its_own(store: PostgresStore) -> None:
    """F20."""
    add_one(store, "a")
    child = fork()
    if child == 0:
        code = 1
        try:
            add_one(store, "child")
            code = int(claim_one(store, only=["a"], holder="child").job.holder != "child")
            store.close()
        finally:
            os._exit(code)
    for n in range(20):
        add_one(store, f"parent{n}")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert get(store, "child").state is State.PENDING
    assert get(store, "a").holder == "child"
    assert len(store._database.pool._idle) == 1, "the parent's connection was good all the time"
