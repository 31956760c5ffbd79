"""Errors of libraries that `requirements/sdk.in` does not list, each with its right category.

The categories were decided from the documentation of each library before any was classified. Rules
may be tuned on these rows, but not on those of the libraries in `HELD_OUT`: they show how well the
rules do on a library that nobody looked at.

The libraries are too many for the tests. So this script writes the errors as plain data (classes
with their bases, attributes, arguments, causes) for `tests/classify/test_other_libraries.py`. To
run it again, make an environment with the packages in `PACKAGES` and call
`python tests_sdk/other_libraries.py > tests/classify/other_libraries.json`.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

PACKAGES = """
    aio-pika aiogram aiomqtt aiosmtplib algoliasearch asyncmy asyncssh braintree cassandra-driver
    ccxt clickhouse-connect clickhouse-driver cloudflare discord.py docker dramatiq dropbox duckdb
    firebirdsql gql grpclib gspread hcloud hvac influxdb-client jira keystoneauth1 ldap3 meilisearch
    neo4j niquests notion-client ollama oracledb pg8000 plaid-python prawcore pymemcache pymilvus
    pymssql python-arango python-gitlab python-keycloak pyzmq qdrant-client replicate shopifyapi
    simple-salesforce spotipy stomp.py taskiq telethon temporalio thrift trino trio tweepy typesense
    valkey vertica-python voyageai vonage weaviate-client websocket-client zeep zenpy
"""
HELD_OUT = {
    *("aiogram", "aiosmtplib", "asyncssh", "ccxt", "clickhouse_driver", "discord", "duckdb", "gql"),
    *("gspread", "influxdb_client", "keystoneauth1", "ldap3", "neo4j", "notion_client", "plaid"),
    *("pymilvus", "pymssql", "stomp", "spotipy", "temporalio", "trio", "voyageai", "weaviate"),
}


@dataclass
class Made:
    """A call to make when the library is there: the name of a class or function, and arguments."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Row:
    category: str
    made: Made
    hint: float | None = None
    cause: Made | None = None

    @property
    def library(self) -> str:
        return self.made.name.partition(".")[0]


def made(name: str, *args: Any, **kwargs: Any) -> Made:
    return Made(name, args, kwargs)


def row(category: str, name: str, *args: Any, hint: float | None = None, **kwargs: Any) -> Row:
    cause = kwargs.pop("cause", None)
    return Row(category, Made(name, args, kwargs), hint, cause)


def answer(status: int, body: object = None, **headers: str) -> Made:
    """Return an answer of requests; `Retry_After` becomes the header `Retry-After`."""
    return made("other_libraries.requests_answer", status, body, headers)


def requests_answer(status: int, body: object, headers: dict[str, str]) -> object:
    response = pkgutil.resolve_name("requests:Response")()
    response.status_code, response.url, response.reason = status, "https://api.example/v1", "no"
    response._content = b"" if body is None else json.dumps(body).encode()
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return response


def httpx_answer(status: int, **headers: str) -> Made:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = made("httpx.Request", "GET", "https://api.example/v1")
    return made("httpx.Response", status, headers=named, content=b"{}", request=request)


def aiohttp_answer(status: int) -> SimpleNamespace:
    return SimpleNamespace(status=status, reason="no", headers={"Date": "x"})


