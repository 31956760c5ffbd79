"""From an error to a `Failure`: its category, the reason for it, and what to show people.

Here: `clues` reads what the error carries, `judge` weighs it by the `tables`, the words in `names`
and the user's rules, `hints` finds how long to wait, `fingerprint` groups (with `statements` and
`message_text`), `traceback` formats. The result is plain data, masked and bounded. Not here: whether
to retry (`policies`), and how text is masked (`payloads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from redrive.classify import tables
from redrive.classify.clues import Clues, as_text, errno_name, guarded, name_of, with_causes
from redrive.classify.fingerprint import OUTSIDE, cause_of, of_text
from redrive.classify.hints import find_hint
from redrive.classify.judge import Finding, Judge
from redrive.classify.traceback import trace_text
from redrive.jobs.job import Category, Failure
from redrive.jobs.records import UNSAID, altered
from redrive.payloads.masking import error_text, safe_text, type_name
from redrive.policies.policy import When

_MESSAGE, _LINE, _WORD = 1900, 300, 100
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid")


def classify(
    exc: BaseException,
    *,
    rules: Sequence[When] = (),
    secrets: Sequence[str] = (),
    now: float = 0.0,
    handler: str = "",
    category: Category | None = None,
) -> Failure:
    """Return what an error means. Never raises; all text in the answer is masked and bounded.

    `category` is for callers that know it without the error, as for an attempt that ran too long.

    >>> failure = classify(ConnectionResetError("peer went away"))
    >>> failure.category, failure.why
    (<Category.TRANSIENT: 'transient'>, 'ConnectionResetError')
    """
    found = guarded(_failure, exc, rules, secrets, now, (handler, category))
    return found or _unread(exc, handler, category or Category.UNKNOWN)


def _failure(
    exc: BaseException,
    rules: Sequence[When],
    secrets: Sequence[str],
    now: float,
    known: tuple[str, Category | None],
) -> Failure:
    clues, finding = _weighed(exc, rules)
    handler, category = known[0], known[1] or finding.category
    message = error_text(exc, secrets, limit=_MESSAGE)
    code, status = _code(clues, finding, secrets), clues.status or finding.clues.status
    hint, source = _hint(clues, finding, now)
    keep, outside = (code or "", str(status or "")), category in OUTSIDE
    detail = keep[0] or keep[1]
    cause = cause_of(exc, message, detail=detail, keep=keep, handler=handler, outside=outside)
    return altered(
        UNSAID,
        category=category,
        why=error_text(finding.why, secrets, limit=_LINE),
        type=name_of(type(exc))[:_LINE],
        message=message,
        code=code,
        status=status,
        traceback=guarded(trace_text, exc, message, secrets) or "",
        hint=hint,
        hint_source=source,
        request_id=_request_id(clues, finding, secrets),
        final=finding.final,
        **cause._asdict(),
    )


def _weighed(exc: BaseException, rules: Sequence[When]) -> tuple[Clues, Finding]:
    """Return what an error carries, and what decides its category."""
    judge = Judge(rules)
    finding = guarded(judge.judge, exc)
    clues = judge.seen.get(id(exc)) or Clues(exc)
    unknown = f"nothing known about {name_of(type(exc))}"
    found = finding or Finding(clues, Category.UNKNOWN, unknown)
    return clues, found._replace(why="; ".join([found.why, *dict.fromkeys(judge.raised)]))


def _hint(clues: Clues, finding: Finding, now: float) -> tuple[float, str] | tuple[None, None]:
    """Return how long to wait and who says so: of what decided the category, else of the error."""
    hint = guarded(find_hint, finding.clues, now)
    if hint is None and finding.clues is not clues:
        hint = guarded(find_hint, clues, now)
    return hint or (None, None)


def _unread(exc: BaseException, handler: str, category: Category) -> Failure:
    """Return a failure for an error that cannot be read, so that its job is not lost."""
    name, why = type_name(exc), "the error could not be read"
    cause = of_text(name, why, handler=handler, outside=category in OUTSIDE)
    return Failure(
        category=category, why=why, type=safe_text(name, _LINE), message=why, **cause._asdict()
    )


def is_about_the_server(failure: Failure, error: BaseException) -> bool:
    """Return True if a failure shows that the service is unavailable for every input.

    That is a limit, a refused key or account, a wait it asked for, "unavailable", or a connection
    that was never made. A timeout, a 500 and whatever else may be the fault of one input.
    """
    return (
        failure.category in {Category.RATE_LIMIT, Category.QUOTA, Category.AUTH}
        or failure.hint is not None
        or str(failure.status) in tables.OUT_OF_SERVICE
        or failure.code in tables.OUT_OF_SERVICE
        or bool(guarded(_is_unreachable, error))
    )


def _is_unreachable(error: BaseException) -> bool:
    rows = tables.UNREACHABLE.keys()
    return any(
        errno_name(clues) in rows or not rows.isdisjoint(clues.kin) for clues in with_causes(error)
    )


def _code(clues: Clues, finding: Finding, secrets: Sequence[str]) -> str | None:
    codes = finding.clues.codes or clues.codes
    if codes and finding.code is None:
        return error_text(codes[0][0], secrets, limit=_WORD)
    return finding.code or errno_name(finding.clues)


def _request_id(clues: Clues, finding: Finding, secrets: Sequence[str]) -> str | None:
    if clues.is_plain and finding.clues.is_plain:
        return None
    ids = [each.headers.get(name) for each in (clues, finding.clues) for name in _REQUEST_IDS]
    known = next(filter(None, (*ids, as_text(clues.held.get("request_id")))), None)
    return known and error_text(known, secrets, limit=_WORD)
