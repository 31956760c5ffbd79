"""Calls of real clients that speak no HTTP: databases, brokers, mail, files, gRPC."""

from __future__ import annotations

import asyncio
import ftplib
import functools
import smtplib
import sqlite3
import struct
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg
import grpc
import psycopg
import psycopg2
import pymongo
import pymysql.err
import redis
import sqlalchemy
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from loopback import Ask, free_port, talk
from pymongo import helpers_shared

import pgkit


def redis_says(line: str) -> Ask:
    """Ask a server that answers every command with this error."""

    def ask() -> object:
        with talk(f"-{line}\r\n".encode()) as port:
            made = redis.Redis(port=port, protocol=2, retry=None, driver_info=None)
            return made.get("x")

    return ask


def smtp_says(*lines: str, login: bool = False) -> Ask:
    """Send a mail through a server that says these lines in turn."""

    def ask() -> object:
        with (
            talk(*(f"{line}\r\n".encode() for line in (*lines, "221 bye")), greet=True) as port,
            smtplib.SMTP("127.0.0.1", port, local_hostname="me", timeout=2) as mail,
        ):
            if login:
                mail.login("me", "wrong")
            return mail.sendmail("a@example.org", ["b@example.org"], "hi")

    return ask


def ftp_says(*lines: str) -> Ask:
    """Log in to a server that says these lines in turn, and delete a file."""

    def ask() -> object:
        with talk(*(f"{line}\r\n".encode() for line in lines), greet=True) as port:
            ftp = ftplib.FTP(timeout=2)
            ftp.connect("127.0.0.1", port)
            ftp.login("me", "pw")
            return ftp.delete("x")

    return ask


def mysql_says(number: int, state: str = "HY000") -> Ask:
    """Read an error packet as the server sends it."""
    packet = b"\xff" + struct.pack("<H", number) + b"#" + state.encode() + b"no"
    return lambda: pymysql.err.raise_mysql_exception(packet)


def mongo_says(code: int, name: str, labels: Sequence[str] = ()) -> Ask:
    """Read a command's answer as the server sends it."""
    reply = {"ok": 0, "code": code, "codeName": name, "errmsg": "no", "errorLabels": labels}
    return lambda: helpers_shared._check_command_response(reply, 25)


def mongo_nobody() -> object:
    with pymongo.MongoClient[Any](port=free_port(), serverSelectionTimeoutMS=100) as made:
        return made.db.things.find_one()


@functools.cache
def _postgres() -> str:
    """A real server that asks for passwords over TCP, with a user who may do little."""
    with pgkit.connect() as boss:
        boss.execute("CREATE ROLE clerk LOGIN PASSWORD 'right'")
        boss.execute("CREATE TABLE things (id int PRIMARY KEY, name text NOT NULL)")
        boss.execute("INSERT INTO things VALUES (1, 'one')")
        boss.execute("CREATE TABLE clerks AS SELECT 1 AS id")
        boss.execute("ALTER TABLE clerks OWNER TO clerk")
        rules = Path(boss.execute("SHOW hba_file").fetchone()[0])  # type: ignore[index]
        rules.write_text(f"local all clerk scram-sha-256\n{rules.read_text('utf-8')}", "utf-8")
        boss.execute("SELECT pg_reload_conf()")
    return str(pgkit.server().pgdata)


def postgres(sql: str, *, by: str = "psycopg", **changed: Any) -> Ask:
    """Run statements on a real PostgreSQL by one of its clients; `changed` changes how to log in."""

    def ask() -> object:
        login: dict[str, Any] = {
            "host": _postgres(),
            "user": "clerk",
            "password": "right",
            "dbname": "postgres",
            **changed,
        }
        return _RUN[by](sql, login)

    return ask


def _psycopg(sql: str, login: Mapping[str, Any]) -> None:
    with psycopg.connect(**login) as connection:
        connection.execute(sql)  # type: ignore[call-overload]


def _psycopg2(sql: str, login: Mapping[str, Any]) -> None:
    with psycopg2.connect(**login) as connection, connection.cursor() as cursor:
        cursor.execute(sql)


def _asyncpg(sql: str, login: Mapping[str, Any]) -> None:
    async def run() -> None:
        database = login["dbname"]
        rest = {name: value for name, value in login.items() if name != "dbname"}
        connection = await asyncpg.connect(database=database, **rest)
        try:
            await connection.execute(sql)
        finally:
            connection.terminate()

    asyncio.run(run())


def _sqlalchemy(sql: str, login: Mapping[str, Any]) -> None:
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", connect_args=dict(login), poolclass=sqlalchemy.NullPool
    )
    with engine.begin() as connection:
        connection.exec_driver_sql(sql)


_RUN = {
    "psycopg": _psycopg,
    "psycopg2": _psycopg2,
    "asyncpg": _asyncpg,
    "sqlalchemy": _sqlalchemy,
}


def killed(by: str) -> Ask:
    """Have the server end the session in the middle, as a restart does."""
    return postgres("SELECT pg_terminate_backend(pg_backend_pid())", by=by)


def sqlite(*statements: str, locked: bool = False) -> Ask:
    def ask() -> object:
        with TemporaryDirectory() as folder:
            one = sqlite3.connect(f"{folder}/db", timeout=0)
            other = sqlite3.connect(f"{folder}/db", timeout=0)
            one.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT NOT NULL)")
            if locked:
                one.execute("BEGIN EXCLUSIVE")
            return [other.execute(statement) for statement in statements]

    return ask


@contextmanager
def _grpc_server(
    code: grpc.StatusCode, trailing: Sequence[tuple[str, str | bytes]]
) -> Generator[str]:
    def fail(_: object, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(tuple(trailing))
        context.abort(code, "no")
        return b""

    methods = {"Do": grpc.unary_unary_rpc_method_handler(fail)}
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("S", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


def grpc_says(code: str, *trailing: tuple[str, str | bytes], asynchronously: bool = False) -> Ask:
    """Call a method that ends with this code and these trailing headers."""

    def ask() -> object:
        with _grpc_server(grpc.StatusCode[code], trailing) as target:
            return asyncio.run(_aio(target)) if asynchronously else _grpc(target)

    return ask


def _grpc(target: str) -> object:
    with grpc.insecure_channel(target) as channel:
        return channel.unary_unary("/S/Do")(b"", timeout=5)


async def _aio(target: str) -> object:
    async with grpc.aio.insecure_channel(target) as channel:
        return await channel.unary_unary("/S/Do")(b"", timeout=5)


def retry_info(seconds: int, nanos: int = 0, code: str = "RESOURCE_EXHAUSTED") -> tuple[str, bytes]:
    """The trailing header by which Google's services say how long to wait."""
    delay = duration_pb2.Duration(seconds=seconds, nanos=nanos)
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    helped = any_pb2.Any()
    helped.Pack(error_details_pb2.Help(links=[error_details_pb2.Help.Link(url="https://x")]))
    status = status_pb2.Status(
        code=grpc.StatusCode[code].value[0], message="no", details=[helped, detail]
    )
    key, value = rpc_status.to_status(status).trailing_metadata[0]
    return key, value
