"""What a claim on PostgreSQL promises beyond the contract (F27, T4, T5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from contract.verbs import add, add_one, claim, claim_one, get, move, settle
from kit import make_job
from redrive.stores.postgres import PostgresStore
from redrive.stores.postgres.arrays import packed

Opener = Callable[..., PostgresStore]


@pytest.mark.parametrize("encoding", ["latin1", "utf8"])
def test_text_is_kept_whatever_a_connection_speaks(opener: Opener, encoding: str) -> None:
    store = opener()
    plain = opener(f"{store.url}&client_encoding={encoding}")
    jobs = [make_job(f"j{n}", lane="Größe", payload='{"a":"Größe"}') for n in range(3)]
    plain.add(jobs)
    with psycopg.connect(store._database.address.conninfo, client_encoding=encoding) as mine:
        store.add(
            [make_job(f"w{n}", lane="Größe", payload='{"a":"Größe"}') for n in range(3)],
            within=mine,
        )
    for name in ("j0", "j2", "w0", "w2"):
        job = get(store, name)
        assert (job.lane, job.payload) == ("Größe", '{"a":"Größe"}')


def test_a_lease_number_never_goes_back_when_a_running_job_is_closed(
    store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    """Whatever became of its lease between the look and the deed."""
    add_one(store, "a")
    late = claim_one(store, holder="gone")
    schema = store._database.address.schema
    other.execute(f'UPDATE "{schema}".leases SET lease = 7'.encode())
    store._write(
        lambda tx: tx.many("rewrite", [_closed(late.job, tx.one("by_id", ("a",)))]), durable=True
    )
    assert get(store, "a").lease == 7


def _closed(job: Any, row: Any) -> tuple[Any, ...]:
    from redrive._transitions import moved  # noqa: PLC0415
    from redrive.stores.sql.rows import changes_to_row  # noqa: PLC0415

    return changes_to_row(moved(job, "discard", actor="me", reason="", now=5.0), row[0])


def test_a_seized_job_is_no_answer_to_the_claim_before(
    store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    add_one(store, "a")
    claim_one(store, holder="gone")
    schema = store._database.address.schema
    (name,) = other.execute(f'SELECT claim FROM "{schema}".leases'.encode()).fetchone() or ("",)
    database = store._database
    assert len(database.read(lambda tx: tx.all("claimed_by", (name,)))) == 1
    (seized,) = store.seize(by="s", lease_for=60, holder="gone")
    assert database.read(lambda tx: tx.all("claimed_by", (name,))) == []
    assert settle(store, seized) is not None


def test_a_claim_of_more_than_there_can_be_takes_all(store: PostgresStore) -> None:
    add(store, make_job("a"), make_job("b", lane="other"))
    assert len(claim(store, limit=2**31 - 1)) == 2


def test_a_discarded_running_job_can_be_driven_again(store: PostgresStore) -> None:
    add_one(store, "a")
    late = claim_one(store)
    assert move(store, "discard", "a").done
    assert settle(store, late) is None
    assert move(store, "retry", "a").done
    assert settle(store, claim_one(store)) is not None
    assert store.verify().ok


def test_packing_says_what_does_not_fit() -> None:
    with pytest.raises(OverflowError):
        packed(b"int8", [2**70], "utf-8")
    with pytest.raises(OverflowError):
        packed(b"int4", [None, 2**40], "utf-8")
    with pytest.raises(UnicodeError):
        packed(b"text", ["\ud800"], "utf-8")
