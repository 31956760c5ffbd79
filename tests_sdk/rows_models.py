"""The rows for models: OpenAI and those who speak like it, Claude, LiteLLM, Gemini."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import anthropic
import clients as web
import litellm
import openai
import pydantic
from litellm.exceptions import BudgetExceededError
from litellm.types.router import RouterRateLimitError, RouterRateLimitErrorBasic
from loopback import DROP, HANG, Row, client, error_of, nobody
from openai._exceptions import SubjectTokenProviderError


def openai_error(code: str | None, kind: str) -> dict[str, object]:
    return {"error": {"message": "You cannot have it.", "type": kind, "param": None, "code": code}}


def quota(code: str, status: int = 429) -> Row:
    answer = web.openai_chat(status, openai_error(code, "insufficient_quota"))
    return Row(f"openai {code}", answer, "quota")


def refused(code: str, status: int, category: str, kind: str = "invalid_request_error") -> Row:
    return Row(f"openai {code}", web.openai_chat(status, openai_error(code, kind)), category)


LIMITED = openai_error("rate_limit_exceeded", "requests")
USED_UP = {
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "6m0s",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "12ms",
}
HALF_USED = {**USED_UP, "x-ratelimit-remaining-requests": "7"}


class Article(pydantic.BaseModel):
    title: str


@client
def _cut_short(url: str) -> object:
    chat = openai.OpenAI(base_url=url, api_key="x", max_retries=0).chat
    return chat.completions.parse(model="m", messages=web.ASKED, response_format=Article)


@client
def _strict(url: str) -> object:
    made = openai.OpenAI(base_url=url, api_key="x", max_retries=0, _strict_response_validation=True)
    return made.models.retrieve("m")


CUT_SHORT = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "length",
            "message": {"role": "assistant", "content": '{"ti'},
        }
    ],
}

OPENAI = [
    Row("openai refused", nobody(lambda url: openai.OpenAI(base_url=url, api_key="x", max_retries=0).models.list()), "transient"),
    Row("openai hung up on", web.openai_chat(DROP), "transient"),
    Row("openai late", web.openai_chat(HANG), "transient"),
    quota("insufficient_quota"),
    quota("billing_hard_limit_reached", 400),
    quota("credit_balance_exhausted"),
    quota("organization_spend_limit_exceeded"),
    quota("project_spend_limit_exceeded"),
    quota("organization_usage_limit_exceeded"),
    quota("usage_limit_reached"),
    Row("openai quota known by its type only", web.openai_chat(429, openai_error(None, "insufficient_quota")), "quota"),
    Row("openai limited, says when", web.openai_chat(429, LIMITED, {"retry-after": "20"}), "rate_limit", 20.0),
    Row("openai limited, to the millisecond", web.openai_chat(429, LIMITED, {"retry-after-ms": "1500", "retry-after": "2"}), "rate_limit", 1.5),
    Row("openai limited, bucket empty", web.openai_chat(429, LIMITED, USED_UP), "rate_limit", 360.0),
    Row("openai limited, one bucket empty", web.openai_chat(429, LIMITED, HALF_USED), "rate_limit", 0.012),
    Row("openai limited, says nothing", web.openai_chat(429, LIMITED), "rate_limit"),
    Row("openai slow down", web.openai_chat(503, openai_error("slow_down", "server_error")), "rate_limit"),
    refused("context_length_exceeded", 400, "invalid"),
    refused("content_policy_violation", 400, "invalid"),
    refused("content_filter", 400, "invalid"),
    refused("string_above_max_length", 400, "invalid"),
    refused("model_not_found", 404, "permanent"),
    refused("invalid_api_key", 401, "auth"),
    Row("openai no key at all", web.openai_chat(401, openai_error(None, "invalid_request_error")), "auth"),
    Row("openai answer cut short", _cut_short(200, CUT_SHORT), "permanent"),
    Row("openai answer of another shape", _strict(200, "text", {"content-type": "text/plain"}), "permanent"),
    Row("openai token of the subject", lambda: SubjectTokenProviderError("no"), "auth"),
    Row("openai says: do not try again", web.openai_chat(500, openai_error(None, "server_error"), {"x-should-retry": "false"}), "permanent"),
    Row("openai says: a bare 429 will not pass", web.openai_chat(429, {}, {"x-should-retry": "false"}), "quota"),
    Row("openai says: try that 4xx again", web.openai_chat(404, {}, {"x-should-retry": "true"}), "transient"),
]  # fmt: skip


def claude_error(kind: str, code: str | None = None) -> dict[str, object]:
    details = {"details": {"error_code": code}} if code else {}
    error = {"type": kind, "message": "You cannot have it.", **details}
    return {"type": "error", "error": error, "request_id": "req_1"}


def claude(kind: str, status: int, category: str, code: str | None = None) -> Row:
    return Row(f"claude {code or kind}", web.claude(status, claude_error(kind, code)), category)


def in_stream(kind: str) -> tuple[int, str, dict[str, str]]:
    event = f"event: error\ndata: {json.dumps(claude_error(kind))}\n\n"
    return 200, event, {"content-type": "text/event-stream"}


def at(seconds: float) -> str:
    """A time as Anthropic writes it. The server's own clock is what it is counted by."""
    return datetime.fromtimestamp(NOON + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


NOON = 1_750_075_200
DATE = {"date": "Mon, 16 Jun 2025 12:00:00 GMT"}
TOKENS_USED_UP = {
    **DATE,
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": at(3600),
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": at(41),
    "anthropic-ratelimit-output-tokens-remaining": "0",
    "anthropic-ratelimit-output-tokens-reset": at(17),
}
POOR = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "Your credit balance is too low to access the Anthropic API.",
    },
}

