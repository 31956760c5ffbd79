"""Held out: errors of web clients, judged by what the rules intend, not by what the tables hold.

Written before the tables were looked at. A row here says what a person who knows the service would
want; a classifier that is wrong on more than one in twenty does not deserve trust.
"""

from __future__ import annotations

import asyncio
import http.client
import json

import aiohttp
import clients as web
import httpx
import oauthlib.oauth2
import requests
import tenacity
import urllib3
import websockets.exceptions
import websockets.sync.client
from google.resumable_media.common import InvalidResponse
from loopback import CUT, DROP, HANG, Answer, Row, caused, client, nobody


def said(code: str | None, kind: str = "invalid_request_error") -> dict[str, object]:
    return {"error": {"message": "no", "type": kind, "param": None, "code": code}}


def claude_said(kind: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "req_1"}


def gemini_said(code: int, status: str) -> dict[str, object]:
    return {"error": {"code": code, "message": "no", "status": status}}


SERVER_ERROR = {
    "error": {"message": "The server had an error", "type": "server_error", "code": None}
}
STREAM_ERROR = f"data: {json.dumps(SERVER_ERROR)}\n\n"
SSE = {"content-type": "text/event-stream"}

MODELS = [
    Row(
        "groq tokens per minute",
        web.groq_chat(429, said("rate_limit_exceeded", "tokens"), {"retry-after": "7.66"}),
        "rate_limit",
        7.66,
    ),
    Row("groq down", web.groq_chat(503, said(None, "service_unavailable_error")), "transient"),
    Row("groq bad key", web.groq_chat(401, said("invalid_api_key")), "auth"),
    Row("openai server error", web.openai_chat(500, SERVER_ERROR), "transient"),
    Row("openai error in a stream", web.openai_stream(200, STREAM_ERROR, SSE), "transient"),
    Row("openai refuses the country", web.openai_chat(403, said("unsupported_country_region_territory", "request_forbidden")), "auth"),
    Row("openai bad argument", web.openai_chat(400, said("invalid_value")), "invalid"),
    Row("openai behind a proxy's HTML", web.openai_chat(502, "<html>Bad Gateway</html>", {"content-type": "text/html"}), "transient"),
    Row("azure openai slow down", web.azure_openai_chat(429, said("429"), {"retry-after-ms": "9000"}), "rate_limit", 9.0),
    Row("azure openai filter", web.azure_openai_chat(400, said("content_filter")), "invalid"),
    Row("azure openai no deployment", web.azure_openai_chat(404, said("DeploymentNotFound")), "permanent"),
    Row("claude too large", web.claude(413, claude_said("request_too_large")), "invalid"),
    Row("claude no model", web.claude(404, claude_said("not_found_error")), "permanent"),
    Row("claude bad request", web.claude(400, claude_said("invalid_request_error")), "invalid"),
    Row("claude api error", web.claude(500, claude_said("api_error")), "transient"),
    Row("litellm context window", web.litellm_openai(400, said("context_length_exceeded")), "invalid"),
    Row("litellm timeout", web.litellm_openai(HANG), "transient"),
    Row("litellm bad key", web.litellm_openai(401, said("invalid_api_key")), "auth"),
    Row("litellm no model", web.litellm_openai(404, said("model_not_found")), "permanent"),
    Row("litellm overloaded claude", web.litellm_claude(529, claude_said("overloaded_error")), "transient"),
    Row("litellm limited claude", web.litellm_claude(429, claude_said("rate_limit_error"), {"retry-after": "12"}), "rate_limit", 12.0),
    Row("gemini overloaded", web.gemini(503, gemini_said(503, "UNAVAILABLE")), "transient"),
    Row("gemini forbidden", web.gemini(403, gemini_said(403, "PERMISSION_DENIED")), "auth"),
    Row("gemini no model", web.gemini(404, gemini_said(404, "NOT_FOUND")), "permanent"),
    Row("gemini bad argument", web.gemini(400, gemini_said(400, "INVALID_ARGUMENT")), "invalid"),
    Row("cohere limited", web.cohere_chat(429, {"message": "trial key"}), "rate_limit"),
    Row("cohere bad key", web.cohere_chat(401, {"message": "invalid api token"}), "auth"),
    Row("cohere bad request", web.cohere_chat(400, {"message": "no"}), "invalid"),
    Row("mistral limited", web.mistral(429, {"message": "Requests rate limit exceeded"}, {"retry-after": "3"}), "rate_limit", 3.0),
    Row("mistral bad key", web.mistral(401, {"message": "Unauthorized"}), "auth"),
    Row("mistral down", web.mistral(502, "bad gateway"), "transient"),
    Row("hugging face no model", web.hugging(404, {}, {"x-error-code": "RepoNotFound"}), "permanent"),
    Row("hugging face gated", web.hugging(403, {}, {"x-error-code": "GatedRepo"}), "auth"),
    Row("hugging face loading", web.hugging(503, {"error": "loading"}), "transient"),
]  # fmt: skip


