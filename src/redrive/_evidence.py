"""What the evidence on an error means: which category a status, code, class or number is.

Only tables, read from the sources of the client libraries. To know one more library is to add
rows. A row that says unknown means "this alone says nothing": it keeps the row of a base class
from being taken, and weaker evidence is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from redrive.job import Category

if TYPE_CHECKING:
    from collections.abc import Mapping

TRANSIENT, RATE_LIMIT, QUOTA = Category.TRANSIENT, Category.RATE_LIMIT, Category.QUOTA
AUTH, INVALID, PERMANENT = Category.AUTH, Category.INVALID, Category.PERMANENT
UNKNOWN = Category.UNKNOWN

Rows = dict[Category, str]
"""The names that mean each category, parted by spaces."""


def _by_name(rows: Rows) -> dict[str, Category]:
    return {name: category for category, names in rows.items() for name in names.split()}


def _by_kin(packages: Mapping[str, Rows]) -> dict[tuple[str, str], Category]:
    return {
        (package, name): category
        for names, rows in packages.items()
        for package in names.split()
        for name, category in _by_name(rows).items()
    }


WORST_FIRST: Final = (
    INVALID,
    AUTH,
    PERMANENT,
    QUOTA,
    RATE_LIMIT,
    UNKNOWN,
    Category.CRASH,
    Category.TIMEOUT,
    TRANSIENT,
)
"""Which error of a group speaks for it: retrying all is pointless if it is pointless for one."""

STATUSES: Final[Mapping[int, Category]] = {
    **dict.fromkeys((408, 409, 421, 423, 424, 425, 499), TRANSIENT),
    429: RATE_LIMIT,
    402: QUOTA,
    **dict.fromkeys((401, 403, 407, 511), AUTH),
    **dict.fromkeys((400, 406, 411, 413, 414, 415, 416, 422, 428, 431), INVALID),
    **dict.fromkeys((501, 505, 508), PERMANENT),
}
"""HTTP statuses; any other 4xx is permanent, any other 5xx transient."""

CODES: Final = _by_name(
    {
        # OpenAI and those who speak like it; Anthropic; gRPC and Google; AWS; Slack; SQLite; TLS
        TRANSIENT: """
            overloaded_error api_error timeout_error cmek_key_unreachable
            UNAVAILABLE DEADLINE_EXCEEDED ABORTED INTERNAL CANCELLED backendError
            RequestTimeout RequestTimeoutException PriorRequestNotComplete InternalError
            TransactionInProgressException ServiceUnavailable ModelNotReadyException
            SQLITE_BUSY SQLITE_BUSY_RECOVERY SQLITE_BUSY_SNAPSHOT SQLITE_BUSY_TIMEOUT
            SQLITE_LOCKED SQLITE_LOCKED_SHAREDCACHE SQLITE_FULL
        """,
        RATE_LIMIT: """
            rate_limit_exceeded slow_down rate_limit_error ramp_limit_exceeded
            RESOURCE_EXHAUSTED rateLimitExceeded userRateLimitExceeded
            Throttling ThrottlingException ThrottledException RequestThrottled
            RequestThrottledException TooManyRequestsException RequestLimitExceeded
            ProvisionedThroughputExceededException BandwidthLimitExceeded
            LimitExceededException SlowDown EC2ThrottledException
            ratelimited
        """,
        QUOTA: """
            insufficient_quota billing_hard_limit_reached credit_balance_exhausted
            organization_spend_limit_exceeded project_spend_limit_exceeded
            organization_usage_limit_exceeded usage_limit_reached
            enforced_spend_limit_reached billing_error quotaExceeded dailyLimitExceeded
        """,
        AUTH: """
            invalid_api_key authentication_error permission_error organization_on_hold
            UNAUTHENTICATED PERMISSION_DENIED
            ExpiredToken ExpiredTokenException AccessDenied AccessDeniedException
            UnrecognizedClientException SignatureDoesNotMatch InvalidClientTokenId
            invalid_auth token_revoked account_inactive
        """,
        INVALID: """
            context_length_exceeded content_policy_violation content_filter
            string_above_max_length INVALID_ARGUMENT OUT_OF_RANGE
            ValidationException ConditionalCheckFailedException
        """,
        PERMANENT: """
            model_not_found NOT_FOUND ALREADY_EXISTS FAILED_PRECONDITION UNIMPLEMENTED DATA_LOSS
            ResourceNotFoundException NoSuchKey
            SQLITE_ERROR CERTIFICATE_VERIFY_FAILED
        """,
        UNKNOWN: "UNKNOWN",
    }
)

CLASSES: Final = _by_kin(
    {
        "openai groq": {
            TRANSIENT: "APIConnectionError APITimeoutError",
            PERMANENT: "LengthFinishReasonError APIResponseValidationError",
            INVALID: "ContentFilterFinishReasonError",
            AUTH: "SubjectTokenProviderError",
        },
        "anthropic": {
            TRANSIENT: "APIConnectionError APITimeoutError RetryableError",
            PERMANENT: "APIResponseValidationError",
            AUTH: "CredentialsError",
        },
        "litellm": {
            QUOTA: "BudgetExceededError",
            RATE_LIMIT: "RouterRateLimitError RouterRateLimitErrorBasic",
            INVALID: "ContextWindowExceededError ContentPolicyViolationError",
        },
        "google": {
            AUTH: "RefreshError DefaultCredentialsError",
            TRANSIENT: "TransportError",
        },
        "botocore": {
            TRANSIENT: """
                EndpointConnectionError ReadTimeoutError ConnectTimeoutError ConnectionClosedError
                ProxyConnectionError ResponseStreamingError IncompleteReadError
            """,
            AUTH: """
                NoCredentialsError PartialCredentialsError CredentialRetrievalError
                TokenRetrievalError SSOTokenLoadError UnauthorizedSSOTokenError
            """,
            INVALID: "ParamValidationError",
            PERMANENT: "SSLError NoRegionError",
        },
        "httpx httpx2 httpcore httpcore2": {
            TRANSIENT: "TimeoutException NetworkError ProxyError RemoteProtocolError",
            PERMANENT: """
                UnsupportedProtocol LocalProtocolError TooManyRedirects InvalidURL StreamError
            """,
            UNKNOWN: "DecodingError",
        },
        "requests": {
            TRANSIENT: "ConnectionError Timeout ChunkedEncodingError RetryError",
            PERMANENT: """
                SSLError InvalidURL MissingSchema InvalidSchema InvalidHeader TooManyRedirects
            """,
            UNKNOWN: "JSONDecodeError ContentDecodingError",
        },
        "urllib3": {
            TRANSIENT: "TimeoutError ProtocolError PoolError ProxyError",
            PERMANENT: "SSLError LocationValueError",
        },
        "aiohttp": {
            TRANSIENT: "ClientConnectionError ClientPayloadError ServerTimeoutError",
            PERMANENT: """
                ClientConnectorCertificateError ServerFingerprintMismatch InvalidURL
            """,
            UNKNOWN: "ContentTypeError",
        },
        "psycopg psycopg2 asyncpg sqlite3 pymysql MySQLdb mysql mariadb": {
            TRANSIENT: "OperationalError InterfaceError",
            INVALID: "IntegrityError DataError",
            PERMANENT: "ProgrammingError NotSupportedError",
        },
        "sqlalchemy": {
            TRANSIENT: "OperationalError InterfaceError TimeoutError DisconnectionError",
            INVALID: "IntegrityError DataError",
            PERMANENT: "ProgrammingError NotSupportedError",
        },
        "redis": {
            AUTH: """
                AuthenticationError AuthorizationError NoPermissionError
                AuthenticationWrongNumberOfArgsError
            """,
            TRANSIENT: """
                ConnectionError TimeoutError BusyLoadingError ClusterDownError ReadOnlyError
                OutOfMemoryError TryAgainError WatchError
            """,
            INVALID: "DataError",
            PERMANENT: "ResponseError",
        },
        "stripe": {
            TRANSIENT: "APIConnectionError",
            INVALID: "CardError IdempotencyError InvalidRequestError",
            AUTH: "AuthenticationError PermissionError",
        },
        "telegram": {
            RATE_LIMIT: "RetryAfter",
            INVALID: "BadRequest",
            AUTH: "Forbidden InvalidToken",
            TRANSIENT: "NetworkError",
        },
        "github": {RATE_LIMIT: "RateLimitExceededException"},
        "azure": {
            TRANSIENT: "ServiceRequestError ServiceResponseError",
            AUTH: "ClientAuthenticationError",
        },
        "kafka aiokafka": {TRANSIENT: "RetriableError", AUTH: "AuthenticationFailedError"},
        "pymongo": {TRANSIENT: "ConnectionFailure", INVALID: "DuplicateKeyError"},
        "pika": {
            AUTH: "ProbableAuthenticationError ProbableAccessDeniedError",
            TRANSIENT: "AMQPConnectionError",
        },
        "elastic_transport": {
            TRANSIENT: "ConnectionError ConnectionTimeout",
            PERMANENT: "TlsError",
        },
        "pydantic pydantic_core jsonschema marshmallow msgspec": {INVALID: "ValidationError"},
    }
)

WRAPPERS: Final[Mapping[tuple[str, str], str]] = {
    ("sqlalchemy", "StatementError"): "orig",
    ("urllib3", "MaxRetryError"): "reason",
}
"""Classes whose inner error is asked before their own row, and where they keep it."""

STDLIB: Final = _by_kin(
    {
        "builtins": {TRANSIENT: "ConnectionError TimeoutError EOFError"},
        "socket": {TRANSIENT: "gaierror herror"},
        "ssl": {PERMANENT: "SSLCertVerificationError", TRANSIENT: "SSLError"},
        "http": {TRANSIENT: "IncompleteRead BadStatusLine", PERMANENT: "InvalidURL"},
        "subprocess": {TRANSIENT: "TimeoutExpired"},
        "smtplib": {
            TRANSIENT: "SMTPServerDisconnected SMTPConnectError",
            AUTH: "SMTPAuthenticationError",
        },
    }
)

BAD_CERTIFICATES: Final = frozenset(
    {
        ("ssl", "SSLCertVerificationError"),
        ("aiohttp", "ClientConnectorCertificateError"),
        ("aiohttp", "ServerFingerprintMismatch"),
    }
)
"""Found anywhere inside, these make a lost connection permanent: time mends no certificate."""
REFUSED: Final = "CERTIFICATE_VERIFY_FAILED"
"""What OpenSSL calls it; the code of all of them."""

STOPS: Final = frozenset(
    {
        ("builtins", "KeyboardInterrupt"),
        ("builtins", "SystemExit"),
        ("builtins", "GeneratorExit"),
        ("asyncio", "CancelledError"),
    }
)
"""Wishes to stop, which say nothing about the job."""

SQLSTATES: Final[Mapping[str, Category]] = {
    "42501": AUTH,
    **dict.fromkeys(("08", "25", "40", "53", "55", "57", "58", "XX"), TRANSIENT),
    "28": AUTH,
    **dict.fromkeys(("22", "23"), INVALID),
    **dict.fromkeys(("0A", "26", "3D", "42"), PERMANENT),
}
"""Whole states, and classes of states by their first two characters."""

MYSQL_PACKAGES: Final = frozenset({"pymysql", "MySQLdb", "mysql", "mariadb"})
MYSQL_NUMBERS: Final[Mapping[int, Category]] = {
    **dict.fromkeys((1040, 1205, 1213, 2002, 2003, 2006, 2013), TRANSIENT),
    **dict.fromkeys((1044, 1045), AUTH),
    **dict.fromkeys((1048, 1062, 1406, 1452), INVALID),
    **dict.fromkeys((1054, 1064, 1146), PERMANENT),
}

ERRNOS: Final = _by_name(
    {
        TRANSIENT: """
            ECONNRESET ECONNREFUSED ECONNABORTED EPIPE ETIMEDOUT ENETDOWN ENETUNREACH ENETRESET
            EHOSTDOWN EHOSTUNREACH EADDRNOTAVAIL EAGAIN EINTR EBUSY ENOBUFS ENOMEM EMFILE ENFILE
            ENOSPC ESTALE
        """,
        QUOTA: "EDQUOT",
    }
)
"""Names of system errors; those about files and permissions say too little for a row."""
