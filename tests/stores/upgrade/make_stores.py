"""Make the stores of this directory with Redrive as it was at commit 1ad7865.

    git worktree add --detach OLD 1ad7865
    PYTHONPATH=OLD/src:OLD/tests:tests/stores/upgrade python tests/stores/upgrade/make_stores.py

Writes `stores/store.db`, `stores/store.jsonl`, `stores/store.sql` (a PostgreSQL schema; replace
`{schema}` and `{channel}` before loading it) and `stores/expected.json`: what every reader of the
three must find. The clock stands still, so each run writes the same contents.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from contents import contents
from psycopg.sql import Literal

import pgkit
from kit import START, make_action, make_attempt, make_failure, make_job, make_settlement
from redrive import Redrive
from redrive.job import Completed, Dead, Reason, Retry, Settlement, State
from redrive.stores.base import PurgeRule, Query, Store
from redrive.stores.jsonl import JsonlStore
from redrive.stores.postgres import PostgresStore
from redrive.stores.sqlite import SqliteStore
from redrive.testing import ManualClock

HERE = Path(__file__).parent / "stores"
HANDLERS = ("mail", "pay", "sync")
TABLES = ("jobs", "ready", "leases", "payloads", "attempts", "causes", "acts", "notes",
          "note_versions", "redrive_migrations")  # fmt: skip
DONE = Completed(Reason.DONE)
SKIPPED = Completed(Reason.SKIPPED, "the order was cancelled")
ALREADY = Completed(Reason.ALREADY_DONE)
LATER, GONE = 3600.0, 1e9


def main() -> None:
    """Make all three, and check that they hold the same."""
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        for name, make in (("store.db", SqliteStore), ("store.jsonl", JsonlStore)):
            clock = ManualClock(START)
            store = make(Path(place) / name, clock=clock)
            found.append(_filled(store, clock))
            store.close()
            if name == "store.db":
                with closing(sqlite3.connect(Path(place) / name)) as file, file:
                    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            shutil.copy(Path(place) / name, HERE / name)
    schema, clock = pgkit.fresh_name(), ManualClock(START)
    server = PostgresStore(pgkit.url_of(schema), clock=clock)
    found.append(_filled(server, clock))
    server.make_view("mail_queue", "mail")
    (HERE / "store.sql").write_text(_dump(schema), "utf-8")
    server.close()
    for other in found[1:]:
        for part, value in found[0].items():
            if other[part] != value:
                sys.exit(f"the stores differ in {part}:\n{value}\n{other[part]}")
    text = json.dumps(found[0], indent=1, ensure_ascii=False, sort_keys=True)
    (HERE / "expected.json").write_text(text + "\n", "utf-8")


def _filled(store: Store, clock: ManualClock) -> dict[str, Any]:
    """Bring jobs into every state, with people's actions, runs, pauses and marks of groups."""
    net = make_failure(
        "transient", cause="net", type="ConnectionError", status=503, traceback="T1\nT2"
    )
    bad = make_failure(
        "permanent", cause="bad", message='"quoted" \\ 100 % ünïcode 日本', code="E42"
    )
    gone = make_failure("auth", cause="gone")
    crash = make_failure("crash", cause="crash")
    _pending(store, clock, net, crash)
    _ended(store, clock, net, bad)
    purged = _by_people(store, clock, bad, gone)
    _running(store, clock, crash)
    found = contents(store, Query(states=frozenset(State), limit=1000))
    return {**found, "purged_group": {"number": purged, "fingerprint": gone.fingerprint}}


def _one(store: Store, name: str, **options: Any) -> Any:
    (claim,) = store.claim(
        HANDLERS, limit=1, holder="w0", lease_for=60.0, only=[name], ignore_waits=True, **options
    )
    return claim


def _end(store: Store, name: str, verdict: Any, failure: Any = None, **options: Any) -> None:
    settlement = make_settlement(_one(store, name, **options), verdict, failure, limit=5)
    assert store.settle([settlement]) != [None]


