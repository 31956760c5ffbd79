"""Where libraries keep statuses and codes, and what these mean: add rows for another library.

A word that ends in `:` names the category of the words after it, one that ends in `=` the root
packages of the classes after it. Unknown means "this alone says nothing": it keeps the row of a
base class from being taken, and weaker evidence is looked at.
"""

from __future__ import annotations

from typing import Final

from redrive.jobs.job import Category

Place = tuple[str, tuple[str | int, ...]]
"""An attribute of an error, and the attributes, keys and positions to follow from there."""


def _table(text: str) -> dict[str, Category]:
    rows: dict[str, Category] = {}
    packages, category = [""], Category.UNKNOWN
    for word in text.split():
        if word.endswith("="):
            packages = [f"{package}." for package in word[:-1].split(",")]
        elif word.endswith(":"):
            category = Category(word[:-1])
        else:
            rows.update((package + word, category) for package in packages)
    return rows


def _places(text: str) -> tuple[Place, ...]:
    paths = (path.split(".") for path in text.split())
    return tuple(
        (path[0], tuple(int(key) if key.isdigit() else key for key in path[1:])) for path in paths
    )


STATUSES: Final = _table("""
    transient: 408 409 421 423 424 425 499  rate_limit: 420 429  quota: 402  auth: 401 403 407 511
    invalid: 400 406 411 413 414 415 416 422 428 431  permanent: 501 505 508
""")
"""HTTP statuses; any other 4xx is permanent, any other 5xx transient."""

