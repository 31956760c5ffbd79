"""The rows for clouds and services: Google, gRPC, Stripe, Slack and the others."""

from __future__ import annotations

import clients as web
from google.api_core import exceptions as google
from google.auth.exceptions import RefreshError, TransportError
from loopback import DROP, Row, error_of, nobody
from wires import grpc_says, retry_info

CODES = {
    "transient": ("UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "INTERNAL", "CANCELLED"),
    "rate_limit": ("RESOURCE_EXHAUSTED",),
    "auth": ("UNAUTHENTICATED", "PERMISSION_DENIED"),
    "invalid": ("INVALID_ARGUMENT", "OUT_OF_RANGE"),
    "permanent": ("NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "UNIMPLEMENTED", "DATA_LOSS"),
    "unknown": ("UNKNOWN",),
}  # fmt: skip


def _by_google(code: str, *trailing: tuple[str, str | bytes]) -> BaseException:
    made: BaseException = google.from_grpc_error(error_of(grpc_says(code, *trailing)))
    return made


GRPC = [
    row
    for category, codes in CODES.items()
    for code in codes
    for row in (
        Row(f"grpc {code}", grpc_says(code), category),
        Row(f"grpc.aio {code}", grpc_says(code, asynchronously=True), category),
        Row(f"google {code}", lambda code=code: _by_google(code), category),
    )
]
PUSHED_BACK = [
    Row("grpc pushback", grpc_says("UNAVAILABLE", ("grpc-retry-pushback-ms", "1200")), "transient", 1.2),
    Row("grpc pushback: never", grpc_says("UNAVAILABLE", ("grpc-retry-pushback-ms", "-1")), "permanent"),
    Row("grpc RetryInfo is garbage", grpc_says("RESOURCE_EXHAUSTED", ("grpc-status-details-bin", b"\x1a\xff\x01")), "rate_limit"),
    Row("google RetryInfo", lambda: _by_google("RESOURCE_EXHAUSTED", retry_info(34)), "rate_limit", 34.0),
]  # fmt: skip

GOOGLE = [
    Row("google RetryError", lambda: google.RetryError("late", google.ServiceUnavailable("no")), "transient"),
    Row("google RetryError of a refusal", lambda: google.RetryError("late", google.Forbidden("no")), "auth"),
    Row("google-auth RefreshError", lambda: RefreshError("no"), "auth"),
    Row("google-auth TransportError", lambda: TransportError("no"), "transient"),
    Row("google storage 404", web.google_storage(404, "notFound"), "permanent"),
    Row("google storage 503, says when", web.google_storage(503, "backendError", {"retry-after": "5"}), "transient", 5.0),
    Row("bigquery 403 rateLimitExceeded", web.google_query(403, "rateLimitExceeded"), "rate_limit"),
    Row("bigquery 403 quotaExceeded", web.google_query(403, "quotaExceeded"), "quota"),
]  # fmt: skip


def stripe(status: int, kind: str, code: str | None = None, **headers: str) -> object:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"type": kind, "code": code, "message": "no"}
    return web.stripe_charge(status, {"error": error}, named)


STRIPE = [
    Row("stripe CardError, a 402", stripe(402, "card_error", "card_declined"), "invalid"),
    Row("stripe IdempotencyError", stripe(400, "idempotency_error"), "invalid"),
    Row("stripe InvalidRequestError", stripe(400, "invalid_request_error"), "invalid"),
    Row("stripe AuthenticationError", stripe(401, "invalid_request_error"), "auth"),
    Row("stripe PermissionError", stripe(403, "invalid_request_error"), "auth"),
    Row("stripe 429", stripe(429, "invalid_request_error", "rate_limit", retry_after="2"), "rate_limit", 2.0),
    Row("stripe replays a saved 500", stripe(500, "api_error", stripe_should_retry="false"), "permanent"),
    Row("stripe lock, worth another try", stripe(409, "idempotency_error", stripe_should_retry="true"), "transient"),
    Row("stripe APIConnectionError", web.stripe_charge(DROP), "transient"),
]  # fmt: skip

SLACK = [
    Row("slack ratelimited", web.slack_says("ratelimited", 429, {"retry-after": "30"}), "rate_limit", 30.0),
    Row("slack ratelimited, a 200", web.slack_says("ratelimited"), "rate_limit"),
    Row("slack invalid_auth", web.slack_says("invalid_auth"), "auth"),
    Row("slack token_revoked", web.slack_says("token_revoked"), "auth"),
    Row("slack account_inactive", web.slack_says("account_inactive"), "auth"),
    Row("slack fatal_error", web.slack_says("fatal_error"), "transient"),
    Row("slack channel_not_found", web.slack_says("channel_not_found"), "permanent"),
    Row("slack msg_too_long", web.slack_says("msg_too_long"), "invalid"),
]  # fmt: skip

FLOOD = {"ok": False, "error_code": 429, "description": "Too Many Requests", "parameters": {"retry_after": 14}}  # fmt: skip
SPENT = {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "0", "retry-after": "25"}
LIMIT = {"message": "API rate limit exceeded for 1.2.3.4."}

OTHERS = [
    Row("telegram RetryAfter", web.telegram_me(429, FLOOD), "rate_limit", 14.0),
    Row("telegram BadRequest, a NetworkError", web.telegram_me(400, {"ok": False, "error_code": 400, "description": "Bad Request"}), "invalid"),
    Row("github RateLimitExceededException", web.git_hub(403, LIMIT, SPENT), "rate_limit", 25.0),
    Row("azure ServiceRequestError", nobody(lambda url: web.BlobClient(url, "c", "b", retry_total=0).get_blob_properties()), "transient"),
    Row("azure 503, says when", web.azure_blob(503, "", {"x-ms-retry-after-ms": "700"}), "transient", 0.7),
    Row("azure 429, says when", web.azure_blob(429, "", {"retry-after-ms": "900"}), "rate_limit", 0.9),
    Row("azure 404", web.azure_blob(404, ""), "permanent"),
    Row("elasticsearch 429", web.elastic_says(429, "circuit_breaking_exception"), "rate_limit"),
    Row("elasticsearch 404", web.elastic_says(404, "index_not_found_exception"), "permanent"),
    Row("kubernetes 503", web.kubernetes_pods(503, {}), "transient"),
    Row("kubernetes 403", web.kubernetes_pods(403, {}), "auth"),
    Row("twilio 429", web.twilio_send(429, {"code": 20429, "status": 429}), "rate_limit"),
    Row("twilio 400", web.twilio_send(400, {"code": 21211, "status": 400}), "invalid"),
]  # fmt: skip

ROWS = [*GRPC, *PUSHED_BACK, *GOOGLE, *STRIPE, *SLACK, *OTHERS]