def plain_answer(code: int, **headers: str) -> SimpleNamespace:
    """Return what urllib and ActiveResource have for an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(code=code, msg="no", url="https://x", headers=named, read=lambda: b"")


def plaid_answer(status: int, code: str) -> SimpleNamespace:
    body = json.dumps({"error_type": "API_ERROR", "error_code": code, "error_message": "no"})
    return SimpleNamespace(status=status, reason="no", data=body, getheaders=dict)


def arango_answer(status: int, number: int) -> Made:
    return made("other_libraries.arango_response", status, number)


def arango_response(status: int, number: int) -> object:
    response = pkgutil.resolve_name("arango.response:Response")("get", "u", {}, status, "no", "")
    response.error_code, response.error_message = number, "no"
    return response


def sql(statement: str) -> Made:
    return made("other_libraries.duckdb_error", statement)


def duckdb_error(statement: str) -> BaseException:
    connection = pkgutil.resolve_name("duckdb:connect")()
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
    try:
        connection.execute(statement)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what we want
        return error
    raise AssertionError(statement)


def oracle(kind: str, message: str) -> Made:
    return made("other_libraries.oracle_error", kind, message)


def oracle_error(kind: str, message: str) -> BaseException:
    number = int(message[4:].partition(":")[0]) if message.startswith("ORA-") else 0
    held = pkgutil.resolve_name("oracledb.errors:_Error")(message, code=number)
    return pkgutil.resolve_name(f"oracledb:{kind}")(held)


def vertica_error(state: str) -> BaseException:
    base = pkgutil.resolve_name("vertica_python.errors:QueryError")
    response = SimpleNamespace(sqlstate=state, error_message=lambda: "no")
    response._notice_attrs = {b"C": state, b"M": "no"}
    return base.from_error_response(response, "SELECT 1")


def neo4j_error(code: str) -> BaseException:
    known = pkgutil.resolve_name("neo4j.exceptions:Neo4jError")
    return known._hydrate_neo4j(code=code, message="no")


def trino_error(kind: str, name: str) -> Made:
    classes = {"USER_ERROR": "TrinoUserError", "EXTERNAL": "TrinoExternalError"}
    known = classes.get(kind, "TrinoQueryError")
    return made(f"trino.exceptions.{known}", {"errorType": kind, "errorName": name, "errorCode": 1})


def enum_of(name: str, member: str) -> Made:
    return made("builtins.getattr", made("pkgutil.resolve_name", name), member)


def special(library: str, category: str, call: Made, hint: float | None = None) -> Row:
    """Return a row that a function of this module makes."""
    return Row(category, Made(f"{library}.", (call,)), hint)


LOST = made("requests.exceptions.ConnectionError", "Connection aborted.")
REFUSED = made("builtins.ConnectionRefusedError", 111, "Connection refused")
HTTPX_LOST = made("httpx.ConnectError", "All connection attempts failed")
MYSQL_DUPLICATE = "Duplicate entry '7' for key 'PRIMARY'"

# fmt: off
ROWS = [
    row("auth", "aiormq.exceptions.AuthenticationError", "ACCESS_REFUSED - Login was refused"),
    row("auth", "aiormq.exceptions.ProbableAuthenticationError", "ACCESS_REFUSED - Login was refused"),
    row("transient", "aiormq.exceptions.AMQPConnectionError", REFUSED),
    row("transient", "aiormq.exceptions.ConnectionClosed", 320, "CONNECTION_FORCED - shutdown"),
    row("permanent", "aiormq.exceptions.ChannelNotFoundEntity", "NOT_FOUND - no queue 'x' in vhost '/'"),
    row("auth", "aiormq.exceptions.ChannelAccessRefused", "ACCESS_REFUSED - access to queue refused"),
    row("permanent", "aiormq.exceptions.ChannelPreconditionFailed", "PRECONDITION_FAILED - inequivalent arg"),
    row("transient", "asyncmy.errors.OperationalError", 1213, "Deadlock found when trying to get lock"),
    row("transient", "asyncmy.errors.OperationalError", 2013, "Lost connection to MySQL server during query"),
    row("auth", "asyncmy.errors.OperationalError", 1045, "Access denied for user 'x'@'localhost'"),
    row("invalid", "asyncmy.errors.IntegrityError", 1062, MYSQL_DUPLICATE),
    row("invalid", "asyncmy.errors.DataError", 1406, "Data too long for column 'a' at row 1"),
    row("permanent", "asyncmy.errors.ProgrammingError", 1146, "Table 'shop.x' doesn't exist"),
    row("transient", "clickhouse_driver.errors.NetworkError", "Connection refused (localhost:9000)"),
    row("transient", "clickhouse_driver.errors.SocketTimeoutError", "Code: 209. (localhost:9000)"),
    row("auth", "clickhouse_driver.errors.ServerException", "DB::Exception: default: Authentication failed", 516),
    row("permanent", "clickhouse_driver.errors.ServerException", "DB::Exception: Table x does not exist", 60),
    row("transient", "clickhouse_driver.errors.ServerException", "DB::Exception: Too many simultaneous queries", 202),
    row("invalid", "clickhouse_driver.errors.TypeMismatchError", "Type mismatch in VALUES section"),
    row("transient", "clickhouse_connect.driver.exceptions.OperationalError", "Error executing HTTP request"),
    row("transient", "clickhouse_connect.driver.exceptions.StreamFailureError", "connection closed"),
    row("permanent", "clickhouse_connect.driver.exceptions.ProgrammingError", "Unrecognized column 'x'"),
    row("invalid", "clickhouse_connect.driver.exceptions.DataError", "Unable to create Python array"),
    row("permanent", "clickhouse_connect.driver.exceptions.NotSupportedError", "transactions"),
    row("unknown", "clickhouse_connect.driver.exceptions.DatabaseError", "server responded with an error"),
    row("auth", "cassandra.AuthenticationFailed", "Failed to authenticate to host: Bad credentials"),
    row("auth", "cassandra.Unauthorized", "User x has no MODIFY permission"),
    row("transient", "cassandra.OperationTimedOut", {"127.0.0.1": "Client request timeout"}, "127.0.0.1"),
    row("transient", "cassandra.ReadTimeout", "Operation timed out", consistency=1, required_responses=1, received_responses=0),
    row("transient", "cassandra.WriteTimeout", "Operation timed out", consistency=1, write_type=0),
    row("transient", "cassandra.Unavailable", "Cannot achieve consistency", consistency=1, required_replicas=2, alive_replicas=1),
    row("transient", "cassandra.cluster.NoHostAvailable", "Unable to connect to any servers", {"127.0.0.1": REFUSED}),
    row("transient", "cassandra.connection.ConnectionShutdown", "Connection to 127.0.0.1 was closed"),
    row("invalid", "cassandra.InvalidRequest", "Invalid STRING constant (x) for a of type int"),
    row("permanent", "cassandra.AlreadyExists", "shop", "jobs"),
    row("transient", "pymssql.exceptions.OperationalError", (20009, b"Unable to connect: Adaptive Server is unavailable")),
    row("transient", "pymssql.exceptions.OperationalError", (1205, b"Transaction was deadlocked on lock resources")),
    row("auth", "pymssql.exceptions.OperationalError", (18456, b"Login failed for user 'sa'.")),
    row("invalid", "pymssql.exceptions.IntegrityError", (2627, b"Violation of PRIMARY KEY constraint")),
    row("permanent", "pymssql.exceptions.ProgrammingError", (208, b"Invalid object name 'x'.")),
    row("transient", "pymssql.exceptions.InterfaceError", "Connection is closed."),
    special("oracledb", "transient", oracle("OperationalError", "DPY-6005: cannot connect to database")),
    special("oracledb", "transient", oracle("OperationalError", "ORA-12541: no listener")),
    special("oracledb", "invalid", oracle("IntegrityError", "ORA-00001: unique constraint (A.B) violated")),
    special("oracledb", "transient", oracle("InterfaceError", "DPY-1001: not connected to database")),
    special("oracledb", "auth", oracle("DatabaseError", "ORA-01017: invalid username/password; logon denied")),
    special("oracledb", "permanent", oracle("NotSupportedError", "DPY-3001: only supported in thick mode")),
    special("duckdb", "permanent", sql("SELECT * FROM missing")),
    special("duckdb", "permanent", sql("SELEC 1")),
    special("duckdb", "invalid", sql("INSERT INTO t VALUES (1)")),
    special("duckdb", "invalid", sql("SELECT CAST('x' AS INTEGER)")),
    special("duckdb", "permanent", sql("SELECT b FROM t")),
    row("transient", "trino.exceptions.TrinoConnectionError", "failed to connect"),
    row("auth", "trino.exceptions.TrinoAuthError", "Error: header WWW-Authenticate not available"),
    row("transient", "trino.exceptions.Http503Error", "error 503"),
    special("trino", "permanent", trino_error("USER_ERROR", "SYNTAX_ERROR")),
    special("trino", "auth", trino_error("USER_ERROR", "PERMISSION_DENIED")),
    special("trino", "transient", trino_error("EXTERNAL", "HIVE_METASTORE_ERROR")),
    row("transient", "pymemcache.exceptions.MemcacheUnexpectedCloseError"),
    row("transient", "pymemcache.exceptions.MemcacheServerError", b"out of memory storing object"),
    row("invalid", "pymemcache.exceptions.MemcacheIllegalInputError", "Key is too long: 'xxx'"),
    row("permanent", "pymemcache.exceptions.MemcacheUnknownCommandError", b"touch"),
    row("auth", "aiosmtplib.errors.SMTPAuthenticationError", 535, "5.7.8 bad credentials"),
    row("transient", "aiosmtplib.errors.SMTPConnectTimeoutError", "Timed out connecting to localhost"),
    row("transient", "aiosmtplib.errors.SMTPServerDisconnected", "Server disconnected"),
    row("transient", "aiosmtplib.errors.SMTPResponseException", 451, "4.3.0 try again later"),
    row("permanent", "aiosmtplib.errors.SMTPDataError", 552, "5.3.4 message too big"),
    row("auth", "valkey.exceptions.AuthenticationError", "invalid username-password pair"),
    row("auth", "valkey.exceptions.NoPermissionError", "this user has no permissions"),
    row("transient", "valkey.exceptions.ConnectionError", "Error 111 connecting to localhost:6379"),
    row("transient", "valkey.exceptions.TimeoutError", "Timeout reading from socket"),
    row("transient", "valkey.exceptions.BusyLoadingError", "Valkey is loading the dataset in memory"),
    row("transient", "valkey.exceptions.MaxConnectionsError", "Too many connections"),
    row("transient", "valkey.exceptions.OutOfMemoryError", "command not allowed when used memory > 'maxmemory'"),
    row("invalid", "valkey.exceptions.DataError", "Invalid input of type: 'dict'"),
    row("auth", "hvac.exceptions.Forbidden", "permission denied"),
    row("auth", "hvac.exceptions.Unauthorized", "missing client token"),
    row("permanent", "hvac.exceptions.InvalidPath", "no handler for route"),
    row("invalid", "hvac.exceptions.InvalidRequest", "missing parameter"),
    row("rate_limit", "hvac.exceptions.RateLimitExceeded", "request path: rate limit quota exceeded"),
    row("transient", "hvac.exceptions.VaultDown", "Vault is sealed"),
    row("transient", "hvac.exceptions.InternalServerError", "internal error"),
    row("transient", "hvac.exceptions.BadGateway", "bad gateway"),
    row("transient", "docker.errors.APIError", "server error", answer(500, {"message": "no"})),
    row("permanent", "docker.errors.ImageNotFound", "no such image", answer(404, {"message": "no"})),
    row("transient", "docker.errors.DockerException", "Error while fetching server API version", cause=LOST),
    row("invalid", "docker.errors.InvalidArgument", "volumes must be a dict"),
    row("transient", "zeep.exceptions.TransportError", "Server returned response (503)", status_code=503),
    row("auth", "zeep.exceptions.TransportError", "Server returned response (401)", status_code=401),
    row("invalid", "zeep.exceptions.ValidationError", "Missing element id"),
    row("invalid", "zeep.exceptions.Fault", "bad input", code="soap:Client"),
    row("rate_limit", "tweepy.errors.TooManyRequests", answer(429, {}, x_rate_limit_remaining="0", x_rate_limit_reset="90"), hint=90.0),
    row("auth", "tweepy.errors.Unauthorized", answer(401, {"title": "Unauthorized"})),
    row("auth", "tweepy.errors.Forbidden", answer(403, {"title": "Forbidden"})),
    row("transient", "tweepy.errors.TwitterServerError", answer(503, {})),
    row("permanent", "tweepy.errors.NotFound", answer(404, {})),
    row("rate_limit", "discord.errors.RateLimited", 12.5, hint=12.5),
    row("transient", "discord.errors.DiscordServerError", aiohttp_answer(500), "oops"),
    row("auth", "discord.errors.Forbidden", aiohttp_answer(403), {"code": 50013, "message": "Missing Permissions"}),
    row("permanent", "discord.errors.NotFound", aiohttp_answer(404), {"code": 10008, "message": "Unknown Message"}),
    row("auth", "discord.errors.LoginFailure", "Improper token has been passed."),
    row("transient", "discord.errors.ConnectionClosed", SimpleNamespace(close_code=1006), shard_id=None),
    row("transient", "discord.errors.GatewayNotFound"),
    row("rate_limit", "prawcore.exceptions.TooManyRequests", answer(429, {}, Retry_After="5"), hint=5.0),
    row("transient", "prawcore.exceptions.RequestException", LOST, (), {}),
    row("auth", "prawcore.exceptions.OAuthException", answer(200, {}), "invalid_grant", "wrong"),
    row("transient", "prawcore.exceptions.ServerError", answer(502)),
    row("auth", "prawcore.exceptions.InvalidToken", answer(401)),
    row("rate_limit", "notion_client.errors.APIResponseError", "rate_limited", 429, "no", {"retry-after": "3"}, "{}", hint=3.0),
    row("auth", "notion_client.errors.APIResponseError", "unauthorized", 401, "no", {}, "{}"),
    row("permanent", "notion_client.errors.APIResponseError", "object_not_found", 404, "no", {}, "{}"),
    row("invalid", "notion_client.errors.APIResponseError", "validation_error", 400, "no", {}, "{}"),
    row("transient", "notion_client.errors.APIResponseError", "conflict_error", 409, "no", {}, "{}"),
    row("transient", "notion_client.errors.RequestTimeoutError"),
    row("auth", "braintree.exceptions.AuthenticationError"),
    row("auth", "braintree.exceptions.AuthorizationError", "no"),
    row("transient", "braintree.exceptions.GatewayTimeoutError"),
    row("transient", "braintree.exceptions.RequestTimeoutError"),
    row("transient", "braintree.exceptions.ServerError"),
    row("transient", "braintree.exceptions.ServiceUnavailableError"),
    row("rate_limit", "braintree.exceptions.TooManyRequestsError"),
    row("permanent", "braintree.exceptions.NotFoundError"),
    row("permanent", "braintree.exceptions.ConfigurationError", "no"),
    row("auth", "simple_salesforce.exceptions.SalesforceExpiredSession", "u", 401, "r", b"[]"),
    row("invalid", "simple_salesforce.exceptions.SalesforceMalformedRequest", "u", 400, "r", b"[]"),
    row("transient", "simple_salesforce.exceptions.SalesforceGeneralError", "u", 503, "r", b"[]"),
    row("auth", "simple_salesforce.exceptions.SalesforceAuthenticationFailed", "INVALID_LOGIN", "Invalid username"),
    row("quota", "simple_salesforce.exceptions.SalesforceRefusedRequest", "u", 403, "r", [{"errorCode": "REQUEST_LIMIT_EXCEEDED"}]),
    row("auth", "jira.exceptions.JIRAError", "no", status_code=401, response=answer(401)),
    row("rate_limit", "jira.exceptions.JIRAError", "no", status_code=429, response=answer(429, Retry_After="9"), hint=9.0),
    row("permanent", "jira.exceptions.JIRAError", "no issue", status_code=404, response=answer(404)),
    row("auth", "gitlab.exceptions.GitlabAuthenticationError", "401 Unauthorized", 401, b""),
    row("rate_limit", "gitlab.exceptions.GitlabHttpError", "Retry later", 429, b""),
    row("permanent", "gitlab.exceptions.GitlabGetError", "404 Not Found", 404, b""),
    row("transient", "gitlab.exceptions.GitlabHttpError", "502", 502, b""),
    row("invalid", "gitlab.exceptions.GitlabCreateError", "name is missing", 400, b""),
    row("transient", "gitlab.exceptions.GitlabConnectionError", "Can't connect to GitLab"),
    row("rate_limit", "influxdb_client.rest.ApiException", http_resp=made("urllib3.HTTPResponse", b"", headers={"Retry-After": "11"}, status=429), hint=11.0),
    row("auth", "influxdb_client.rest.ApiException", http_resp=made("urllib3.HTTPResponse", b"{}", status=401)),
    row("transient", "influxdb_client.rest.ApiException", status=503, reason="Service Unavailable"),
    row("invalid", "influxdb_client.rest.ApiException", http_resp=made("urllib3.HTTPResponse", b"{}", status=422)),
    row("transient", "neo4j.exceptions.ServiceUnavailable", "Couldn't connect to localhost:7687"),
    row("transient", "neo4j.exceptions.SessionExpired", "Failed to read from defunct connection"),
    row("transient", "neo4j.exceptions.ConnectionAcquisitionTimeoutError", "failed to obtain a connection"),
    special("neo4j", "transient", made("other_libraries.neo4j_error", "Neo.TransientError.Transaction.DeadlockDetected")),
    special("neo4j", "auth", made("other_libraries.neo4j_error", "Neo.ClientError.Security.Unauthorized")),
    special("neo4j", "auth", made("other_libraries.neo4j_error", "Neo.ClientError.Security.Forbidden")),
    special("neo4j", "invalid", made("other_libraries.neo4j_error", "Neo.ClientError.Schema.ConstraintValidationFailed")),
    special("neo4j", "permanent", made("other_libraries.neo4j_error", "Neo.ClientError.Statement.SyntaxError")),
    row("permanent", "neo4j.exceptions.ConfigurationError", "unknown scheme"),
    row("auth", "arango.exceptions.DocumentGetError", arango_answer(401, 11), None),
    row("transient", "arango.exceptions.DocumentGetError", arango_answer(503, 503), None),
    row("permanent", "arango.exceptions.DocumentGetError", arango_answer(404, 1202), None),
    row("invalid", "arango.exceptions.AQLQueryExecuteError", arango_answer(400, 1501), None),
    row("auth", "asyncssh.misc.PermissionDenied", "Permission denied for user x on host y"),
    row("transient", "asyncssh.misc.ConnectionLost", "Connection lost"),
    row("permanent", "asyncssh.misc.HostKeyNotVerifiable", "Host key is not trusted for host y"),
    row("transient", "asyncssh.misc.ChannelOpenError", 2, "Connection refused"),
    row("permanent", "asyncssh.sftp.SFTPNoSuchFile", "No such file"),
    row("auth", "asyncssh.sftp.SFTPPermissionDenied", "Permission denied"),
    row("transient", "asyncssh.sftp.SFTPConnectionLost", "Connection closed"),
    row("quota", "asyncssh.sftp.SFTPQuotaExceeded", "quota exceeded"),
    row("transient", "ldap3.core.exceptions.LDAPSocketOpenError", "unable to open socket"),
    row("transient", "ldap3.core.exceptions.LDAPSocketReceiveError", "error receiving data"),
    row("auth", "ldap3.core.exceptions.LDAPOperationResult", 49, "invalidCredentials", "", "", "bindResponse"),
    row("transient", "ldap3.core.exceptions.LDAPOperationResult", 51, "busy", "", "", "searchResDone"),
    row("transient", "ldap3.core.exceptions.LDAPOperationResult", 52, "unavailable", "", "", "searchResDone"),
    row("transient", "ldap3.core.exceptions.LDAPOperationResult", 3, "timeLimitExceeded", "", "", "searchResDone"),
    row("permanent", "ldap3.core.exceptions.LDAPOperationResult", 32, "noSuchObject", "", "", "searchResDone"),
    row("auth", "ldap3.core.exceptions.LDAPOperationResult", 50, "insufficientAccessRights", "", "", "modifyResponse"),
    row("transient", "ldap3.core.exceptions.LDAPServerPoolExhaustedError", "no active server available"),
    row("invalid", "ldap3.core.exceptions.LDAPInvalidDnError", "invalid dn"),
    row("transient", "aiomqtt.exceptions.MqttCodeError", 7, "The connection was lost."),
    row("transient", "aiomqtt.exceptions.MqttConnectError", 3),
    row("auth", "aiomqtt.exceptions.MqttConnectError", 5),
    row("transient", "zmq.error.Again"),
    row("transient", "zmq.error.ZMQError", 111),
    row("transient", "stomp.exception.ConnectFailedException"),
    row("transient", "stomp.exception.NotConnectedException"),
    row("transient", "stomp.exception.ConnectionClosedException"),
    row("permanent", "qdrant_client.http.exceptions.UnexpectedResponse", 404, "Not Found", b"{}", {}),
    row("rate_limit", "qdrant_client.http.exceptions.UnexpectedResponse", 429, "Too Many Requests", b"{}", {"retry-after": "4"}, hint=4.0),
    row("transient", "qdrant_client.http.exceptions.ResponseHandlingException", HTTPX_LOST),
    row("invalid", "weaviate.exceptions.UnexpectedStatusCodeError", "Insert", httpx_answer(422)),
    row("transient", "weaviate.exceptions.UnexpectedStatusCodeError", "Insert", httpx_answer(503)),
    row("auth", "weaviate.exceptions.AuthenticationFailedError", "no key"),
    row("transient", "weaviate.exceptions.WeaviateConnectionError", "refused"),
    row("transient", "weaviate.exceptions.WeaviateTimeoutError", "late"),
    row("invalid", "weaviate.exceptions.WeaviateInvalidInputError", "wrong type"),
    row("transient", "weaviate.exceptions.WeaviateGRPCUnavailableError", "1.30"),
    row("invalid", "weaviate.exceptions.SchemaValidationError", "no class"),
    row("transient", "meilisearch.errors.MeilisearchCommunicationError", "refused"),
    row("transient", "meilisearch.errors.MeilisearchTimeoutError", "late"),
    row("auth", "meilisearch.errors.MeilisearchApiError", "no", answer(403, {"code": "invalid_api_key", "type": "auth"})),
    row("permanent", "meilisearch.errors.MeilisearchApiError", "no", answer(404, {"code": "index_not_found", "type": "invalid_request"})),
    row("invalid", "meilisearch.errors.MeilisearchApiError", "no", answer(400, {"code": "invalid_document_id", "type": "invalid_request"})),
    row("transient", "typesense.exceptions.Timeout", "[Errno 408]"),
    row("auth", "typesense.exceptions.RequestUnauthorized", "Forbidden - a valid key"),
    row("auth", "typesense.exceptions.RequestForbidden", "no"),
    row("permanent", "typesense.exceptions.ObjectNotFound", "no"),
    row("invalid", "typesense.exceptions.ObjectUnprocessable", "no"),
    row("transient", "typesense.exceptions.ServiceUnavailable", "not ready"),
    row("transient", "typesense.exceptions.ServerError", "no"),
    row("invalid", "typesense.exceptions.RequestMalformed", "no"),
    row("permanent", "typesense.exceptions.ConfigError", "nodes is missing"),
    row("rate_limit", "algoliasearch.http.exceptions.RequestException", "Too many requests", 429),
    row("auth", "algoliasearch.http.exceptions.RequestException", "Invalid Application-ID or API key", 403),
    row("transient", "algoliasearch.http.exceptions.AlgoliaUnreachableHostException", "Unreachable hosts"),
    row("permanent", "algoliasearch.http.exceptions.ObjectNotFoundException", "no"),
    row("rate_limit", "replicate.exceptions.ReplicateError", status=429, title="Too Many Requests"),
    row("quota", "replicate.exceptions.ReplicateError", status=402, title="Payment required"),
    row("invalid", "replicate.exceptions.ReplicateError", status=422, title="Input validation failed"),
    row("permanent", "ollama.ResponseError", '{"error":"model not found"}', 404),
    row("transient", "ollama.ResponseError", "server busy", 503),
    row("rate_limit", "voyageai.error.RateLimitError", "slow down", http_status=429, headers={"retry-after": "2"}, hint=2.0),
    row("auth", "voyageai.error.AuthenticationError", "no key"),
    row("transient", "voyageai.error.APIConnectionError", "refused"),
    row("transient", "voyageai.error.Timeout", "late"),
    row("transient", "voyageai.error.TryAgain", "overloaded"),
    row("invalid", "voyageai.error.InvalidRequestError", "no", http_status=400),
    row("rate_limit", "dropbox.exceptions.RateLimitError", "id", backoff=30, hint=30.0),
    row("auth", "dropbox.exceptions.AuthError", "id", "expired_access_token"),
    row("transient", "dropbox.exceptions.InternalServerError", "id", 500, ""),
    row("invalid", "dropbox.exceptions.BadInputError", "id", "no"),
    row("rate_limit", "spotipy.exceptions.SpotifyException", 429, -1, "no", headers={"Retry-After": "7"}, hint=7.0),
    row("auth", "spotipy.exceptions.SpotifyException", 401, -1, "The access token expired"),
    row("transient", "spotipy.exceptions.SpotifyException", 502, -1, "Bad gateway"),
    row("auth", "spotipy.exceptions.SpotifyOauthError", "no", error="invalid_client"),
    row("rate_limit", "gspread.exceptions.APIError", answer(429, {"error": {"code": 429, "message": "no", "status": "RESOURCE_EXHAUSTED"}})),
    row("auth", "gspread.exceptions.APIError", answer(403, {"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}})),
    row("permanent", "gspread.exceptions.SpreadsheetNotFound"),
    row("permanent", "gspread.exceptions.WorksheetNotFound", "Sheet9"),
    row("auth", "ccxt.base.errors.AuthenticationError", "binance invalid key"),
    row("auth", "ccxt.base.errors.PermissionDenied", "binance no"),
    row("rate_limit", "ccxt.base.errors.RateLimitExceeded", "binance 429"),
    row("transient", "ccxt.base.errors.RequestTimeout", "binance GET"),
    row("transient", "ccxt.base.errors.ExchangeNotAvailable", "binance GET"),
    row("transient", "ccxt.base.errors.OnMaintenance", "binance"),
    row("transient", "ccxt.base.errors.NetworkError", "binance"),
    row("invalid", "ccxt.base.errors.InvalidOrder", "binance"),
    row("invalid", "ccxt.base.errors.BadRequest", "binance"),
    row("permanent", "ccxt.base.errors.NotSupported", "binance"),
    row("transient", "vertica_python.errors.ConnectionError", "Failed to establish a connection"),
    row("transient", "vertica_python.errors.TimedOutError", "late"),
    special("vertica_python", "auth", made("other_libraries.vertica_error", "42501")),
    special("vertica_python", "permanent", made("other_libraries.vertica_error", "42V01")),
    special("vertica_python", "transient", made("other_libraries.vertica_error", "53200")),
    special("vertica_python", "transient", made("other_libraries.vertica_error", "55V03")),
    special("vertica_python", "invalid", made("other_libraries.vertica_error", "22V0B")),
    row("invalid", "pg8000.exceptions.DatabaseError", {"S": "ERROR", "C": "23505", "M": "duplicate key"}),
    row("transient", "pg8000.exceptions.DatabaseError", {"S": "ERROR", "C": "40P01", "M": "deadlock detected"}),
    row("auth", "pg8000.exceptions.DatabaseError", {"S": "FATAL", "C": "28P01", "M": "password"}),
    row("permanent", "pg8000.exceptions.DatabaseError", {"S": "ERROR", "C": "42P01", "M": "no relation"}),
    row("transient", "pg8000.exceptions.InterfaceError", "network error"),
    *[
        row(category, "temporalio.service.RPCError", "no", enum_of("temporalio.service:RPCStatusCode", member), b"")
        for category, member in (
            ("transient", "UNAVAILABLE"),
            ("permanent", "NOT_FOUND"),
            ("rate_limit", "RESOURCE_EXHAUSTED"),
            ("auth", "PERMISSION_DENIED"),
            ("invalid", "INVALID_ARGUMENT"),
        )
    ],
    row("rate_limit", "dramatiq.errors.RateLimitExceeded", "rate limit exceeded"),
    row("transient", "dramatiq.errors.ConnectionClosed", "closed"),
    row("transient", "dramatiq.errors.ConnectionFailed", "refused"),
    row("permanent", "dramatiq.errors.ActorNotFound", "x"),
    row("rate_limit", "telethon.errors.rpcerrorlist.FloodWaitError", None, 30, hint=30.0),
    row("auth", "telethon.errors.rpcerrorlist.AuthKeyUnregisteredError", None),
    row("invalid", "telethon.errors.rpcerrorlist.PeerIdInvalidError", None),
    row("transient", "telethon.errors.rpcbaseerrors.ServerError", None, "INTERNAL"),
    row("transient", "telethon.errors.rpcbaseerrors.TimedOutError", None, "Timeout"),
    row("rate_limit", "aiogram.exceptions.TelegramRetryAfter", None, "Too Many Requests", 8, hint=8.0),
    row("auth", "aiogram.exceptions.TelegramUnauthorizedError", None, "Unauthorized"),
    row("auth", "aiogram.exceptions.TelegramForbiddenError", None, "bot was blocked by the user"),
    row("invalid", "aiogram.exceptions.TelegramBadRequest", None, "chat not found"),
    row("transient", "aiogram.exceptions.TelegramNetworkError", None, "reset"),
    row("transient", "aiogram.exceptions.TelegramServerError", None, "Bad Gateway"),
    row("permanent", "aiogram.exceptions.TelegramNotFound", None, "Not Found"),
    row("invalid", "aiogram.exceptions.TelegramEntityTooLarge", None, "Request Entity Too Large"),
    *[
        row(category, "hcloud.APIException", code, "no", None)
        for category, code in (
            ("rate_limit", "rate_limit_exceeded"),
            ("auth", "unauthorized"),
            ("auth", "forbidden"),
            ("permanent", "not_found"),
            ("transient", "conflict"),
            ("invalid", "invalid_input"),
            ("transient", "server_error"),
            ("transient", "locked"),
            ("transient", "service_error"),
        )
    ],
    row("transient", "cloudflare.APIConnectionError", request=None),
    row("rate_limit", "cloudflare.RateLimitError", "no", response=httpx_answer(429, Retry_After="6"), body=None, hint=6.0),
    row("transient", "cloudflare.APITimeoutError", request=None),
    row("transient", "keystoneauth1.exceptions.ConnectFailure", "Unable to establish connection"),
    row("transient", "keystoneauth1.exceptions.ConnectTimeout", "late"),
    row("auth", "keystoneauth1.exceptions.Unauthorized", "no"),
    row("transient", "keystoneauth1.exceptions.ServiceUnavailable", "no"),
    row("permanent", "keystoneauth1.exceptions.EndpointNotFound", "no"),
    row("permanent", "keystoneauth1.exceptions.SSLError", "certificate verify failed"),
    row("transient", "websocket.WebSocketTimeoutException", "late"),
    row("transient", "websocket.WebSocketConnectionClosedException", "closed"),
    row("auth", "websocket.WebSocketBadStatusException", "Handshake status 401", 401),
    row("transient", "websocket.WebSocketBadStatusException", "Handshake status 503", 503),
    row("transient", "websocket.WebSocketAddressException", "[Errno -2] Name or service not known"),
    *[
        row(category, "grpclib.exceptions.GRPCError", enum_of("grpclib.const:Status", member), "no")
        for category, member in (
            ("transient", "UNAVAILABLE"),
            ("auth", "UNAUTHENTICATED"),
            ("invalid", "INVALID_ARGUMENT"),
            ("transient", "DEADLINE_EXCEEDED"),
        )
    ],
    row("transient", "grpclib.exceptions.StreamTerminatedError", "Connection lost"),
    row("auth", "gql.transport.exceptions.TransportServerError", "401, message='Unauthorized'", 401),
    row("transient", "gql.transport.exceptions.TransportServerError", "503", 503),
    row("transient", "gql.transport.exceptions.TransportConnectionFailed", "reset"),
    row("auth", "gql.transport.exceptions.TransportQueryError", "no", errors=[{"message": "no", "extensions": {"code": "UNAUTHENTICATED"}}]),
    row("invalid", "gql.transport.exceptions.TransportQueryError", "no", errors=[{"message": "no", "extensions": {"code": "BAD_USER_INPUT"}}]),
    row("rate_limit", "zenpy.lib.exception.APIException", "no", response=answer(429, Retry_After="21"), hint=21.0),
    row("permanent", "zenpy.lib.exception.RecordNotFoundException", "no", response=answer(404)),
    row("rate_limit", "zenpy.lib.exception.RatelimitBudgetExceeded", "spent"),
    row("auth", "keycloak.exceptions.KeycloakAuthenticationError", "invalid_grant", 401, b"{}"),
    row("permanent", "keycloak.exceptions.KeycloakGetError", "no user", 404, b"{}"),
    row("transient", "keycloak.exceptions.KeycloakGetError", "down", 503, b"{}"),
    row("transient", "keycloak.exceptions.KeycloakConnectionError", "Can't connect to server"),
    row("rate_limit", "vonage_http_client.errors.RateLimitedError", answer(429, {})),
    row("transient", "vonage_http_client.errors.ServerError", answer(500, {})),
    row("auth", "vonage_http_client.errors.InvalidAuthError", "no key"),
    row("transient", "thrift.transport.TTransport.TTransportException", 1, "Could not connect to localhost"),
    row("transient", "thrift.transport.TTransport.TTransportException", 3, "late"),
    row("transient", "niquests.exceptions.ConnectionError", "refused"),
    row("transient", "niquests.exceptions.ReadTimeout", "late"),
    row("rate_limit", "niquests.exceptions.HTTPError", "429", response=answer(429, Retry_After="13"), hint=13.0),
    row("permanent", "niquests.exceptions.SSLError", "certificate verify failed"),
    row("permanent", "niquests.exceptions.InvalidURL", "no host"),
    row("rate_limit", "pyactiveresource.connection.ClientError", plain_answer(429, Retry_After="2.0"), hint=2.0),
    row("auth", "pyactiveresource.connection.UnauthorizedAccess", plain_answer(401)),
    row("permanent", "pyactiveresource.connection.ResourceNotFound", plain_answer(404)),
    row("invalid", "pyactiveresource.connection.ResourceInvalid", plain_answer(422)),
    row("transient", "pyactiveresource.connection.ServerError", plain_answer(500)),
    row("auth", "plaid.exceptions.ApiException", http_resp=plaid_answer(400, "ITEM_LOGIN_REQUIRED")),
    row("transient", "plaid.exceptions.ApiException", http_resp=plaid_answer(400, "PRODUCT_NOT_READY")),
    row("invalid", "plaid.exceptions.ApiException", http_resp=plaid_answer(400, "INVALID_FIELD")),
    row("rate_limit", "plaid.exceptions.ApiException", status=429, reason="no"),
    row("transient", "plaid.exceptions.ServiceException", status=500, reason="no"),
    row("auth", "plaid.exceptions.UnauthorizedException", status=401, reason="no"),
    row("transient", "firebirdsql.OperationalError", "Can not recv() packets", [], 0),
    row("invalid", "firebirdsql.IntegrityError", "violation of PRIMARY", [335544665], -803),
    row("transient", "taskiq.exceptions.TaskiqResultTimeoutError", timeout=3.0),
    row("transient", "pymilvus.exceptions.ConnectError", 1, "refused"),
    row("transient", "pymilvus.exceptions.MilvusUnavailableException", 1, "unavailable"),
    row("invalid", "pymilvus.exceptions.ParamError", 1, "no"),
    row("permanent", "pymilvus.exceptions.CollectionNotExistException", 100, "no"),
    row("transient", "pymilvus.exceptions.MilvusException", 2, "node offline", retriable=True),
    row("transient", "trio.BrokenResourceError"),
    row("transient", "trio.ClosedResourceError"),
    row("transient", "trio.TooSlowError"),
]
# fmt: on


def built(value: Any) -> Any:
    """Make what a row describes, the arguments first."""
    if isinstance(value, Made):
        args = [built(item) for item in value.args]
        if value.name.endswith("."):  # a special row: its one argument is the error
            return args[0]
        module, _, name = value.name.rpartition(".")
        if module == "other_libraries":
            return globals()[name](*args)
        maker = pkgutil.resolve_name(f"{module}:{name}")
        return maker(*args, **{key: built(item) for key, item in value.kwargs.items()})
    if isinstance(value, list | tuple):
        return type(value)(built(item) for item in value)
    return {key: built(item) for key, item in value.items()} if type(value) is dict else value


class Shapes:
    """Turns errors and all that hangs on them into plain data."""

    def __init__(self) -> None:
        self.classes: dict[str, list[str]] = {}

    def of(self, value: Any, depth: int = 4) -> Any:
        if isinstance(value, BaseException):
            return self.error(value, depth)
        if isinstance(value, Enum):
            return {"enum": value.name, "value": self.of(value.value, 1)}
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return value[:300]
        if isinstance(value, bytes):
            return {"bytes": value[:300].decode("latin-1")}
        if depth == 0 or callable(value):
            return None
        if isinstance(value, Mapping):
            return {"map": {str(key): self.of(item, depth - 1) for key, item in value.items()}}
        if isinstance(value, list | tuple):
            items = [self.of(item, depth - 1) for item in value[:20]]
            return {"list" if isinstance(value, list) else "tuple": items}
        return {"object": self.attributes(value, depth - 1)}

    def attributes(self, thing: Any, depth: int) -> dict[str, Any]:
        found = {}
        for name in dir(thing):
            if name == "_content" or not name.startswith("_"):
                try:
                    value = self.of(getattr(thing, name), depth)
                except Exception:  # noqa: BLE001 - a property that raises is as good as none
                    value = None
                if value not in (None, "", {"map": {}}, {"list": []}, {"object": {}}):
                    found[name] = value
        return found

    def error(self, error: BaseException, depth: int) -> dict[str, Any]:
        shape: dict[str, Any] = {"class": self.name(type(error))}
        shape["args"] = [self.of(item, depth - 1) for item in error.args]
        shape["held"] = self.attributes(error, depth - 1)
        shape["held"].pop("args", None)
        if error.__cause__ is not None:
            shape["cause"] = self.error(error.__cause__, depth - 1)
        return shape

    def name(self, cls: type) -> str:
        name = f"{cls.__module__}:{cls.__qualname__}"
        is_ours = cls.__module__.partition(".")[0] not in sys.stdlib_module_names
        if is_ours and name not in self.classes:
            self.classes[name] = []  # its bases come first
            bases = [self.name(base) for base in cls.__bases__]
            del self.classes[name]
            self.classes[name] = bases
        return name


def main() -> None:
    shapes, rows = Shapes(), []
    for each in ROWS:
        try:
            error = built(each.made)
        except Exception as problem:
            raise RuntimeError(each.made) from problem
        error.__cause__ = built(each.cause)
        library = type(error).__module__.partition(".")[0].lstrip("_")
        rows.append(
            {
                "library": library,
                "held_out": library in HELD_OUT,
                "category": each.category,
                **({} if each.hint is None else {"hint": each.hint}),
                "error": shapes.error(error, 5),
            }
        )
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in rows)
    classes = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in shapes.classes.items())
    print(f'{{"classes": {{\n{classes}\n}}, "rows": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
