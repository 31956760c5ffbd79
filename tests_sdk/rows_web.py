"""The rows for HTTP statuses and for the libraries that speak HTTP themselves."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from typing import Any

import aiohttp
import botocore.exceptions
import clients as web
import httpcore
import httpx
import httpx2
import requests
import urllib3
from certificates import untrusted
from loopback import CUT, DROP, HANG, Row, client, nobody

STATUSES = {
    "transient": (408, 409, 421, 423, 424, 425, 499, 500, 502, 503, 504, 520, 524, 527, 529, 530, 598, 599),
    "rate_limit": (429,),
    "quota": (402,),
    "auth": (401, 403, 407, 511),
    "invalid": (400, 406, 411, 413, 414, 415, 416, 422, 428, 431),
    "permanent": (404, 405, 410, 412, 417, 426, 451, 501, 505, 508),
}  # fmt: skip
CLIENTS = {"httpx": web.httpx_get, "requests": web.requests_get, "aiohttp": web.aiohttp_get, "urllib": web.urllib_get}  # fmt: skip

STATUS_ROWS = [
    Row(f"{name} {status}", get(status), category)
    for category, statuses in STATUSES.items()
    for status in statuses
    for name, get in CLIENTS.items()
    if status != 407 or name != "urllib"  # urllib would have it answered by a proxy
]
HINTED = [
    Row(f"{name} 503, says when", get(503, "", {"retry-after": "17"}), "transient", 17.0)
    for name, get in {**CLIENTS, "httpx2": web.httpx2_get}.items()
]
LIMITED_BY_403 = [
    Row("403 with a wait", web.httpx_get(403, "", {"retry-after": "60"}), "rate_limit", 60.0),
    Row("403 with nothing left", web.requests_get(403, "", {"x-ratelimit-remaining": "0"}), "rate_limit"),
    Row("403 with something left", web.requests_get(403, "", {"x-ratelimit-remaining": "9"}), "auth"),
]  # fmt: skip


def _read_twice(made: Any) -> Callable[[str], object]:
    """Read a stream twice, which neither of the two allows."""

    def call(url: str) -> object:
        with made.stream("GET", url) as answer:
            return [*answer.iter_raw(), *answer.iter_raw()]

    return call


HTTPX = [
    row
    for name, made, get in (("httpx", httpx, web.httpx_get), ("httpx2", httpx2, web.httpx2_get))
    for row in (
        Row(f"{name} TimeoutException", get(HANG), "transient"),
        Row(f"{name} NetworkError", nobody(made.get), "transient"),
        Row(f"{name} ProxyError", nobody(lambda url, m=made: m.get("http://127.0.0.1:9", proxy=url)), "transient"),
        Row(f"{name} RemoteProtocolError", get(DROP), "transient"),
        Row(f"{name} cut off", get(CUT), "transient"),
        Row(f"{name} UnsupportedProtocol", lambda m=made: m.get("gopher://x"), "permanent"),
        Row(f"{name} LocalProtocolError", nobody(lambda url, m=made: m.LocalProtocolError("illegal header")), "permanent"),
        Row(f"{name} TooManyRedirects", client(lambda url, m=made: m.get(url, follow_redirects=True))(302, "", {"location": "/"}), "permanent"),
        Row(f"{name} InvalidURL", lambda m=made: m.get("http://x:y"), "permanent"),
        Row(f"{name} StreamError", client(_read_twice(made))(200, "x"), "permanent"),
        Row(f"{name} DecodingError", get(200, b"no gzip", {"content-encoding": "gzip"}), "unknown"),
        Row(f"{name} bad certificate", untrusted(made.get), "permanent"),
    )
]  # fmt: skip

REQUESTS = [
    Row("requests ConnectionError", nobody(lambda url: requests.get(url, timeout=1)), "transient"),
    Row("requests Timeout", web.requests_get(HANG), "transient"),
    Row("requests ChunkedEncodingError", web.requests_get(CUT), "transient"),
    Row("requests SSLError", untrusted(lambda url: requests.get(url, timeout=1)), "permanent"),
    Row("requests InvalidURL", lambda: requests.get("http://", timeout=1), "permanent"),
    Row("requests MissingSchema", lambda: requests.get("example.org", timeout=1), "permanent"),
    Row("requests InvalidHeader", lambda: requests.get("http://127.0.0.1:9", headers={"a": "b\n"}, timeout=1), "permanent"),
    Row("requests TooManyRedirects", web.requests_get(302, "", {"location": "/"}), "permanent"),
    Row("requests JSONDecodeError", web.requests_json(200, "<html>"), "unknown"),
    Row("requests HTTPError without a response", lambda: requests.HTTPError("no"), "unknown"),
]  # fmt: skip


@client
def _three_tries(url: str) -> object:
    return urllib3.PoolManager(retries=urllib3.Retry(2, backoff_factor=0)).request("GET", url)


URLLIB3 = [
    Row("urllib3 TimeoutError", web.urllib3_get(HANG), "transient"),
    Row("urllib3 ProtocolError", web.urllib3_get(DROP), "transient"),
    Row("urllib3 MaxRetryError of a lost connection", _three_tries(DROP), "transient"),
    Row("urllib3 MaxRetryError of a certificate", untrusted(lambda url: urllib3.PoolManager(retries=2).request("GET", url)), "permanent"),
    Row("urllib3 PoolError", lambda: urllib3.exceptions.EmptyPoolError(urllib3.HTTPConnectionPool("x"), "empty"), "transient"),
    Row("urllib3 ProxyError", nobody(lambda url: urllib3.ProxyManager(url, retries=False).request("GET", "http://127.0.0.1:9")), "transient"),
    Row("urllib3 SSLError", untrusted(lambda url: urllib3.PoolManager(retries=False).request("GET", url)), "permanent"),
    Row("urllib3 LocationValueError", lambda: urllib3.request("GET", "http://"), "permanent"),
]  # fmt: skip


def _aiohttp(url: str) -> object:
    async def get() -> None:
        async with aiohttp.ClientSession() as session:
            await session.get(url)

    return asyncio.run(get())


AIOHTTP = [
    Row("aiohttp ClientConnectionError", nobody(_aiohttp), "transient"),
    Row("aiohttp hung up on", web.aiohttp_get(DROP), "transient"),
    Row("aiohttp ClientPayloadError", web.aiohttp_get(CUT), "transient"),
    Row("aiohttp ServerTimeoutError", web.aiohttp_get(HANG), "transient"),
    Row("aiohttp certificate", untrusted(_aiohttp), "permanent"),
    Row("aiohttp fingerprint", lambda: aiohttp.ServerFingerprintMismatch(b"a", b"b", "h", 443), "permanent"),
    Row("aiohttp InvalidURL", lambda: _aiohttp("http://"), "permanent"),
    Row("aiohttp ContentTypeError", web.aiohttp_json(200, "<html>", {"content-type": "text/html"}), "unknown"),
]  # fmt: skip

STANDARD = [
    Row("urllib URLError refused", nobody(urllib.request.urlopen), "transient"),
    Row("urllib URLError of a certificate", untrusted(urllib.request.urlopen), "permanent"),
    Row("http.client RemoteDisconnected", web.urllib_get(DROP), "transient"),
    Row("http.client IncompleteRead", web.urllib_get(CUT), "transient"),
    Row("urllib late", web.urllib_get(HANG), "transient"),
    Row("httpcore ConnectError", nobody(lambda url: httpcore.request("GET", url)), "transient"),
]  # fmt: skip


def aws(code: str, category: str, status: int = 400, service: str = "dynamodb") -> Row:
    operation = {"s3": "get_object", "ec2": "run_instances"}.get(service, "get_item")
    return Row(f"aws {code}", web.aws(service, operation, status, code), category)


THROTTLED = (
    *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
    *("RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded"),
    *("ProvisionedThroughputExceededException", "BandwidthLimitExceeded", "EC2ThrottledException"),
    *("LimitExceededException", "KmsThrottled", "Throttled", "KMS.ThrottlingException"),
    *("OverLimit", "Throttling.User", "TooManyRequests", "ClientLimitExceededException"),
)
PASSING = (
    *("RequestTimeout", "RequestTimeoutException", "PriorRequestNotComplete", "InternalError"),
    *("TransactionInProgressException", "ServiceUnavailable", "ModelNotReadyException"),
    *("TransactionCanceledException", "ConcurrentModificationException", "IDPCommunicationError"),
    "ReplicatedWriteConflictException",
)
UNKNOWN_TO_AWS = (
    *("ExpiredToken", "ExpiredTokenException", "AccessDenied", "AccessDeniedException"),
    *("UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidClientTokenId"),
    *("NotAuthorizedException", "InvalidToken"),
)
BUSY = {"x-amz-retry-after": "2500"}

AWS = [
    *(aws(code, "rate_limit") for code in THROTTLED),
    *(aws(code, "transient") for code in PASSING),
    *(aws(code, "auth") for code in UNKNOWN_TO_AWS),
    aws("SlowDown", "rate_limit", 503, "s3"),
    aws("ValidationException", "invalid"),
    aws("ConditionalCheckFailedException", "invalid"),
    aws("ResourceNotFoundException", "permanent"),
    aws("NoSuchKey", "permanent", 404, "s3"),
    Row("aws says when", web.aws("dynamodb", "get_item", 400, "ThrottlingException", BUSY), "rate_limit", 2.5),
    Row("aws EndpointConnectionError", nobody(lambda url: web.aws_call(url, "s3", "get_object")), "transient"),
    Row("aws ReadTimeoutError", web.s3_read(HANG), "transient"),
    Row("aws ConnectTimeoutError", lambda: botocore.exceptions.ConnectTimeoutError(endpoint_url="x"), "transient"),
    Row("aws ConnectionClosedError", web.s3_read(DROP), "transient"),
    Row("aws NoCredentialsError", lambda: web.aws_signed("http://127.0.0.1:9"), "auth"),
    Row("aws ParamValidationError", lambda: web.aws_call("http://127.0.0.1:9", "s3", "get_object", Key=7), "invalid"),
    Row("aws SSLError", untrusted(lambda url: web.aws_call(url, "s3", "get_object")), "permanent"),
    Row("aws NoRegionError", web.aws_nowhere, "permanent"),
]  # fmt: skip

ROWS = [
    *STATUS_ROWS,
    *HINTED,
    *LIMITED_BY_403,
    *HTTPX,
    *REQUESTS,
    *URLLIB3,
    *AIOHTTP,
    *STANDARD,
    *AWS,
]