# OpenAI and those who speak like it; Anthropic; gRPC and Google; AWS; OAuth; Slack; MongoDB; Kafka;
# SQLite; TLS
CODES: Final = _table("""
    transient: server_error overloaded_error api_error timeout_error cmek_key_unreachable UNAVAILABLE
        DEADLINE_EXCEEDED ABORTED INTERNAL CANCELLED backendError RequestTimeout
        RequestTimeoutException PriorRequestNotComplete InternalError TransactionInProgressException
        ServiceUnavailable ModelNotReadyException TransactionConflictException
        temporarily_unavailable internal_error fatal_error service_unavailable request_timeout
        MaxTimeMSExpired WriteConflict LockTimeout _ALL_BROKERS_DOWN _TRANSPORT _RESOLVE _TIMED_OUT
        _MSG_TIMED_OUT _QUEUE_FULL REQUEST_TIMED_OUT NETWORK_EXCEPTION LEADER_NOT_AVAILABLE
        NOT_LEADER_FOR_PARTITION BROKER_NOT_AVAILABLE NOT_ENOUGH_REPLICAS UNKNOWN_TOPIC_OR_PART
        COORDINATOR_NOT_AVAILABLE REBALANCE_IN_PROGRESS SQLITE_BUSY SQLITE_BUSY_RECOVERY
        SQLITE_BUSY_SNAPSHOT SQLITE_BUSY_TIMEOUT SQLITE_LOCKED SQLITE_LOCKED_SHAREDCACHE SQLITE_FULL
        InternalFailure InternalServerError ServiceUnavailableException IDPCommunicationError
        ConcurrentModificationException ReplicatedWriteConflictException
        InsufficientInstanceCapacity NoSuchTransaction PrimarySteppedDown ShutdownInProgress
        ExceededTimeLimit CursorNotFound WriteConcernFailed FailedToSatisfyReadPreference
        InterruptedDueToReplStateChange InterruptedAtShutdown NotWritablePrimary
    rate_limit: rate_limit_exceeded slow_down rate_limit_error ramp_limit_exceeded
        RESOURCE_EXHAUSTED rateLimitExceeded userRateLimitExceeded Throttling ThrottlingException
        ThrottledException RequestThrottled RequestThrottledException TooManyRequestsException
        RequestLimitExceeded ProvisionedThroughputExceededException BandwidthLimitExceeded
        LimitExceededException SlowDown EC2ThrottledException ratelimited rate_limited
        THROTTLING_QUOTA_EXCEEDED RATE_LIMIT_EXCEEDED KmsThrottled KMS.ThrottlingException Throttled
        Throttling.User TooManyRequests ClientLimitExceededException OverLimit
    quota: insufficient_quota billing_hard_limit_reached credit_balance_exhausted
        organization_spend_limit_exceeded project_spend_limit_exceeded
        organization_usage_limit_exceeded usage_limit_reached enforced_spend_limit_reached
        billing_error quotaExceeded dailyLimitExceeded BILLING_DISABLED billingNotEnabled
        ServiceQuotaExceededException billing_not_active
    auth: invalid_api_key authentication_error permission_error organization_on_hold UNAUTHENTICATED
        PERMISSION_DENIED ExpiredToken ExpiredTokenException AccessDenied AccessDeniedException
        UnrecognizedClientException SignatureDoesNotMatch InvalidClientTokenId InvalidAccessKeyId
        InvalidSignatureException IncompleteSignature MissingAuthenticationToken RequestExpired
        RequestTimeTooSkewed UnauthorizedOperation AuthFailure OptInRequired API_KEY_INVALID
        API_KEY_SERVICE_BLOCKED invalid_grant invalid_client unauthorized_client invalid_token
        token_expired access_denied invalid_auth not_authed token_revoked account_inactive
        missing_scope no_permission not_allowed_token_type AuthenticationFailed Unauthorized
        _AUTHENTICATION SASL_AUTHENTICATION_FAILED TOPIC_AUTHORIZATION_FAILED
        GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
        NotAuthorized NotAuthorizedException UnauthorizedAccess InvalidToken TokenRefreshRequired
    invalid: context_length_exceeded content_policy_violation content_filter string_above_max_length
        INVALID_ARGUMENT OUT_OF_RANGE ValidationException ConditionalCheckFailedException
        msg_too_long no_text invalid_blocks invalid_arguments DuplicateKey DocumentValidationFailure
        BSONObjectTooLarge MSG_SIZE_TOO_LARGE INVALID_RECORD
    permanent: model_not_found NOT_FOUND ALREADY_EXISTS FAILED_PRECONDITION UNIMPLEMENTED DATA_LOSS
        ResourceNotFoundException NoSuchKey NoSuchBucket QueueDoesNotExist
        AWS.SimpleQueueService.NonExistentQueue channel_not_found user_not_found not_in_channel
        is_archived CommandNotFound NamespaceNotFound SQLITE_ERROR SQLITE_READONLY
        SQLITE_READONLY_DBMOVED SQLITE_READONLY_DIRECTORY SQLITE_CORRUPT SQLITE_NOTADB
        CERTIFICATE_VERIFY_FAILED
    unknown: UNKNOWN
""")