def _pending(store: Store, clock: ManualClock, net: Any, crash: Any) -> None:
    store.add(
        [
            make_job(
                "p-plain", key="order-1", tags=("vip", "eu"), release="1.8.1", max_attempts=7,
                payload='{"to": "Zoë", "n": 1.50, "deep": {"a": [1, 2, null]}}',
            ),
            make_job("p-bare"),
            make_job("p-later", created=START + 1, due=START + LATER, handler="pay"),
            make_job("p-retrying", created=START + 2, release="1.8.1"),
            make_job("p-suspect", created=START + 3),
            make_job("p-again", created=START + 4, handler="pay", lane="slow"),
        ]
    )  # fmt: skip
    clock.advance(10)
    _end(store, "p-retrying", Retry(300.0, "waits"), net)
    _end(store, "p-suspect", Retry(5.0), crash)
    _end(store, "p-again", Dead(Reason.EXHAUSTED, "used up"), net)
    clock.advance(10)
    store.move(["p-again"], "retry", make_action("retry", target="p-again"), delays=[50.0])


def _ended(store: Store, clock: ManualClock, net: Any, bad: Any) -> None:
    names = ("c-done", "c-skipped", "c-already", "c-second", "d-used-up", "d-bad", "d-expired",
             "d-edited", "d-waits", "d-let-go", "d-reopened")  # fmt: skip
    store.add([make_job(name, created=START + 20 + n) for n, name in enumerate(names)])
    before = make_job(
        "d-long", created=START + 40, attempts=24, spent={"transient": 24}, failure=net
    )
    tried = [replace(before, lease=n, attempts=n, holder="w0") for n in range(1, 25)]
    store.add([replace(before, history=tuple(make_attempt(one, net) for one in tried))])
    clock.advance(40)
    _end(store, "c-done", DONE)
    _end(store, "c-skipped", SKIPPED)
    claim = _one(store, "c-already")
    attempt = make_attempt(claim.job, outcome="already_done", provider="backup")
    store.settle([Settlement(claim, ALREADY, attempt, 5)])
    _end(store, "c-second", Retry(0.0), net)
    clock.advance(1)
    _end(store, "c-second", DONE)
    for name, verdict, failure in (
        ("d-used-up", Dead(Reason.EXHAUSTED, "5 attempts"), net),
        ("d-bad", Dead(Reason.PERMANENT), bad),
        ("d-expired", Dead(Reason.EXPIRED, "max_age 1h"), net),
        ("d-edited", Dead(Reason.PERMANENT), bad),
        ("d-waits", Dead(Reason.EXHAUSTED), net),
        ("d-let-go", Dead(Reason.EXHAUSTED), net),
        ("d-reopened", Dead(Reason.PERMANENT), bad),
    ):
        _end(store, name, verdict, failure)
        clock.advance(1)
    for _ in range(3):
        _end(store, "d-long", Retry(0.0), net)
        clock.advance(0.5)
    _end(store, "d-long", Dead(Reason.EXHAUSTED, "many"), net)


