"""One call of the API: what was asked, by whom, and the errors it may end with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from redrive.app import Redrive
from redrive.errors import (
    JobNotFound,
    KeyConflict,
    RedriveError,
    Refused,
    StoreError,
    UnknownHandler,
    UsageError,
)

if TYPE_CHECKING:
    from redrive.web.health import Health

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What every route's function is given, beside its query or body."""

    app: Redrive
    health: Health
    actor: str
    """Who does it, for the audit log."""
    known: bool
    """True if the caller may read; False only where a route is open to all."""
    may_reveal: bool = False
    """True if the caller may see payloads whole."""
    root: str = ""
    """Where the API is mounted."""
    path: Mapping[str, str]
    text: str = ""
    """The body as it was written."""


class Reply(NamedTuple):
    """An answer that is not a plain 200 with a document."""

    document: Document | str
    status: int = 200
    kind: str = "application/json"


class Problem(Exception):
    """Ends a call with an error that the caller can act on."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}


def problem_of(error: RedriveError) -> Problem:
    """Return the HTTP problem for an error of the library."""
    match error:
        case KeyConflict():
            return Problem(409, "key_conflict", str(error))
        case Refused():
            return Problem(409, "refused", str(error))
        case JobNotFound():
            return Problem(404, "not_found", str(error))
        case UnknownHandler():
            return Problem(404, "unknown_handler", str(error))
        case UsageError():
            return Problem(400, "bad_request", str(error))
        case StoreError():
            return Problem(503, "store", "the store failed; see the log of the server")
        case _:
            return Problem(500, "failed", "the request failed; see the log of the server")
