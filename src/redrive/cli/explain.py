"""How an error would be classified, and when a job that fails with it would be retried."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import asdict
from itertools import repeat
from typing import Any, NamedTuple, cast

import click

from redrive.classify import classify, tables
from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import USAGE, Stop
from redrive.cli.output import Facts, Table, View, fields
from redrive.in_place.retry import simulate
from redrive.jobs.clock import SystemClock
from redrive.jobs.durations import words
from redrive.jobs.job import Category, Failure
from redrive.policies.policy import Policy
from redrive.policies.presets import PRESETS

MINUTE = 60.0
_FACTS = fields("error category why status code hint:span hint_source policy")
_STEPS = fields("failure:number lowest:exact highest:exact then:word because:prose")

_POLICY = fields(
    """policy attempts max_age:span hints=server's_hints:word keep.completed=completed_kept:span
    keep.resolved=resolved_kept:span keep.dead=dead_kept:span"""
)
_WAITS = fields("category:category attempts:number waits:prose")

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")

# Of classes that have no row of their own: the status they stand for, or their base class.
_NAMES = """
    openai,anthropic,groq,litellm= 400: BadRequestError 401: AuthenticationError
        403: PermissionDeniedError 404: NotFoundError 409: ConflictError
        422: UnprocessableEntityError 429: RateLimitError 500: InternalServerError
    anthropic= 503: ServiceUnavailableError 504: DeadlineExceededError 529: OverloadedError
    litellm= 408: Timeout 502: BadGatewayError 503: ServiceUnavailableError
    httpx,httpx2,httpcore,httpcore2= NetworkError: ConnectError ReadError WriteError CloseError
        TimeoutException: ConnectTimeout ReadTimeout WriteTimeout PoolTimeout
    requests= Timeout: ConnectTimeout ReadTimeout  ConnectionError: ProxyError
    urllib3= TimeoutError: ConnectTimeoutError ReadTimeoutError NewConnectionError
        ProtocolError: IncompleteRead  PoolError: MaxRetryError EmptyPoolError
    aiohttp= ClientConnectionError: ClientOSError ClientConnectorError ClientConnectorDNSError
        ServerDisconnectedError ClientConnectionResetError
    stripe= 429: RateLimitError 500: APIError
    google= 400: BadRequest InvalidArgument 401: Unauthenticated 403: Forbidden PermissionDenied
        404: NotFound 409: Aborted 429: TooManyRequests ResourceExhausted 500: InternalServerError
        503: ServiceUnavailable 504: DeadlineExceeded GatewayTimeout
    pymongo= ConnectionFailure: AutoReconnect NetworkTimeout ServerSelectionTimeoutError
        NotPrimaryError
    http= BadStatusLine: RemoteDisconnected
    pika= AMQPConnectionError: StreamLostError ConnectionClosedByBroker ConnectionClosed