CLASSES: Final = _table("""
    openai,groq= transient: APIConnectionError APITimeoutError
        permanent: LengthFinishReasonError APIResponseValidationError
        invalid: ContentFilterFinishReasonError  auth: SubjectTokenProviderError
    anthropic= transient: APIConnectionError APITimeoutError RetryableError
        permanent: APIResponseValidationError  auth: CredentialsError
    litellm= quota: BudgetExceededError  rate_limit: RouterRateLimitError RouterRateLimitErrorBasic
        invalid: ContextWindowExceededError ContentPolicyViolationError
    google= auth: RefreshError DefaultCredentialsError  transient: TransportError
    botocore= transient: EndpointConnectionError ReadTimeoutError ConnectTimeoutError
            ConnectionClosedError ProxyConnectionError ResponseStreamingError IncompleteReadError
        auth: NoCredentialsError PartialCredentialsError CredentialRetrievalError
            TokenRetrievalError SSOTokenLoadError UnauthorizedSSOTokenError
        invalid: ParamValidationError  permanent: SSLError NoRegionError
    httpx,httpx2,httpcore,httpcore2=
        transient: TimeoutException NetworkError ProxyError RemoteProtocolError
        permanent: UnsupportedProtocol LocalProtocolError TooManyRedirects InvalidURL StreamError
        unknown: DecodingError
    requests= transient: ConnectionError Timeout ChunkedEncodingError RetryError
        permanent: SSLError InvalidURL MissingSchema InvalidSchema InvalidHeader TooManyRedirects
        unknown: JSONDecodeError ContentDecodingError
    urllib3= permanent: SSLError LocationValueError
        transient: TimeoutError ProtocolError PoolError ProxyError
    aiohttp= transient: ClientConnectionError ClientPayloadError ServerTimeoutError
        permanent: ClientConnectorCertificateError ServerFingerprintMismatch InvalidURL
            TooManyRedirects
        unknown: ContentTypeError
    anyio= transient: ClosedResourceError BrokenResourceError EndOfStream
    psycopg,psycopg2,asyncpg,sqlite3,pymysql,MySQLdb,mysql,mariadb,sqlalchemy=
        transient: OperationalError InterfaceError  invalid: IntegrityError DataError
        permanent: ProgrammingError NotSupportedError
    sqlalchemy= transient: TimeoutError DisconnectionError
    redis= auth: AuthenticationError AuthorizationError NoPermissionError
            AuthenticationWrongNumberOfArgsError
        transient: ConnectionError TimeoutError BusyLoadingError ClusterDownError ReadOnlyError
            OutOfMemoryError TryAgainError WatchError
        invalid: DataError  permanent: ResponseError
    stripe= transient: APIConnectionError  auth: AuthenticationError PermissionError
        invalid: CardError IdempotencyError InvalidRequestError
    telegram= rate_limit: RetryAfter  invalid: BadRequest  auth: Forbidden InvalidToken
        transient: NetworkError Conflict
    github= rate_limit: RateLimitExceededException
    azure= transient: ServiceRequestError ServiceResponseError  auth: ClientAuthenticationError
    kafka,aiokafka= transient: RetriableError KafkaConnectionError NoBrokersAvailable
        rate_limit: ThrottlingQuotaExceededError
        auth: AuthorizationError SaslAuthenticationFailedError AuthenticationFailedError
        invalid: MessageSizeTooLargeError RecordListTooLargeError InvalidRecordError
    pymongo= transient: ConnectionFailure ExecutionTimeout WTimeoutError
        invalid: DuplicateKeyError DocumentTooLarge BulkWriteError
        permanent: ConfigurationError InvalidURI
    bson= invalid: InvalidDocument
    nats= transient: TimeoutError NoServersError NoRespondersError ConnectionClosedError
            ConnectionReconnectingError StaleConnectionError OutboundBufferLimitError
        auth: AuthorizationError InvalidUserCredentialsError
        invalid: MaxPayloadError BadSubjectError
    paramiko= transient: SSHException NoValidConnectionsError  auth: AuthenticationException
        permanent: BadHostKeyException IncompatiblePeer
    websockets= transient: ConnectionClosed  permanent: InvalidURI
    dns= transient: Timeout NoNameservers
    kombu= transient: OperationalError
    billiard= transient: WorkerLostError
    pika= auth: ProbableAuthenticationError ProbableAccessDeniedError
        transient: AMQPConnectionError
    elastic_transport= transient: ConnectionError ConnectionTimeout  permanent: TlsError
    pydantic,pydantic_core,jsonschema,marshmallow,msgspec= invalid: ValidationError
""")

STDLIB: Final = _table("""
    builtins= transient: ConnectionError TimeoutError EOFError
    socket= transient: gaierror herror
    ssl= permanent: SSLCertVerificationError  transient: SSLError
    http= transient: IncompleteRead BadStatusLine  permanent: InvalidURL
    urllib= transient: ContentTooShortError
    subprocess= transient: TimeoutExpired
    multiprocessing= transient: TimeoutError
    smtplib= transient: SMTPServerDisconnected SMTPConnectError  auth: SMTPAuthenticationError
        permanent: SMTPNotSupportedError
    ftplib= transient: error_temp  permanent: error_perm
    imaplib= transient: abort
""")

