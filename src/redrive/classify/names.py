"""What the name of a class or of a code says, in any library: `RateLimitExceeded`, `not_found`.

A name is searched for words, category by category. What passes comes before what stays, so that
`AuthTimeout` is a timeout; words that may be about a connection come last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from redrive.jobs.job import Category

_PARTS: Final = re.compile(r"[^A-Za-z0-9]+")
_LASTING: Final = re.compile(r"Transient|Temporar(?:y|il)|Retr[iy]able")
"""Words of a base that hold for all classes below it."""


def _table(text: str) -> Iterator[tuple[Category, re.Pattern[str]]]:
    """Yield each category with the pattern of its words; one may come twice."""
    for category, _, words in (line.partition(": ") for line in text.strip().split("\n\n")):
        yield Category(category.strip()), re.compile("|".join(words.split()))


_WORDS: Final = [
    *_table(r"""
    rate_limit: Rate_?[Ll]imit TooManyRequests Throttl Flood RetryAfter SlowDown ResourceExhausted

    quota: Quota PaymentRequired OutOfCredit RequestLimitExceeded
        (?:Budget|Spend|Credit|Billing|Usage)\w*(?:Exceeded|Exhausted|Limit|Reached)

    transient: Time_?[Oo]ut TimedOut TooSlow DeadlineExceeded TimeLimit NotAvailable
        Unavailable(?!ForLegal) No[A-Z]\w*Available Unreachable Overload Busy TryAgain Again$ Pending
        Maintenance Deadlock LockFailure Locked$ LockedResource$ Conflict NotReady Restarting
        Shut(?:ting)?[Dd]own BadGateway ServerError (?<!Unknown)ServiceError Down$ Disconnect
        [Rr]econnect Lost PoolExhausted OutOfMemory InsufficientResources NotA?Leader
        (?:Host|Server|Gateway|Node|Leader|Master|Broker|Coordinator|Listener)NotFound
        (?:Cursor|Session|SessionId)NotFound Connection(?:DoesNot|Not)Exist
        (?:Connect(?:ion)?|Network)(?:Error|Exception|Fail(?:ed|ure)|Reset|Refused|Aborted)$
        (?:T(?:ook|akes)|Waited|Waiting|Wait|Queue|Backlog)TooLong
        (?<!Implemented)(?<!Supported)Yet(?:Error|Exception)?$

    auth: O?Auth(?=[A-Z]|enti|ori[sz]|$) Unauth(?:enti|ori[sz]) Forbidden PermissionDenied
        (?:No|Insufficient|Missing)Permission Access(?:Denied|Refused) InsufficientAccess Credential
        Log[io]n(?:Fail|Denied|Refused|Required|Incorrect) InvalidLogin NotAuthori[sz]ed
        (?:Invalid|Expired|Revoked|Missing)\w*(?:Token|A[Pp][Ii]Key|Signature|Password)
        Token\w*(?:Expired|Revoked|Invalid) (?:Missing|Insufficient)Scope Invalid(?:Grant|Client)Error

    invalid: Invalid(?:Request|\w*Input|Arg|Param|Payload|Value|Field|Document|Order|Address|Email)
        Invalid(?:Recipient|Query|Filter|D[Nn]|Syntax|Attribute|PhoneNumber) (?<!Response)Validation BadRequest
        Bad\w*Input Malformed(?:Request|Input) RequestMalformed Unprocessable Constraint
        Integrity(?:Error|Violation)
        Duplicate TooLarge TooLong Illegal(?:Input|Arg) Param(?:eter)?Error$ BadParam TypeMismatch
        DataError$ Missing(?:Param|Arg|Field) ArgumentsRequired
        (?:Id|Document|Email|Name|Number|Url|Input|Field|Value|Argument|Parameter|Payload)Invalid

    permanent: NotFound (?:DoesNot|Doesnt|Not)Exist NoSuch AlreadyExists NotSupported Unsupported
        (?:Not|Un)[Ii]mplemented Config HostKey Cert(?:ificate|Verif) PreconditionFailed
        MethodNotAllowed (?<!XML)(?<!JSON)(?<!Protocol)(?<!Frame)Syntax InvalidPath InvalidU[Rr][LlIi] (?:Invalid|Missing)Schem[ae]
        Unknown(?:Command|Method|Column|Table) UpgradeRequired Incompatible Programming(?=Error)

    transient: Connect Network (?<!Web)Socket Communication Closed Terminated UnexpectedClose
        Broken(?:Pipe|Resource|Connection|Stream) Interrupted AddressException NameResol
    """)
]


def category_of_class(names: tuple[str, ...]) -> tuple[str, Category] | None:
    """Return the nearest of a class's names that says something, and its category.

    A base called transient or retryable holds for every class below it, whatever its own name is.
    """
    for name in names:
        if _LASTING.search(name):
            return name, Category.TRANSIENT
    for name in names:
        if category := _category(name):
            return name, category
        if name.startswith("Unknown"):  # its bases claim more than the server said
            return None
    return None


@lru_cache(500)
def category_of_code(code: str) -> Category | None:
    """Return what the words of a code say: `rate_limit_exceeded` is read as `RateLimitExceeded`."""
    parts = _PARTS.split(code)
    words = [part.capitalize() if part.isupper() else part[:1].upper() + part[1:] for part in parts]
    return _category("".join(words))


def _category(name: str) -> Category | None:
    return next((category for category, words in _WORDS if words.search(name)), None)
