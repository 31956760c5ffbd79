"""What verify finds, and how the server's errors read (T7)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from kit import make_failure, make_job
from redrive.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLost,
    StoreReadOnly,
    UsageError,
)
from redrive.jobs.job import State
from redrive.stores.postgres import PostgresStore
from redrive.stores.postgres.errors import is_passing, translate
from stores.contract.verbs import DEAD, add_one, bring_to, claim_one, get, settle

BREAKS = {
    "is not in exactly one": "DELETE FROM {s}.ended WHERE id = 'dead'",
    "its state is not": "DELETE FROM {s}.jobs WHERE id = 'dead'",
    "half a lease": "UPDATE {s}.open SET since = NULL WHERE id = 'running'",
    "a state that does not exist": "UPDATE {s}.ended SET state = 'asleep' WHERE id = 'dead'",
    "a group that does not exist": "UPDATE {s}.ended SET cause = 99 WHERE id = 'dead'",
    "attempts are not": "INSERT INTO {s}.attempts VALUES (9999, 1, '{{}}')",
    "among the wrong jobs": "UPDATE {s}.open SET category = 'timeout' WHERE id = 'pending'",
    "its more is not": "UPDATE {s}.ended SET more = 'x' WHERE id = 'dead'",
    "its given is not": "UPDATE {s}.jobs SET given = '5' WHERE id = 'pending'",
    "an attempt 1 that cannot be read": "UPDATE {s}.attempts SET record = 'x'",
    "a detail that cannot be read": "INSERT INTO {s}.acts (at, actor, verb, target, reason, done,"
    " skipped, detail) VALUES (1, 'me', 'note', 'x', '', 0, 0, 'x')",
    "a record that cannot be read": "UPDATE {s}.groups SET more = 'x'",
    "cannot be read": "INSERT INTO {s}.ticks VALUES (1, 'x')",
}


@pytest.mark.parametrize("what", BREAKS)
def test_each_contradiction_is_found(
    store: PostgresStore, other: psycopg.Connection[Any], what: str
) -> None:
    for state in State:
        bring_to(store, state, state.value)
    assert store.verify().ok
    other.execute(BREAKS[what].format(s=f'"{store._database.address.schema}"'))
    report = store.verify()
    assert not report.ok
    assert any(what in problem.what for problem in report.problems), report.problems


def test_a_group_whose_record_cannot_be_read_keeps_its_counts(
    store: PostgresStore, other: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    number = bring_to(store, State.DEAD, "a").group or 0
    other.execute(f"UPDATE \"{store._database.address.schema}\".groups SET more = 'x'")
    assert store.group_records()[number].deaths == 1
    assert f"group G{number} cannot be read" in caplog.text


def test_the_facts_are_told(store: PostgresStore) -> None:
    add_one(store, "a")
    report = store.verify()
    assert report.jobs == 1
    assert report.facts["server"].startswith("PostgreSQL ")
    assert report.facts["schema version"] == str(store._database.queries.version)
    assert "fsync on" in report.facts["settings"]


def test_a_long_transaction_that_keeps_old_rows_is_named(
    store: PostgresStore, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F32."""
    monkeypatch.setattr("redrive.stores.postgres.audit._LONG_AGO", 0.0)
    with other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")
        assert "slows claims" in store.verify().facts["old row versions"]


@pytest.mark.parametrize(
    ("error", "ours", "again"),
    [
        (pg.DiskFull("no space"), StoreFull, False),
        (pg.ReadOnlySqlTransaction("read-only"), StoreReadOnly, False),
        (pg.InsufficientPrivilege("denied"), StoreReadOnly, False),
        (pg.DataCorrupted("bad page"), StoreDamaged, False),
        (pg.IoError("could not read"), StoreLost, False),
        (pg.NumericValueOutOfRange("too big"), UsageError, False),
        (pg.UniqueViolation("twice"), UsageError, False),
        (pg.ProgramLimitExceeded("index row size"), UsageError, False),
        (pg.SyntaxError("our mistake"), StoreError, False),
        (pg.QueryCanceled("statement timeout"), StoreBusy, False),
        (pg.SerializationFailure("again"), StoreBusy, True),
        (pg.DeadlockDetected("again"), StoreBusy, True),
        (pg.LockNotAvailable("again"), StoreBusy, True),
        (pg.TooManyConnections("again"), StoreBusy, True),
        (pg.AdminShutdown("bye"), StoreLost, True),
        (pg.CannotConnectNow("starting up"), StoreLost, True),
        (psycopg.OperationalError("server closed the connection"), StoreLost, True),
        (UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates"), UsageError, False),
        (OverflowError("int too big"), UsageError, False),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_each_error_of_the_server_has_a_name_of_ours(
    error: Exception, ours: type[Exception], again: bool
) -> None:
    """F11, F28, F29."""
    assert type(translate(error, "postgresql://db/x")) is ours
    assert "postgresql://db/x" in str(translate(error, "postgresql://db/x"))
    assert is_passing(error) is again


def test_a_full_disk_stops_one_call_and_not_the_next(
    store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    """F11: what was done in the transaction is undone, and it works again by itself."""
    add_one(store, "a")
    taken = claim_one(store)
    schema = store._database.address.schema
    other.execute(NO_SPACE.replace("{s}", f'"{schema}"').encode())
    with pytest.raises(StoreFull, match="free some space"):
        settle(store, taken, DEAD, make_failure(cause="new"))
    assert get(store, "a").state is State.RUNNING
    other.execute(f'DROP TRIGGER full_disk ON "{schema}".ended'.encode())
    assert settle(store, taken, DEAD, make_failure(cause="new")) is not None


NO_SPACE = """
CREATE FUNCTION {s}.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END
$$;
CREATE TRIGGER full_disk BEFORE INSERT ON {s}.ended FOR EACH ROW EXECUTE FUNCTION {s}.full_disk()
"""


@pytest.mark.parametrize("fields", [{"lane": "a\0b"}, {"payload": '"\ud800"'}, {"run": 2**70}])
def test_a_value_that_cannot_be_kept_is_refused_and_nothing_stored(
    store: PostgresStore, fields: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="nothing was stored"):
        store.add([make_job("good"), make_job("bad", **fields)])
    assert store.get("good") is None