@client
def _read_gzip(url: str) -> object:
    return requests.get(url, timeout=1)


@client
def _with_urllib3_retries(url: str) -> object:
    session = requests.Session()
    wait = urllib3.Retry(2, status_forcelist=[503], backoff_factor=0)
    session.mount("http://", requests.adapters.HTTPAdapter(max_retries=wait))
    return session.get(url)


@client
def _tenacity(url: str) -> object:
    tries = tenacity.Retrying(stop=tenacity.stop_after_attempt(2))
    return tries(lambda: httpx.get(url, timeout=0.1).raise_for_status())


def _through_proxy(url: str) -> object:
    return requests.get("http://127.0.0.1:9/", proxies={"http": url}, timeout=1)


@client
def _pool_is_empty(url: str) -> object:
    with httpx.Client(limits=httpx.Limits(max_connections=1), timeout=0.1) as pool:
        stream = pool.build_request("GET", url)
        pool.send(stream, stream=True)
        return pool.get(url)


@client
def _group(url: str) -> object:
    async def both() -> None:
        async with httpx.AsyncClient(timeout=1) as http, asyncio.TaskGroup() as group:
            group.create_task(_get(http, url))
            group.create_task(asyncio.sleep(0.01))

    async def _get(http: httpx.AsyncClient, url: str) -> None:
        (await http.get(url)).raise_for_status()

    return asyncio.run(both())


@client
def _late_socket(url: str) -> object:
    return http.client.HTTPConnection(url[7:], timeout=0.1).request("GET", "/")


@client
def _google_upload(url: str) -> object:
    return InvalidResponse(requests.get(url, timeout=1), "upload failed")


def _refused_aiohttp(url: str) -> object:
    async def get() -> None:
        async with aiohttp.ClientSession() as session:
            await session.get(url)

    return asyncio.run(get())


def _in_circles(url: str) -> Answer:
    return Answer(302, "", {"location": "/"})


CLIENTS = [
    Row("httpx pool timeout", _pool_is_empty(Answer(200, "x" * 500_000)), "transient"),
    Row("httpx hung up on", web.httpx_get(DROP), "transient"),
    Row("httpx2 refused", nobody(lambda url: __import__("httpx2").get(url)), "transient"),
    Row("httpx2 late", web.httpx2_get(HANG), "transient"),
    Row("httpx2 down until", web.httpx2_get(503, "", {"retry-after": "120"}), "transient", 120.0),
    Row("httpx teapot", web.httpx_get(418), "permanent"),
    Row("httpx locked", web.httpx_get(423), "transient"),
    Row("httpx2 gone", web.httpx2_get(410), "permanent"),
    Row("requests late", web.requests_get(HANG), "transient"),
    Row("requests hung up on", web.requests_get(DROP), "transient"),
    Row("requests cut off", web.requests_get(CUT), "transient"),
    Row("requests garbled gzip", _read_gzip(200, b"no gzip", {"content-encoding": "gzip"}), "unknown"),
    Row("requests tired of 503", _with_urllib3_retries(503), "transient"),
    Row("requests dead proxy", nobody(_through_proxy), "transient"),
    Row("requests unknown scheme", lambda: requests.get("foo://x", timeout=1), "permanent"),
    Row("requests no JSON", web.requests_json(200, "<html>"), "unknown"),
    Row("requests too early", web.requests_get(425), "transient"),
    Row("requests must pay", web.requests_get(402), "quota"),
    Row("requests large", web.requests_get(413), "invalid"),
    Row("urllib3 late", web.urllib3_get(HANG), "transient"),
    Row("urllib3 hung up on", web.urllib3_get(DROP), "transient"),
    Row("urllib3 bad URL", lambda: urllib3.request("GET", "http://[::1"), "permanent"),
    Row("aiohttp hung up on", web.aiohttp_get(DROP), "transient"),
    Row("aiohttp cut off", web.aiohttp_get(CUT), "transient"),
    Row("aiohttp late", web.aiohttp_get(HANG), "transient"),
    Row("aiohttp refused", nobody(_refused_aiohttp), "transient"),
    Row("aiohttp in circles", web.aiohttp_get(302, "", {"location": "/"}), "permanent"),
    Row("aiohttp forbidden", web.aiohttp_get(403), "auth"),
    Row("aiohttp limited", web.aiohttp_get(429, "", {"retry-after": "21"}), "rate_limit", 21.0),
    Row("urllib bad gateway", web.urllib_get(502), "transient"),
    Row("urllib refused", nobody(__import__("urllib.request").request.urlopen), "transient"),
    Row("http.client hung up on", web.urllib_get(DROP), "transient"),
    Row("websocket refused by status", web.websocket(503), "transient"),
    Row("websocket bad key", web.websocket(401), "auth"),
    Row("websocket lost", lambda: websockets.exceptions.ConnectionClosedError(None, None), "transient"),
    Row("websocket bad URL", lambda: websockets.sync.client.connect("http:x"), "permanent"),
    Row("tenacity gave up on a timeout", _tenacity(HANG), "transient"),
    Row("tenacity gave up on a bad key", _tenacity(401), "auth"),
    Row("a task group with a bad key", _group(401), "auth"),
    Row("wrapped in an error of one's own", caused(RuntimeError("sync failed"), web.httpx_get(429, "", {"retry-after": "4"})), "rate_limit", 4.0),
    Row("oauth token expired", oauthlib.oauth2.TokenExpiredError, "auth"),
    Row("oauth grant refused", oauthlib.oauth2.InvalidGrantError, "auth"),
    Row("google upload", _google_upload(503), "transient"),
]  # fmt: skip