def _by_people(store: Store, clock: ManualClock, bad: Any, gone: Any) -> int | None:
    """Do what people do; returns the number of a group whose only job was purged."""
    old = make_attempt(make_job(lease=3, attempts=3, updated=START - 900, holder="elsewhere"), bad)
    store.add(
        [
            make_job(
                "d-imported", created=START - 1000, state=State.DEAD, reason=Reason.CAPTURED,
                attempts=3, spent={"permanent": 3}, first_failed=START - 950, failure=bad,
                updated=START - 900, finished=START - 900, history=(old,),
                origin={"file": "old.csv", "line": 7, "extra": {"k": "v"}},
            ),
            make_job("x-resolved"), make_job("x-discarded"), make_job("x-unrun"), make_job("z-purged"),
        ]
    )  # fmt: skip
    for name in ("x-resolved", "x-discarded"):
        _end(store, name, Dead(Reason.PERMANENT), bad)
    _end(store, "z-purged", Dead(Reason.PERMANENT), gone)
    clock.advance(5)
    store.amend("d-edited", '{"to":"fixed"}', make_action("edit", target="d-edited"), expected=0)
    store.amend(
        "d-edited", '{"to":"fixed twice"}', make_action("edit", target="d-edited"), expected=1
    )
    store.move(["d-reopened"], "resolve", make_action("resolve", target="d-reopened"))
    clock.advance(5)
    store.move(
        ["d-reopened"], "reopen", make_action("reopen", target="d-reopened", detail={"why": 1})
    )
    store.move(["x-resolved"], "resolve", make_action("resolve", reason="paid by hand"))
    store.move(["x-discarded", "x-unrun", "nobody"], "discard", make_action("discard", actor="bob"))
    purged = store.find(Query(ids=("z-purged",))).jobs[0].group
    store.purge([PurgeRule(state=State.DEAD, older_than=-GONE, ids=frozenset({"z-purged"}))])
    app = Redrive(store=store)
    run = app.drive(
        "d-waits", "d-let-go", rate="30/m", canary=1, stop_on="50%", name="again", actor="ada"
    )
    store.move(["d-let-go"], "retry", make_action("release", target=run.id), run=run.number)
    ended = app.drive("d-expired", actor="bob", reason="try")
    app.cancel_run(ended, actor="bob")
    app.mark_group(1, resolved=True, reason="fixed in 1.8.2", actor="ada")
    app.mark_group(2, note="ask billing", actor="bob")
    store.note("pause:slow", '{"by": "ada", "why": "maintenance"}', durable=True)
    store.note("pause:old", "{}", expires_in=1.0)
    store.note("cooled:mailer", "{}", expires_in=GONE)
    clock.advance(2)
    return purged


def _running(store: Store, clock: ManualClock, crash: Any) -> None:
    store.add([make_job("r-one"), make_job("r-suspect"), make_job("r-seized")])
    _end(store, "r-suspect", Retry(0.0), crash)
    _one(store, "r-suspect", suspects=True)
    store.claim(HANDLERS, limit=1, holder="w2", lease_for=30.0, only=["r-one"])
    store.claim(HANDLERS, limit=1, holder="lost", lease_for=30.0, only=["r-seized"])
    clock.advance(1)
    store.seize(by="w3", lease_for=GONE, holder="lost")


def _dump(schema: str) -> str:
    """Write the schema as statements: what made it, its rows, and a user's view."""
    import redrive.stores  # noqa: PLC0415 - to find its files

    sql = Path(redrive.stores.__file__).parent / "sql" / "postgres"
    lines = ["CREATE SCHEMA {schema};", (sql / "migrations/0001_jobs.sql").read_text("utf-8")]
    with pgkit.connect() as connection:
        lines.append("DELETE FROM {schema}.note_versions;")
        for table in TABLES:
            order = "ORDER BY n, ordinal" if table == "attempts" else "ORDER BY 1"
            cursor = connection.execute(f'SELECT * FROM "{schema}".{table} {order}')
            columns = ", ".join(column.name for column in cursor.description or ())
            for row in cursor.fetchall():
                if table == "redrive_migrations":
                    row = (*row[:-1], START)  # noqa: PLW2901 - the server's time, which is not ours
                values = ", ".join(Literal(value).as_string(connection) for value in row)
                lines.append(f"INSERT INTO {{schema}}.{table} ({columns}) VALUES ({values});")
        for table, column in (("jobs", "n"), ("causes", "number"), ("acts", "number")):
            name = f"pg_get_serial_sequence('{{schema}}.{table}', '{column}')"
            lines.append(f"SELECT setval({name}, (SELECT max({column}) FROM {{schema}}.{table}));")
    view = (sql / "views/queue.sql").read_text("utf-8").replace("{view}", "mail_queue")
    view = view.replace("{handler}", "'mail'").replace("{version}", "1")
    view = view.replace("{channel}", "'{channel}'").replace("SET LOCAL lock_timeout = '4s';", "")
    lines.append(view.replace("{comment}", "'Redrive: the jobs of mail'"))
    text = "\n".join(lines)
    assert schema not in text
    return text + "\n"


if __name__ == "__main__":
    main()