CLAUDE = [
    claude("overloaded_error", 529, "transient"),
    claude("api_error", 500, "transient"),
    claude("timeout_error", 504, "transient"),
    Row("claude overloaded within a stream", web.claude_stream(*in_stream("overloaded_error")), "transient"),
    Row("claude failed within a stream", web.claude_stream(*in_stream("api_error")), "transient"),
    Row("claude overloaded, says when", web.claude(529, claude_error("overloaded_error"), {"retry-after": "8"}), "transient", 8.0),
    Row("claude refused", nobody(lambda url: anthropic.Anthropic(base_url=url, api_key="x", max_retries=0).models.list()), "transient"),
    Row("claude late", web.claude(HANG), "transient"),
    Row("claude retryable", lambda: anthropic.RetryableError("again"), "transient"),
    claude("invalid_request_error", 400, "transient", "cmek_key_unreachable"),
    Row("claude limited, says when", web.claude(429, claude_error("rate_limit_error"), {"retry-after": "31"}), "rate_limit", 31.0),
    Row("claude limited, tokens used up", web.claude(429, claude_error("rate_limit_error"), TOKENS_USED_UP), "rate_limit", 41.0),
    claude("rate_limit_error", 429, "rate_limit", "ramp_limit_exceeded"),
    claude("rate_limit_error", 429, "quota", "enforced_spend_limit_reached"),
    claude("billing_error", 402, "quota"),
    Row("claude has no credit left", web.claude(400, POOR), "quota"),
    claude("authentication_error", 401, "auth"),
    claude("permission_error", 403, "auth"),
    claude("invalid_request_error", 400, "auth", "organization_on_hold"),
    Row("claude has no credentials", lambda: anthropic.CredentialsError("no"), "auth"),
]  # fmt: skip


def litellm_quota() -> BaseException:
    error = error_of(
        web.litellm_openai(429, openai_error("insufficient_quota", "insufficient_quota"))
    )
    assert getattr(error, "code", None) in (None, "429"), "the trap this row is for"
    return error


LITELLM = [
    Row("litellm quota, its code rewritten", litellm_quota, "quota"),
    Row("litellm limited", web.litellm_openai(429, LIMITED, {"retry-after": "9"}), "rate_limit", 9.0),
    Row("litellm refused, which it calls a 500", nobody(lambda url: litellm.completion(model="openai/x", messages=web.ASKED, api_base=url, api_key="x", max_retries=0)), "transient"),
    Row("litellm over budget", lambda: BudgetExceededError(current_cost=2, max_budget=1), "quota"),
    Row("litellm router cools down", lambda: RouterRateLimitError(model="m", cooldown_time=5.5, enable_pre_call_checks=False, cooldown_list=[]), "rate_limit", 5.5),
    Row("litellm router, all are limited", lambda: RouterRateLimitErrorBasic(model="m"), "rate_limit"),
]  # fmt: skip


def gemini_error(code: int, status: str, *details: object) -> dict[str, object]:
    return {"error": {"code": code, "message": "no", "status": status, "details": details}}


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
QUOTA_FAILURE = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}
BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}

GEMINI = [
    Row("gemini limited, says when", web.gemini(429, gemini_error(429, "RESOURCE_EXHAUSTED", QUOTA_FAILURE, RETRY_INFO)), "rate_limit", 34.0),
    Row("gemini overloaded", web.gemini(503, gemini_error(503, "UNAVAILABLE")), "transient"),
    Row("gemini no key", web.gemini(401, gemini_error(401, "UNAUTHENTICATED")), "auth"),
    Row("gemini bad key, a 400", web.gemini(400, gemini_error(400, "INVALID_ARGUMENT", BAD_KEY)), "auth"),
    Row("gemini late", web.gemini(504, gemini_error(504, "DEADLINE_EXCEEDED")), "transient"),
]  # fmt: skip

ROWS = [*OPENAI, *CLAUDE, *LITELLM, *GEMINI]
