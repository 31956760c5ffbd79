"""Held out: errors of databases, brokers, mail, files and the standard library (see heldout_web)."""

from __future__ import annotations

import asyncio
import errno
import imaplib
import json
import multiprocessing
import os
import socket
import ssl
import subprocess
import sys
import xmlrpc.client
from typing import Any

import bson
import confluent_kafka
import dns.exception
import dns.resolver
import jsonschema
import kafka
import kafka.errors
import kombu
import marshmallow
import nats.errors
import nats.js.errors
import paramiko
import pika.exceptions
import psycopg
import pydantic
import pymongo.errors
import snowflake.connector.errors as snowflake
import sqlalchemy
import sqlalchemy.orm
from google.api_core.exceptions import from_grpc_error
from google.auth.exceptions import DefaultCredentialsError
from loopback import Row, error_of, free_port, talk
from wires import (
    ftp_says,
    grpc_says,
    killed,
    mongo_nobody,
    mongo_says,
    mysql_says,
    postgres,
    redis_says,
    retry_info,
    smtp_says,
    sqlite,
)


def _psycopg_is_given(sql: str, *values: object) -> object:
    with psycopg.connect(host="/nowhere") as connection:
        return connection.execute(sql, values)  # type: ignore[call-overload]


def _sqlite_by_sqlalchemy(sql: str) -> object:
    with sqlalchemy.create_engine("sqlite://").begin() as connection:
        return connection.execute(sqlalchemy.text(sql))


def _pool_is_empty() -> object:
    engine = sqlalchemy.create_engine(
        "sqlite://", poolclass=sqlalchemy.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.05
    )
    return [engine.connect(), engine.connect()]


DATABASES = [
    Row("postgres lock timeout", postgres("SET lock_timeout=1; SELECT pg_sleep(0); SET statement_timeout=20; SELECT pg_sleep(2)"), "transient"),
    Row("postgres no such user", postgres("", user="nobody"), "auth"),
    Row("postgres wrong password", postgres("", password="wrong"), "auth"),
    Row("psycopg2 wrong password", postgres("", by="psycopg2", password="wrong"), "auth"),
    Row("sqlalchemy wrong password", postgres("", by="sqlalchemy", password="wrong"), "auth"),
    Row("postgres no such database", postgres("", user="postgres", dbname="nowhere"), "permanent"),
    Row("postgres refused", postgres("", host="127.0.0.1", port=free_port()), "transient"),
    Row("psycopg2 refused", postgres("", by="psycopg2", host="127.0.0.1", port=free_port()), "transient"),
    Row("asyncpg refused", postgres("", by="asyncpg", host="127.0.0.1", port=free_port()), "transient"),
    Row("postgres number too large", postgres("SELECT 99999999999::int"), "invalid"),
    Row("postgres no function", postgres("SELECT nothing_like_it()"), "permanent"),
    Row("postgres session ended", killed("psycopg2"), "transient"),
    Row("sqlalchemy session ended", killed("sqlalchemy"), "transient"),
    Row("sqlalchemy duplicate", postgres("CREATE TEMP TABLE u (id int UNIQUE); INSERT INTO u VALUES (1), (1)", by="sqlalchemy"), "invalid"),
    Row("sqlalchemy no table", postgres("SELECT * FROM nothing", by="sqlalchemy"), "permanent"),
    Row("sqlalchemy on sqlite, no table", lambda: _sqlite_by_sqlalchemy("SELECT * FROM nothing"), "permanent"),
    Row("sqlalchemy pool is empty", _pool_is_empty, "transient"),
    Row("sqlite is locked", sqlite("INSERT INTO t VALUES (1, 'x')", locked=True), "transient"),
    Row("sqlite duplicate", sqlite("INSERT INTO t VALUES (1, 'x')", "INSERT INTO t VALUES (1, 'x')"), "invalid"),
    Row("sqlite no table", sqlite("SELECT * FROM nothing"), "permanent"),
    Row("mysql server goes away", mysql_says(1053, "08S01"), "transient"),
    Row("mysql no database", mysql_says(1049, "42000"), "permanent"),
    Row("mysql denied", mysql_says(1142, "42000"), "auth"),
    Row("mysql out of range", mysql_says(1264, "22003"), "invalid"),
    Row("mysql foreign key", mysql_says(1451, "23000"), "invalid"),
    Row("mysql too many of this user", mysql_says(1203, "42000"), "transient"),
    Row("mongo nobody there", mongo_nobody, "transient"),
    Row("mongo stepped down", mongo_says(10107, "NotWritablePrimary"), "transient"),
    Row("mongo duplicate", mongo_says(11000, "DuplicateKey"), "invalid"),
    Row("mongo bad login", mongo_says(18, "AuthenticationFailed"), "auth"),
    Row("mongo not allowed", mongo_says(13, "Unauthorized"), "auth"),
    Row("mongo took too long", mongo_says(50, "MaxTimeMSExpired"), "transient"),
    Row("mongo write conflict", mongo_says(112, "WriteConflict", ["TransientTransactionError"]), "transient"),
    Row("mongo refuses the document", mongo_says(121, "DocumentValidationFailure"), "invalid"),
    Row("mongo has no such command", mongo_says(59, "CommandNotFound"), "permanent"),
    Row("mongo cannot encode", lambda: bson.encode({"x": object()}), "invalid"),
    Row("mongo bulk duplicate", lambda: pymongo.errors.BulkWriteError({"writeErrors": [{"code": 11000, "errmsg": "E11000"}], "nInserted": 1}), "invalid"),
    Row("redis has no such script", redis_says("NOSCRIPT No matching script"), "permanent"),
    Row("redis wrong type", redis_says("WRONGTYPE Operation against a key"), "permanent"),
    Row("redis needs a password", redis_says("NOAUTH Authentication required."), "auth"),
    Row("redis full of clients", redis_says("ERR max number of clients reached"), "transient"),
    Row("redis lost its master", redis_says("MASTERDOWN Link with MASTER is down"), "transient"),
    Row("snowflake connection", lambda: snowflake.OperationalError(msg="no", errno=250001, sqlstate="08001"), "transient"),
    Row("snowflake syntax", lambda: snowflake.ProgrammingError(msg="no", errno=1003, sqlstate="42000"), "permanent"),
]  # fmt: skip