def telegram_said(code: int, words: str) -> tuple[int, dict[str, object]]:
    return code, {"ok": False, "error_code": code, "description": words}


def kubernetes_said(code: int, reason: str) -> dict[str, object]:
    return {"kind": "Status", "status": "Failure", "reason": reason, "code": code}


def azure_said(code: str) -> tuple[str, dict[str, str]]:
    return f"<Error><Code>{code}</Code></Error>", {"x-ms-error-code": code}


def minio_said(code: str) -> tuple[str, dict[str, str]]:
    return f"<Error><Code>{code}</Code></Error>", {"content-type": "application/xml"}


def stripe_said(kind: str, code: str | None = None) -> dict[str, object]:
    return {"error": {"type": kind, "code": code, "message": "no"}}


@client
def _upload_to_s3(url: str) -> object:
    import io  # noqa: PLC0415

    return web.aws_call(url, "s3", "upload_fileobj", Fileobj=io.BytesIO(b"x"), Bucket="b", Key="k")


SERVICES = [
    Row("s3 busy", web.aws("s3", "get_object", 503, "SlowDown"), "rate_limit"),
    Row("s3 no bucket", web.aws("s3", "get_object", 404, "NoSuchBucket"), "permanent"),
    Row("s3 head of nothing", web.s3_read(404), "permanent"),
    Row("s3 wrong clock", web.aws("s3", "get_object", 403, "RequestTimeTooSkewed"), "auth"),
    Row("s3 upload refused", _upload_to_s3(403, "<Error><Code>AccessDenied</Code></Error>"), "auth"),
    Row("s3 late", web.s3_read(HANG), "transient"),
    Row("sqs no queue", web.aws("sqs", "send_message", 400, "QueueDoesNotExist"), "permanent"),
    Row("dynamodb conflict", web.aws("dynamodb", "put_item", 400, "TransactionConflictException"), "transient"),
    Row("lambda busy changing", web.aws("lambda", "invoke", 409, "ResourceConflictException"), "transient"),
    Row("lambda throttled", web.aws("lambda", "invoke", 429, "TooManyRequestsException", {"retry-after": "1"}), "rate_limit", 1.0),
    Row("ec2 has no machine left", web.aws("ec2", "run_instances", 500, "InsufficientInstanceCapacity"), "transient"),
    Row("ec2 bad value", web.aws("ec2", "run_instances", 400, "InvalidParameterValue"), "invalid"),
    Row("secrets manager failed", web.aws("secretsmanager", "get_secret_value", 500, "InternalServiceError"), "transient"),
    Row("bedrock throttled", web.aws("bedrock-runtime", "invoke_model", 429, "ThrottlingException"), "rate_limit"),
    Row("bedrock quota", web.aws("bedrock-runtime", "invoke_model", 400, "ServiceQuotaExceededException"), "quota"),
    Row("bedrock forbidden", web.aws("bedrock-runtime", "invoke_model", 403, "AccessDeniedException"), "auth"),
    Row("kinesis stale iterator", web.aws("kinesis", "get_records", 400, "ExpiredIteratorException"), "invalid"),
    Row("google storage down", web.google_storage(503, "backendError"), "transient"),
    Row("google storage limited", web.google_storage(429, "rateLimitExceeded"), "rate_limit"),
    Row("google storage stale", web.google_storage(412, "conditionNotMet"), "permanent"),
    Row("google storage forbidden", web.google_storage(403, "forbidden"), "auth"),
    Row("bigquery limited by a 403", web.google_query(403, "rateLimitExceeded"), "rate_limit"),
    Row("bigquery quota", web.google_query(403, "quotaExceeded"), "quota"),
    Row("bigquery bad query", web.google_query(400, "invalidQuery"), "invalid"),
    Row("azure blob missing", web.azure_blob(404, *azure_said("BlobNotFound")), "permanent"),
    Row("azure blob busy", web.azure_blob(503, *azure_said("ServerBusy")), "transient"),
    Row("azure blob bad key", web.azure_blob(403, *azure_said("AuthenticationFailed")), "auth"),
    Row("azure blob hung up on", web.azure_blob(DROP), "transient"),
    Row("kubernetes conflict", web.kubernetes_pods(409, kubernetes_said(409, "Conflict")), "transient"),
    Row("kubernetes slow down", web.kubernetes_pods(429, kubernetes_said(429, "TooManyRequests"), {"retry-after": "1"}), "rate_limit", 1.0),
    Row("kubernetes invalid", web.kubernetes_pods(422, kubernetes_said(422, "Invalid")), "invalid"),
    Row("kubernetes no pod", web.kubernetes_pods(404, kubernetes_said(404, "NotFound")), "permanent"),
    Row("minio slow down", web.minio_get(503, *minio_said("SlowDown")), "rate_limit"),
    Row("minio no key", web.minio_get(404, *minio_said("NoSuchKey")), "permanent"),
    Row("minio denied", web.minio_get(403, *minio_said("AccessDenied")), "auth"),
    Row("github down", web.git_hub(502, {"message": "Server Error"}), "transient"),
    Row("github no repo", web.git_hub(404, {"message": "Not Found"}), "permanent"),
    Row("github bad token", web.git_hub(401, {"message": "Bad credentials"}), "auth"),
    Row("github secondary limit", web.git_hub(403, {"message": "You have exceeded a secondary rate limit"}, {"retry-after": "60"}), "rate_limit", 60.0),
    Row("slack internal", web.slack_says("internal_error"), "transient"),
    Row("slack unavailable", web.slack_says("service_unavailable"), "transient"),
    Row("slack not authed", web.slack_says("not_authed"), "auth"),
    Row("slack missing scope", web.slack_says("missing_scope"), "auth"),
    Row("slack no channel", web.slack_says("channel_not_found"), "permanent"),
    Row("slack too long", web.slack_says("msg_too_long"), "invalid"),
    Row("stripe down", web.stripe_charge(500, stripe_said("api_error")), "transient"),
    Row("stripe busy with this object", web.stripe_charge(429, stripe_said("invalid_request_error", "lock_timeout")), "rate_limit"),
    Row("stripe hung up on", web.stripe_charge(DROP), "transient"),
    Row("twilio limited", web.twilio_send(429, {"code": 20429, "message": "Too Many Requests", "status": 429}), "rate_limit"),
    Row("twilio bad key", web.twilio_send(401, {"code": 20003, "message": "Authenticate", "status": 401}), "auth"),
    Row("twilio bad number", web.twilio_send(400, {"code": 21211, "message": "no number", "status": 400}), "invalid"),
    Row("sendgrid limited", web.sendgrid_send(429), "rate_limit"),
    Row("sendgrid bad key", web.sendgrid_send(401), "auth"),
    Row("sendgrid bad mail", web.sendgrid_send(400), "invalid"),
    Row("telegram late", web.telegram_me(DROP), "transient"),
    Row("telegram bad request", web.telegram_me(*telegram_said(400, "Bad Request: chat not found")), "invalid"),
    Row("telegram blocked", web.telegram_me(*telegram_said(403, "Forbidden: bot was blocked by the user")), "auth"),
    Row("telegram conflict", web.telegram_me(*telegram_said(409, "Conflict: terminated by other getUpdates")), "transient"),
    Row("elasticsearch no document", web.elastic_says(404, "index_not_found_exception"), "permanent"),
    Row("elasticsearch full queue", web.elastic_says(429, "es_rejected_execution_exception"), "rate_limit"),
    Row("elasticsearch conflict", web.elastic_says(409, "version_conflict_engine_exception"), "transient"),
    Row("elasticsearch bad query", web.elastic_says(400, "parsing_exception"), "invalid"),
    Row("elasticsearch late", web.elastic_get(HANG), "transient"),
    Row("opensearch limited", web.opensearch_get(429, {"error": {"type": "x"}, "status": 429}), "rate_limit"),
    Row("opensearch forbidden", web.opensearch_get(403, {"error": {"type": "security_exception"}, "status": 403}), "auth"),
    Row("opensearch hung up on", web.opensearch_get(DROP), "transient"),
]  # fmt: skip

ROWS = [*MODELS, *CLIENTS, *SERVICES]
