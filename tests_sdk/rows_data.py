"""The rows for databases, brokers, checks of data, the standard library and what is said outright."""

from __future__ import annotations

import asyncio
import socket
import ssl

import clients as web
import jsonschema
import kafka.errors
import marshmallow
import pika
import pika.exceptions
import psycopg
import pydantic
import pymongo.errors
import redis
import sqlalchemy
import sqlalchemy.exc
import tenacity
from loopback import HANG, Row, caused, client, free_port, nobody, talk
from wires import killed, mongo_nobody, mongo_says, mysql_says, postgres, redis_says, sqlite

from redrive.errors import GiveUp, RetryLater

DRIVERS = ("psycopg", "psycopg2", "asyncpg", "sqlalchemy")
BOSS = {"user": "postgres"}
MEANT = {
    "a conflict of writers, 40": ("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$", "transient"),
    "too many connections, 53": ("DO $$ BEGIN RAISE SQLSTATE '53300'; END $$", "transient"),
    "a lock not to be had, 55": ("DO $$ BEGIN RAISE SQLSTATE '55P03'; END $$", "transient"),
    "a read-only session, 25": ("SET transaction_read_only = on; CREATE TABLE t ()", "transient"),
    "an input or output error, 58": ("DO $$ BEGIN RAISE SQLSTATE '58030'; END $$", "transient"),
    "an internal error, XX": ("DO $$ BEGIN RAISE SQLSTATE 'XX000'; END $$", "transient"),
    "a lost connection, 08": ("DO $$ BEGIN RAISE SQLSTATE '08006'; END $$", "transient"),
    "a missing right, 42501": ("SELECT * FROM things", "auth"),
    "a division by zero, 22": ("SELECT 1/0", "invalid"),
    "a duplicate, 23": ("CREATE TEMP TABLE u (id int UNIQUE); INSERT INTO u VALUES (1), (1)", "invalid"),
    "no such table, 42": ("SELECT * FROM nothing", "permanent"),
    "not supported, 0A": ("DO $$ BEGIN RAISE SQLSTATE '0A000'; END $$", "permanent"),
    "no such statement, 26": ("EXECUTE nothing", "permanent"),
}  # fmt: skip
NOBODY = {"host": "127.0.0.1", "port": free_port()}

POSTGRES = [
    *(
        Row(f"{by}: {name}", postgres(sql, by=by), category)
        for by in DRIVERS
        for name, (sql, category) in MEANT.items()
    ),
    *(Row(f"{by}: session ended, 57", killed(by), "transient") for by in DRIVERS),
    *(Row(f"{by}: wrong password, 28", postgres("", by=by, password="no"), "auth") for by in DRIVERS),
    *(Row(f"{by}: no database, 3D", postgres("", by=by, **BOSS, dbname="no"), "permanent") for by in DRIVERS),
    *(Row(f"{by}: nobody there", postgres("", by=by, **NOBODY), "transient") for by in DRIVERS),
    Row("psycopg: without a state", lambda: psycopg.InterfaceError("closed"), "transient"),
]  # fmt: skip


def _stale() -> object:
    engine = sqlalchemy.create_engine(
        "sqlite://", poolclass=sqlalchemy.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.05
    )
    return [engine.connect(), engine.connect()]


def _sqlite_alchemy(sql: str) -> object:
    with sqlalchemy.create_engine("sqlite://").begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT NOT NULL)")
        return connection.exec_driver_sql(sql)


MYSQL = {
    "transient": (1205, 1213, 1040, 2002, 2003, 2006, 2013),
    "auth": (1044, 1045),
    "invalid": (1048, 1062, 1406, 1452),
    "permanent": (1054, 1064, 1146),
}
OTHER_SQL = [
    *(Row(f"mysql {n}", mysql_says(n), category) for category, all_ in MYSQL.items() for n in all_),
    Row("sqlalchemy TimeoutError of its pool", _stale, "transient"),
    Row("sqlalchemy DisconnectionError", lambda: sqlalchemy.exc.DisconnectionError("no"), "transient"),
    Row("sqlalchemy IntegrityError", lambda: _sqlite_alchemy("INSERT INTO t VALUES (1, NULL)"), "invalid"),
    Row("sqlalchemy ProgrammingError", lambda: _sqlite_alchemy("SELECT ?"), "permanent"),
    Row("sqlite locked", sqlite("INSERT INTO t VALUES (1, 'x')", locked=True), "transient"),
]  # fmt: skip