def _kafka_nobody() -> object:
    where = f"127.0.0.1:{free_port()}"
    return kafka.KafkaProducer(bootstrap_servers=where, bootstrap_timeout_ms=100)


def _kafka(code: int) -> Any:
    return lambda: kafka.errors.for_code(code)("no")


def _confluent(name: str) -> Any:
    code = getattr(confluent_kafka.KafkaError, name)
    return lambda: confluent_kafka.KafkaException(confluent_kafka.KafkaError(code, "no"))


def _ssh(greeting: bytes | None) -> Any:
    def ask() -> None:
        ssh = paramiko.SSHClient()
        if greeting is None:
            ssh.connect("127.0.0.1", free_port())
            return
        with talk(greeting, greet=True) as port:
            ssh.connect("127.0.0.1", port, banner_timeout=1)

    return ask


def _by_celery() -> object:
    url = f"redis://127.0.0.1:{free_port()}/0"
    with kombu.Connection(url) as connection:
        return connection.ensure_connection(max_retries=1, interval_start=0.01)


def _rabbit(code: int, words: str) -> Any:
    return lambda: pika.exceptions.ChannelClosedByBroker(code, words)


def _late_name() -> object:
    resolver = dns.resolver.Resolver(configure=False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", 0))
        resolver.nameservers, resolver.port = ["127.0.0.1"], deaf.getsockname()[1]
        return resolver.resolve("example.org", lifetime=0.1)


BROKERS = [
    Row("kafka no broker", _kafka_nobody, "transient"),
    Row("kafka late", lambda: kafka.errors.KafkaTimeoutError("no"), "transient"),
    Row("kafka leader moved", _kafka(6), "transient"),
    Row("kafka message too large", _kafka(10), "invalid"),
    Row("kafka topic not allowed", _kafka(29), "auth"),
    Row("kafka bad login", _kafka(58), "auth"),
    Row("confluent all down", _confluent("_ALL_BROKERS_DOWN"), "transient"),
    Row("confluent late", _confluent("REQUEST_TIMED_OUT"), "transient"),
    Row("confluent bad login", _confluent("_AUTHENTICATION"), "auth"),
    Row("confluent too large", _confluent("MSG_SIZE_TOO_LARGE"), "invalid"),
    Row("rabbit lost", lambda: pika.exceptions.StreamLostError("no"), "transient"),
    Row("rabbit bad login", lambda: pika.exceptions.ProbableAuthenticationError("no"), "auth"),
    Row("rabbit no queue", _rabbit(404, "NOT_FOUND - no queue"), "permanent"),
    Row("rabbit refuses", _rabbit(403, "ACCESS_REFUSED"), "auth"),
    Row("celery's broker is away", _by_celery, "transient"),
    Row("nats nobody there", nats.errors.NoServersError, "transient"),
    Row("nats late", nats.errors.TimeoutError, "transient"),
    Row("nats bad login", nats.errors.AuthorizationError, "auth"),
    Row("nats too large", nats.errors.MaxPayloadError, "invalid"),
    Row("jetstream no stream", lambda: nats.js.errors.NotFoundError(code=404, description="no"), "permanent"),
    Row("ssh nobody there", _ssh(None), "transient"),
    Row("ssh no banner", _ssh(b"\r\n"), "transient"),
    Row("ssh bad login", lambda: paramiko.AuthenticationException("no"), "auth"),
    Row("ssh other host key", lambda: paramiko.BadHostKeyException("h", paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()), "permanent"),
    Row("mail server is busy", smtp_says("421 try later"), "transient"),
    Row("mail bad login", smtp_says("220 hi", "250-me\r\n250 AUTH PLAIN", "535 5.7.8 wrong", login=True), "auth"),
    Row("mail to nobody", smtp_says("220 hi", "250 me", "250 ok", "550 5.1.1 no such user", "250 reset"), "permanent"),
    Row("mail greylisted", smtp_says("220 hi", "250 me", "250 ok", "450 4.2.0 greylisted", "250 reset"), "transient"),
    Row("mail refused as spam", smtp_says("220 hi", "250 me", "250 ok", "250 ok", "354 go on", "554 5.7.1 spam", "250 reset"), "permanent"),
    Row("mail put off", smtp_says("220 hi", "250 me", "250 ok", "250 ok", "354 go on", "451 4.3.0 later", "250 reset"), "transient"),
    Row("ftp bad login", ftp_says("220 hi", "331 password", "530 Login incorrect"), "auth"),
    Row("ftp no file", ftp_says("220 hi", "331 password", "230 in", "550 No such file"), "permanent"),
    Row("ftp is closing", ftp_says("220 hi", "331 password", "421 closing"), "transient"),
    Row("imap lost", lambda: imaplib.IMAP4.abort("socket error: EOF"), "transient"),
    Row("google tasks exists", lambda: from_grpc_error(error_of(grpc_says("ALREADY_EXISTS"))), "permanent"),
    Row("google tasks is busy", lambda: from_grpc_error(error_of(grpc_says("UNAVAILABLE", retry_info(11, code="UNAVAILABLE")))), "transient", 11.0),
    Row("grpc.aio unavailable", grpc_says("UNAVAILABLE", asynchronously=True), "transient"),
    Row("grpc.aio limited", grpc_says("RESOURCE_EXHAUSTED", asynchronously=True), "rate_limit"),
    Row("grpc not allowed", grpc_says("PERMISSION_DENIED"), "auth"),
    Row("google has no credentials", lambda: DefaultCredentialsError("no"), "auth"),
    Row("a name server is late", _late_name, "transient"),
]  # fmt: skip


class Order(pydantic.BaseModel):
    number: int


class OrderSchema(marshmallow.Schema):
    number = marshmallow.fields.Int(required=True)


async def _late() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(5)


async def _cut_off() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"x")
    reader.feed_eof()
    await reader.readexactly(9)