ERRNOS: Final = _table("""
    transient: ECONNRESET ECONNREFUSED ECONNABORTED EPIPE ETIMEDOUT ENETDOWN ENETUNREACH ENETRESET
        EHOSTDOWN EHOSTUNREACH EADDRNOTAVAIL EAGAIN EINTR EBUSY ENOBUFS ENOMEM EMFILE ENFILE ENOSPC
        ESTALE
    quota: EDQUOT
""")
"""Names of system errors; those about files and permissions say too little for a row."""

UNREACHABLE: Final = _table("""
    ECONNREFUSED ENETDOWN ENETUNREACH EHOSTDOWN EHOSTUNREACH
    builtins= ConnectionRefusedError  socket= gaierror  httpx,httpx2,httpcore,httpcore2= ConnectError
    aiohttp= ClientConnectorError  urllib3= NewConnectionError  botocore= EndpointConnectionError
""")
"""System errors and classes of a connection that was never made: nothing of the input was sent."""

OUT_OF_SERVICE: Final = _table("""
    503 529 overloaded_error slow_down UNAVAILABLE ServiceUnavailable ServiceUnavailableException
    service_unavailable temporarily_unavailable
""")
"""HTTP statuses and codes of a server that is unavailable for every request."""

LISTED: Final = frozenset(CLASSES)
DATABASE_NAMES: Final = frozenset(
    _table("""
    DatabaseError OperationalError InterfaceError IntegrityError ProgrammingError InternalError
""")
)
"""Names that PEP 249 gives the errors of every database driver."""
PASSING_NAMES: Final = ("OperationalError", "InterfaceError")
"""Those of them that mostly pass; they say less than what caused them."""
SQLSTATES: Final = _table("""
    transient: 08 25 40 53 55 57 58 XX  auth: 28 42501  invalid: 22 23  permanent: 0A 26 3D 42
""")
"""Whole states, and classes of states by their first two characters."""

# The driver gives a refused login no state, and the server says it in the administrator's language.
_POSTGRES: Final = {
    "authentication failed": Category.AUTH,
    "no password supplied": Category.AUTH,
    "no pg_hba.conf entry": Category.AUTH,
    'FATAL:  role "': Category.AUTH,
    'FATAL:  database "': Category.PERMANENT,
}
# An empty account is reported as a mistake in the request.
_CLAUDE: Final = {"credit balance is too low": Category.QUOTA}
# Why a transaction was cancelled stands in the message alone, where it does at all.
_AWS: Final = {
    "ConditionalCheckFailed": Category.INVALID,
    "(TransactionCanceledException)": Category.TRANSIENT,
}
_REDIS: Final = {
    "MISCONF ": Category.TRANSIENT,
    "NOREPLICAS ": Category.TRANSIENT,
    "BUSY Redis": Category.TRANSIENT,
    "WRONGPASS ": Category.AUTH,
}

MYSQL: Final = ("pymysql.", "MySQLdb.", "mysql.", "mariadb.")
MYSQL_NUMBERS: Final = _table("""
    transient: 1040 1053 1203 1205 1213 1226 1290 1317 1836 2002 2003 2006 2013 2055 3024
    auth: 1044 1045 1142 1143 1227 1370 1698
    invalid: 1048 1062 1264 1265 1292 1364 1366 1406 1451 1452 1690 3819
    permanent: 1046 1049 1051 1054 1064 1146 1305
""")

MONGO_NUMBERS: Final = _table("""
    transient: 43 64 91 133 189 251 262 11602  rate_limit: 16500
""")
"""Codes of MongoDB and those who speak like it, for answers that lack the name."""