REDIS = {
    "auth": ("WRONGPASS invalid", "NOAUTH required", "NOPERM no right"),
    "transient": ("LOADING in memory", "CLUSTERDOWN down", "READONLY replica", "OOM no memory", "TRYAGAIN later",
        "MISCONF cannot save", "NOREPLICAS to write to", "BUSY Redis is busy running a script"),
    "permanent": ("WRONGTYPE of value", "ERR unknown command"),
}  # fmt: skip

MONGO_PASSES = {
    43: "CursorNotFound",
    64: "WriteConcernFailed",
    91: "ShutdownInProgress",
    133: "FailedToSatisfyReadPreference",
    189: "PrimarySteppedDown",
    251: "NoSuchTransaction",
    262: "ExceededTimeLimit",
    11602: "InterruptedDueToReplStateChange",
}


def _redis_late() -> object:
    with talk(b"") as port:
        made = redis.Redis(port=port, protocol=2, socket_timeout=0.1, retry=None, driver_info=None)
        return made.get("x")


STORES = [
    *(Row(f"redis {line}", redis_says(line), category) for category, all_ in REDIS.items() for line in all_),
    Row("redis refused", lambda: redis.Redis(port=free_port(), retry=None).get("x"), "transient"),
    Row("redis late", _redis_late, "transient"),
    Row("redis WatchError", lambda: redis.WatchError("changed"), "transient"),
    Row("redis DataError", lambda: redis.Redis(port=free_port(), retry=None).set("x", 1, ex="soon"), "invalid"),
    Row("mongo ConnectionFailure", mongo_nobody, "transient"),
    Row("mongo lost", lambda: pymongo.errors.AutoReconnect("no"), "transient"),
    Row("mongo LockTimeout", mongo_says(24, "LockTimeout"), "transient"),
    *(Row(f"mongo {name}", mongo_says(code, name), "transient") for code, name in MONGO_PASSES.items()),
    Row("mongo Unauthorized", mongo_says(13, "Unauthorized"), "auth"),
    Row("mongo DuplicateKey", mongo_says(11000, "DuplicateKey"), "invalid"),
    Row("mongo NamespaceNotFound", mongo_says(26, "NamespaceNotFound"), "permanent"),
    Row("kafka RetriableError", kafka.errors.NotLeaderForPartitionError, "transient"),
    Row("rabbit AMQPConnectionError", lambda: pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", free_port())), "transient"),
]  # fmt: skip


class Order(pydantic.BaseModel):
    number: int


class OrderSchema(marshmallow.Schema):
    number = marshmallow.fields.Int(required=True)


CHECKS = [
    Row("pydantic ValidationError", lambda: Order.model_validate({}), "invalid"),
    Row("jsonschema ValidationError", lambda: jsonschema.validate("x", {"type": "number"}), "invalid"),
    Row("marshmallow ValidationError", lambda: OrderSchema().load({}), "invalid"),
]  # fmt: skip


@client
def _tries(url: str) -> object:
    tries = tenacity.Retrying(stop=tenacity.stop_after_attempt(2))
    return tries(lambda: web.httpx.get(url, timeout=0.1).raise_for_status())


async def _late() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(5)


def _outright() -> Exception:
    error = ValueError("no")
    error.redrive_category = "quota"  # type: ignore[attr-defined]
    return error


STANDARD = [
    Row("refused", lambda: socket.create_connection(("127.0.0.1", free_port())), "transient"),
    Row("late", lambda: asyncio.run(_late()), "transient"),
    Row("no such name", lambda: socket.getaddrinfo("x", 1, flags=socket.AI_NUMERICHOST), "transient"),
    Row("TLS broken off", lambda: ssl.SSLError(1, "bad record"), "transient"),
    Row("end of file", EOFError, "transient"),
    Row("ValueError", lambda: int("x"), "unknown"),
    Row("KeyError", lambda: {}["x"], "unknown"),
    Row("TypeError", lambda: len(7), "unknown"),  # type: ignore[arg-type]
    Row("tenacity RetryError", _tries(HANG), "transient"),
    Row("tenacity RetryError of a refusal", _tries(401), "auth"),
    Row("caused by a 429", caused(RuntimeError("no"), web.httpx_get(429, "", {"retry-after": "4"})), "rate_limit", 4.0),
    Row("caused by nobody there", caused(RuntimeError("no"), nobody(web.httpx.get)), "transient"),
    Row("RetryLater", lambda: RetryLater(after=90), "transient", 90.0),
    Row("GiveUp", lambda: GiveUp("no"), "permanent"),
    Row("redrive_category", _outright, "quota"),
    Row("a group", lambda: ExceptionGroup("g", [TimeoutError(), GiveUp("no")]), "permanent"),
]  # fmt: skip

ROWS = [*POSTGRES, *OTHER_SQL, *STORES, *CHECKS, *STANDARD]
