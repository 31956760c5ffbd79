"""What an error means: which category it is, why we think so, and what to show people.

`_clues` reads what the error carries, `_judge` weighs it, `_evidence` holds the tables. Here all
that is put together into a `Failure`: plain data, masked and bounded, for the decision, the store
and people.

`classify` never raises, whatever an error does when it is looked at: each part of the work is
fenced off, and what one part cannot tell, the others still do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from redrive._clues import Clues, as_text, name_of
from redrive._judge import Finding, Seen, errno_name, fenced, judge
from redrive._trace import trace_text
from redrive.errors import RetryLater
from redrive.fingerprint import cause_of, of_text
from redrive.hints import find_hint
from redrive.job import Category, Failure
from redrive.redact import error_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redrive.policy import When

_MESSAGE: Final = 1900
"""Characters of a message; with the note of how much was cut it stays below 2000."""
_LINE: Final = 300
_WORD: Final = 100
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-amzn-requestid")


def classify(
    exc: BaseException,
    *,
    rules: Sequence[When] = (),
    secrets: Sequence[str] = (),
    now: float = 0.0,
) -> Failure:
    """Say what an error means. Never raises; all text in the answer is masked and bounded.

    >>> failure = classify(ConnectionResetError("peer went away"))
    >>> failure.category, failure.why
    (<Category.TRANSIENT: 'transient'>, 'ConnectionResetError')
    """
    name = fenced(lambda: name_of(type(exc)), "object")
    seen: Seen = {}
    found = fenced(lambda: judge(exc, rules, seen, 0), None)
    clues = seen.get(id(exc)) or Clues(exc)
    found = found or Finding(Category.UNKNOWN, f"nothing known about {name}", clues)
    message = fenced(lambda: error_text(exc, secrets, limit=_MESSAGE), f"<{name} without text>")
    code = fenced(lambda: _code(clues, found, secrets), None)
    status = clues.status or found.clues.status
    hint, hint_source = fenced(lambda: _hint(clues, found, now), None) or (None, None)
    detail = code or str(status or "")
    cause = fenced(lambda: cause_of(exc, detail=detail, secrets=secrets), None)
    cause = cause or of_text(name, message, detail=detail)
    return Failure(
        category=found.category,
        why=found.why[:_LINE],
        type=name[:_LINE],
        message=message,
        code=code,
        status=status,
        traceback=fenced(lambda: trace_text(exc, message, secrets), ""),
        hint=hint,
        hint_source=hint_source,
        request_id=fenced(lambda: _request_id(clues, found, secrets), None),
        final=found.final,
        fingerprint=cause.fingerprint,
        title=cause.title,
    )


def _code(clues: Clues, found: Finding, secrets: Sequence[str]) -> str | None:
    if found.code is not None:
        return found.code
    for code, _ in (*found.clues.codes, *clues.codes):
        return error_text(code, secrets, limit=_WORD)
    return errno_name(found.clues)


def _request_id(clues: Clues, found: Finding, secrets: Sequence[str]) -> str | None:
    ids = (
        *(clue.headers.get(name) for clue in (clues, found.clues) for name in _REQUEST_IDS),
        clues.text("request_id"),
        as_text(clues.at("response", "ResponseMetadata", "RequestId")),
    )
    known = next(filter(None, ids), None)
    return None if known is None else error_text(known, secrets, limit=_WORD)


def _hint(clues: Clues, found: Finding, now: float) -> tuple[float, str] | None:
    if issubclass(type(found.clues.error), RetryLater):
        return None if found.hint is None else (found.hint, RetryLater.__name__)
    hint = find_hint(clues, now)
    return hint if hint is not None or found.clues is clues else find_hint(found.clues, now)