"""


@command(
    "explain",
    "redrive explain 429",
    "redrive explain 503 --header 'Retry-After: 120' --policy SYNC",
    "redrive explain httpx.ReadTimeout",
    "redrive explain WEBHOOKS",
)
@click.argument("what", metavar="STATUS|NAME|POLICY")
@option("--policy NAME", "The policy whose delays are shown.", name="name", default="DEFAULT")
@option("--header HEADER", "A header of the response; repeatable.", name="headers", multiple=True)
@click.pass_obj
def explain(cli: Cli, what: str, name: str, headers: tuple[str, ...]) -> None:
    """Show how an error is classified, why, and when its job would be retried; or what a policy does.

    The error is an HTTP status or the name of an exception such as httpx.ReadTimeout, which is looked
    up in tables and never imported. The policies are DEFAULT, WEBHOOKS, LLM, BATCH, SYNC and EVENTS.
    """
    if what.upper() in PRESETS:
        cli.show(_policy_view(what.upper(), PRESETS[what.upper()]))
        return
    policy = PRESETS.get(name.upper())
    if policy is None:
        raise click.UsageError(f"no policy {name!r}; known: {', '.join(PRESETS)}")
    error = _error_of(what, _headers(headers))
    failure = classify(error, now=(cli.clock or SystemClock()).now())
    cli.show(_view(failure, name.upper(), _steps(failure, policy)))


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [header.partition(":") for header in given]
    if not all(colon for _, colon, _ in pairs):
        raise click.UsageError("write --header as 'NAME: VALUE'")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _error_of(what: str, headers: dict[str, str]) -> BaseException:
    """Make an error that carries what is known of the one in question."""
    if re.fullmatch(r"[1-5]\d\d", what):
        return _stand_in("HTTPError", {"headers": headers, "status_code": int(what)})
    if _NAME.fullmatch(what) and _is_class(what):
        return _stand_in(what, {"headers": headers})
    msg = f"cannot explain {what!r}: it is not an HTTP status, a policy or the name of an exception"
    hint = "redrive explain 429, redrive explain httpx.ReadTimeout, redrive explain LLM"
    raise Stop("usage", msg, hint=hint, exits=USAGE)


def _is_class(name: str) -> bool:
    """Return True for a class, False for a missing file: by the tables, else by its capital."""
    rows = {**tables.CLASSES, **tables.STDLIB}
    return _rooted(name) in rows or name.rpartition(".")[2][:1].isupper()


def _rooted(name: str) -> str:
    """Name a class as the tables do, by its root package."""
    return f"{name.partition('.')[0]}.{name.rpartition('.')[2]}"


def _kind_of(name: str) -> str:
    """Find the status or the base class that a class stands for."""
    packages, kind = [""], ""
    for word in _NAMES.split():
        if word.endswith("="):
            packages = word[:-1].split(",")
        elif word.endswith(":"):
            kind = word[:-1]
        elif _rooted(name) in (f"{package}.{word}" for package in packages):
            return kind
    return ""


def _stand_in(name: str, evidence: Mapping[str, object]) -> BaseException:
    """Make an error that looks like the one named; a built-in one is a kind of itself."""
    module, _, last = name.rpartition(".")
    base: type[Exception] = Exception
    own = getattr(builtins, last, None) if module in {"", "builtins"} else None
    if isinstance(own, type) and issubclass(own, Exception) and not issubclass(own, ExceptionGroup):
        base = own
    kind = _kind_of(name)
    if kind.isdigit():
        evidence = {"status_code": int(kind), **evidence}
    elif kind:
        base = type(kind, (Exception,), {"__module__": module})
    made = type(last, (base,), {"__module__": module or "builtins", **evidence})
    cls = cast("type[Exception]", made)
    return cls.__new__(cls)  # not initialised: some want more than a message


class Step(NamedTuple):
    """What follows a failure: a retry after a delay between two ends of the jitter, or death."""

    failure: int
    then: str
    lowest: float | None = None
    highest: float | None = None
    because: str = ""


def _steps(failure: Failure | Category, policy: Policy) -> list[Step]:
    """Simulate a job that fails with this error until it is dead."""
    low = simulate(policy, repeat(failure), rand=lambda: 0.0)
    high = simulate(policy, repeat(failure), rand=lambda: 1.0)
    delays = zip(low.delays, high.delays, strict=False)  # with more jitter it may grow old sooner
    steps = [Step(number, "retry", *delay) for number, delay in enumerate(delays, start=1)]
    return [*steps, Step(len(steps) + 1, "dead", because=f"{high.reason}: {high.detail}")]


def _view(failure: Failure, name: str, steps: list[Step]) -> View:
    data: dict[str, object] = {
        "error": failure.type,
        "category": failure.category,
        "why": failure.why,
        "status": failure.status,
        "code": failure.code,
        "hint": failure.hint,
        "hint_source": failure.hint_source,
        "policy": name,
        "steps": [step._asdict() for step in steps],
    }
    known = [field for field in _FACTS if data[field.key] is not None]
    table = Table(_STEPS, [step._asdict() for step in steps], "After each failure", "step")
    return View(data, [Facts(known, data), table])


def _policy_view(name: str, policy: Policy) -> View:
    categories: list[dict[str, Any]] = []
    for category in Category:
        steps = _steps(category, policy)
        waits = [{"lowest": step.lowest, "highest": step.highest} for step in steps[:-1]]
        categories.append({"category": category, "attempts": len(steps), "waits": waits})
    data = {
        "policy": name,
        "attempts": policy.max_attempts,
        "max_age": policy.oldest,
        "hints": policy.hints,
        "keep": {state: kept or "forever" for state, kept in asdict(policy.keep).items()},
        "categories": categories,
    }
    rows = [{**row, "waits": _ranges(row["waits"]) or "dead at once"} for row in categories]
    table = Table(_WAITS, rows, "Waits after each failure", "category")
    return View(data, [Facts(_POLICY, data), table])


def _ranges(waits: list[dict[str, float]]) -> str:
    """Return the two ends of each wait, or one where they are the same: 30s–1m30s, 1m30s–2m30s."""

    def text(seconds: float) -> str:
        return words(seconds) if seconds >= MINUTE else f"{round(seconds, 1):g}s"

    return ", ".join("–".join(dict.fromkeys(map(text, wait.values()))) for wait in waits)