REPLIERS: Final = ("smtplib.", "aiosmtplib.", "ftplib.")
REPLIES: Final = _table("transient: 4  permanent: 5  auth: 530 532 534 535 538")
"""What mail and file servers reply, by the whole number or its first digit: 4 passes, 5 stays."""

TEXTS: Final = {
    "psycopg": _POSTGRES,
    "psycopg2": _POSTGRES,
    "anthropic": _CLAUDE,
    "litellm": _CLAUDE,
    "botocore": _AWS,
    "redis": _REDIS,
    "urllib": {"timed out": Category.TRANSIENT},
}
"""The last resort, by root package: texts in messages, where nothing else shows the cause."""

_LOGIN: Final = {
    "uthentication failed": Category.AUTH,
    "Login failed": Category.AUTH,
    "logon denied": Category.AUTH,
}
DIALECT_TEXTS: Final = {
    "sql": _LOGIN,
    "mysql": _LOGIN,
    "tls": {"certificate verify failed": Category.PERMANENT},
}
"""The same for libraries that are not listed: a refused login, a refused certificate."""

WORST_FIRST = [*_table("invalid auth permanent quota rate_limit unknown crash timeout transient")]
"""The category of a group is the first of these that a member has: one hopeless member is enough."""

STOPS: Final = _table(
    "builtins= KeyboardInterrupt SystemExit GeneratorExit  asyncio= CancelledError"
)
"""Requests to stop; they are not failures of the job."""

BAD_CERTIFICATES: Final = _table("""
    ssl= SSLCertVerificationError  urllib3,requests,botocore= SSLError  elastic_transport= TlsError
    aiohttp= ClientConnectorCertificateError ServerFingerprintMismatch
""")
"""Found inside a lost connection, these make it permanent: a retry does not help."""

CALLS: Final[dict[str, dict[str, tuple[str | int, ...]]]] = {
    "grpc.RpcError": {"code": ("code",), "headers": ("trailing_metadata",)},
    "tenacity.RetryError": {"cause": ("last_attempt", "exception")},
    "cimpl.KafkaException": {"code": ("args", 0, "name")},
}
"""Methods of known libraries; what they answer is taken for the attribute named first."""

STATUS_PLACES: Final = _places("""
    status_code http_status status code response.status_code response.status
    response.ResponseMetadata.HTTPStatusCode resp.status meta.status raw_response.status_code
    reply_code errcode response_code http_code http_status_code response.code
""")

# What the server said comes before what a wrapper made of it: litellm rewrites `code`. And a code
# comes before a type: many causes share one type.
CODE_PLACES: Final = _places("""
    error_code error_name body.error.details.error_code body.error.details.0.reason body.error.code body.code
    code code.name reason error body.error body.codeName
    response.Error.Code response.error response.data.error status status.name body.error.status grpc_status_code.name
    errors.0.reason error_details.0.reason body.error.errors.0.reason sqlite_errorname sqlstate pgcode body.error.type body.type type
    body.error_code body.errorCode content.0.errorCode errors.0.extensions.code status_code.name
""")

HEADER_PLACES: Final = _places("""
    headers response.headers response.ResponseMetadata.HTTPHeaders litellm_response_headers
    resp meta.headers raw_response.headers http_headers response_headers resp_headers
""")

# What httpx and requests have read stays in `_content`; `content` could go and read the network.
BODY_PLACES: Final = _places("body json_body details response._content")

INNER_PLACES: Final = _places("""
    orig reason cause exc inner_exception original_exception original_error source os_error
    certificate_error args.0
    __cause__ __context__
""")

_OTHERS = _places(
    "retry_after cooldown_time backoff retry_delay seconds retryable retriable redrive_category "
    "redrive_why request_id errno __suppress_context__"
)
ATTRIBUTES: Final = frozenset(
    root
    for places in (STATUS_PLACES, CODE_PLACES, HEADER_PLACES, BODY_PLACES, INNER_PLACES, _OTHERS)
    for root, _ in places
)
