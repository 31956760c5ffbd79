"""Held out once more: written after the tables were mended by the first two sets, to see whether
they had only learnt these by heart."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import ssl
from typing import Any

import aiohttp
import azure.core.exceptions as azure
import botocore.exceptions as boto
import celery.exceptions
import clients as web
import google.api_core.exceptions as google
import httpx
import kombu.exceptions
import nats.errors
import paramiko
import pika.exceptions
import psycopg
import pymongo.errors
import redis.exceptions
import requests
import sqlalchemy.exc
import urllib3
from loopback import DROP, HANG, Answer, Row, caused, client, error_of, free_port, nobody
from wires import ftp_says, grpc_says, mongo_says, mysql_says, postgres, redis_says, smtp_says


def openai_said(code: str | None, kind: str) -> dict[str, object]:
    return {"error": {"message": "no", "type": kind, "param": None, "code": code}}


def claude_said(kind: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": "no"}}


@client
def _async_openai(url: str) -> object:
    import openai  # noqa: PLC0415

    async def ask() -> object:
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as made:
            return await made.responses.create(model="m", input="hi")

    return asyncio.run(ask())


@client
def _async_claude(url: str) -> object:
    import anthropic  # noqa: PLC0415

    async def ask() -> object:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as made:
            return await made.messages.create(model="m", max_tokens=1, messages=web.ASKED)

    return asyncio.run(ask())


@client
def _session(url: str) -> object:
    with requests.Session() as session:
        return session.post(url, json={"a": 1}, timeout=0.3).raise_for_status()


@client
def _async_httpx(url: str) -> object:
    async def ask() -> object:
        async with httpx.AsyncClient(timeout=0.2) as made:
            return (await made.post(url)).raise_for_status()

    return asyncio.run(ask())


@client
def _in_a_thread(url: str) -> object:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: httpx.get(url, timeout=0.2).raise_for_status()).result()


def _aws(service: str, operation: str, status: int, code: str) -> Any:
    return web.aws(service, operation, status, code)


def _wrapped_twice() -> object:
    try:
        try:
            error = error_of(web.requests_get(401))
            raise error
        except requests.RequestException as inner:
            raise OSError("could not load") from inner
    except OSError as outer:
        raise RuntimeError("could not start") from outer


ROWS = [
    Row("async openai limited", _async_openai(429, openai_said("rate_limit_exceeded", "tokens"), {"retry-after": "3"}), "rate_limit", 3.0),
    Row("async openai poor", _async_openai(429, openai_said("insufficient_quota", "insufficient_quota")), "quota"),
    Row("async openai 520", _async_openai(520, "<html>"), "transient"),
    Row("async claude overloaded", _async_claude(529, claude_said("overloaded_error")), "transient"),
    Row("async claude forbidden", _async_claude(403, claude_said("permission_error")), "auth"),
    Row("async claude hung up on", _async_claude(DROP), "transient"),
    Row("openai organisation", web.openai_chat(401, openai_said("mismatched_organization", "invalid_request_error")), "auth"),
    Row("openai unprocessable", web.openai_chat(422, openai_said(None, "invalid_request_error")), "invalid"),
    Row("openai bad JSON stream", web.openai_stream(200, "data: {oops\n\n", {"content-type": "text/event-stream"}), "unknown"),
    Row("litellm bad request", web.litellm_openai(400, openai_said(None, "invalid_request_error")), "invalid"),
    Row("litellm down", web.litellm_openai(503, openai_said(None, "server_error")), "transient"),
    Row("litellm claude bad key", web.litellm_claude(401, claude_said("authentication_error")), "auth"),
    Row("groq too large", web.groq_chat(413, openai_said("request_too_large", "tokens")), "invalid"),
    Row("cohere down", web.cohere_chat(503, {"message": "no"}), "transient"),
    Row("cohere no model", web.cohere_chat(404, {"message": "no"}), "permanent"),
    Row("mistral unprocessable", web.mistral(422, {"detail": []}), "invalid"),
    Row("gemini failed", web.gemini(500, {"error": {"code": 500, "status": "INTERNAL"}}), "transient"),
    Row("hugging face limited", web.hugging(429, {}, {"retry-after": "6"}), "rate_limit", 6.0),
    Row("a session's post", _session(429, "", {"retry-after": "8"}), "rate_limit", 8.0),
    Row("a session is late", _session(HANG), "transient"),
    Row("async httpx is late", _async_httpx(HANG), "transient"),
    Row("async httpx conflict", _async_httpx(409), "transient"),
    Row("in a thread", _in_a_thread(403), "auth"),
    Row("wrapped twice", _wrapped_twice, "auth"),
    Row("during another", caused(KeyError("x"), nobody(lambda url: requests.get(url, timeout=1))), "transient"),
    Row("requests proxy wants a login", web.requests_get(407), "auth"),
    Row("urllib3 header", lambda: urllib3.exceptions.InvalidHeader("no"), "unknown"),
    Row("aiohttp bad gateway", web.aiohttp_get(502), "transient"),
    Row("aiohttp handshake", lambda: aiohttp.WSServerHandshakeError(None, (), status=403), "auth"),  # type: ignore[arg-type]
    Row("sts expired", _aws("dynamodb", "get_item", 400, "ExpiredTokenException"), "auth"),
    Row("kms throttled", _aws("secretsmanager", "get_secret_value", 400, "ThrottlingException"), "rate_limit"),
    Row("secret missing", _aws("secretsmanager", "get_secret_value", 400, "ResourceNotFoundException"), "permanent"),
    Row("kinesis full", _aws("kinesis", "put_record", 400, "ProvisionedThroughputExceededException"), "rate_limit"),
    Row("s3 internal", _aws("s3", "get_object", 500, "InternalError"), "transient"),
    Row("s3 bad key id", _aws("s3", "get_object", 403, "InvalidAccessKeyId"), "auth"),
    Row("ec2 not allowed", _aws("ec2", "run_instances", 403, "UnauthorizedOperation"), "auth"),
    Row("aws body cut off", lambda: boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), "transient"),
    Row("aws proxy", lambda: boto.ProxyConnectionError(proxy_url="x", error="no"), "transient"),
    Row("google too many", lambda: google.TooManyRequests("no"), "rate_limit"),
    Row("google gone", lambda: google.from_http_status(410, "no"), "permanent"),
    Row("google bad gateway", lambda: google.BadGateway("no"), "transient"),
    Row("google storage internal", web.google_storage(500, "internalError"), "transient"),
    Row("bigquery no table", web.google_query(404, "notFound"), "permanent"),
    Row("azure bad login", lambda: azure.ClientAuthenticationError("no"), "auth"),
    Row("azure reading", lambda: azure.ServiceResponseError("no"), "transient"),
    Row("azure limited", web.azure_blob(429, "", {"retry-after": "4"}), "rate_limit", 4.0),
    Row("kubernetes forbidden", web.kubernetes_pods(403, {"reason": "Forbidden"}), "auth"),
    Row("github validation", web.git_hub(422, {"message": "Validation Failed"}), "invalid"),
    Row("slack expired", web.slack_says("token_expired"), "auth"),
    Row("slack down", web.slack(503, "upstream", {"content-type": "text/plain"}), "transient"),
    Row("stripe bad gateway", web.stripe_charge(502, {"error": {"type": "api_error"}}), "transient"),
    Row("twilio down", web.twilio_send(503, {"code": 20503, "status": 503}), "transient"),
    Row("sendgrid down", web.sendgrid_send(503), "transient"),
    Row("telegram token", web.telegram_me(401, {"ok": False, "error_code": 401, "description": "Unauthorized"}), "auth"),
    Row("elasticsearch not allowed", web.elastic_says(403, "security_exception"), "auth"),
    Row("opensearch no index", web.opensearch_get(404, {"error": {"type": "index_not_found_exception"}, "status": 404}), "permanent"),
    Row("grpc late", grpc_says("DEADLINE_EXCEEDED"), "transient"),
    Row("psycopg closed", lambda: psycopg.OperationalError("the connection is closed"), "transient"),
    Row("postgres bad text", postgres("SELECT 'x'::int"), "invalid"),
    Row("postgres missing column", postgres("SELECT nothing FROM clerks", by="asyncpg"), "permanent"),
    Row("postgres not null", postgres("CREATE TEMP TABLE n (a int NOT NULL); INSERT INTO n VALUES (NULL)", by="psycopg2"), "invalid"),
    Row("postgres late", postgres("SET statement_timeout = 20; SELECT pg_sleep(2)", by="sqlalchemy"), "transient"),
    Row("mysql deadlock", mysql_says(1213, "40001"), "transient"),
    Row("mysql too long", mysql_says(1406, "22001"), "invalid"),
    Row("mysql read-only", mysql_says(1290), "transient"),
    Row("sqlalchemy no rows", lambda: sqlalchemy.exc.NoResultFound("no"), "unknown"),
    Row("mongo lost", lambda: pymongo.errors.NetworkTimeout("no"), "transient"),
    Row("mongo no right", mongo_says(8000, "AtlasError"), "unknown"),
    Row("mongo shutting down", mongo_says(91, "ShutdownInProgress"), "transient"),
    Row("redis busy script", redis_says("BUSY Redis is busy running a script"), "transient"),
    Row("redis read-only", redis_says("READONLY You can't write"), "transient"),
    Row("redis lost", lambda: redis.exceptions.ConnectionError("closed"), "transient"),
    Row("rabbit blocked", lambda: pika.exceptions.ConnectionBlockedTimeout("no"), "transient"),
    Row("rabbit closed by broker", lambda: pika.exceptions.ConnectionClosedByBroker(320, "FORCED"), "transient"),
    Row("kombu", lambda: kombu.exceptions.OperationalError("no"), "transient"),
    Row("celery's worker died", lambda: celery.exceptions.WorkerLostError("no"), "transient"),
    Row("nats closed", nats.errors.ConnectionClosedError, "transient"),
    Row("ssh channel", lambda: paramiko.SSHException("Channel closed."), "transient"),
    Row("ssh wrong kind of login", lambda: paramiko.BadAuthenticationType("no", ["key"]), "auth"),
    Row("mail box is full", smtp_says("220 hi", "250 me", "250 ok", "452 4.2.2 full", "250 reset"), "transient"),
    Row("mail sender refused", smtp_says("220 hi", "250 me", "550 5.7.1 no", "250 reset"), "permanent"),
    Row("ftp full", ftp_says("220 hi", "331 pw", "230 in", "452 no space"), "transient"),
    Row("TLS name", lambda: ssl.SSLCertVerificationError(1, "hostname mismatch"), "permanent"),
    Row("broken pipe", BrokenPipeError, "transient"),
    Row("no JSON", lambda: json.loads("x"), "unknown"),
    Row("value", lambda: Answer(1, 2, 3, 4, 5), "unknown"),  # type: ignore[call-arg,arg-type]
    Row("nobody there", lambda: __import__("socket").create_connection(("127.0.0.1", free_port())), "transient"),
]  # fmt: skip