def _wrong_tls() -> object:
    with talk(b"HTTP/1.0 400 no\r\n\r\n") as port:
        plain = socket.create_connection(("127.0.0.1", port), timeout=1)
        return ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


def _os(number: int) -> Any:
    return lambda: OSError(number, os.strerror(number))


def _endless() -> object:
    return _endless()


PYTHON = [
    Row("pydantic", lambda: Order(number="x"), "invalid"),  # type: ignore[arg-type]
    Row("jsonschema", lambda: jsonschema.validate("x", {"type": "number"}), "invalid"),
    Row("marshmallow", lambda: OrderSchema().load({}), "invalid"),
    Row("asyncio timeout", lambda: asyncio.run(_late()), "transient"),
    Row("asyncio stream cut off", lambda: asyncio.run(_cut_off()), "transient"),
    Row("name look-up", lambda: socket.getaddrinfo("x", 1, flags=socket.AI_NUMERICHOST), "transient"),
    Row("no TLS there", _wrong_tls, "transient"),
    Row("no route", _os(errno.EHOSTUNREACH), "transient"),
    Row("disk full", _os(errno.ENOSPC), "transient"),
    Row("too many files", _os(errno.EMFILE), "transient"),
    Row("a program failed", lambda: subprocess.run([sys.executable, "-c", "exit(3)"], check=True), "unknown"),
    Row("a program is late", lambda: subprocess.run(["sleep", "5"], timeout=0.05, check=True), "transient"),
    Row("another process is late", multiprocessing.TimeoutError, "transient"),
    Row("no JSON", lambda: json.loads("{"), "unknown"),
    Row("no text", b"\xff".decode, "unknown"),
    Row("key", lambda: {}["x"], "unknown"),
    Row("recursion", _endless, "unknown"),
    Row("xmlrpc server is down", lambda: xmlrpc.client.ProtocolError("x", 503, "no", {}), "transient"),
]  # fmt: skip

ROWS = [*DATABASES, *BROKERS, *PYTHON]
