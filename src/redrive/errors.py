"""Every error Redrive raises, and the signals a handler may raise.

RedriveError
├── UsageError (also a ValueError)    something in the call is wrong; the message says what to do
│   ├── BadPayload                    an argument cannot be kept as JSON; names the field
│   ├── KeyConflict                   an idempotency key already belongs to another job
│   ├── UnknownHandler                no handler has this name in this program
│   └── ProgramMissing                `module:attribute` could not be imported; has a hint
├── StoreError                        the store could not do it; nothing was half done
│   ├── StoreMissing                  there is no store at that place yet
│   ├── StoreForeign                  not a Redrive store, or one of another version
│   ├── StoreReadOnly                 it may be read but not written
│   ├── StoreFull                     no space, quota or size limit; works again when there is room
│   ├── StoreBusy                     another process holds the lock
│   ├── StoreDamaged                  bytes that were acknowledged are not what they were; has the offset
│   └── StoreLost                     the file was replaced or cut while it was open, or I/O failed
├── AllProvidersFailed (ExceptionGroup)   no provider of a `fallback` answered; has every error
├── ProviderPaused                    one of those errors: the provider was not called
├── ChildFailed                       a process for a handler could not be started; the job is returned
├── JobNotFound                       no job of that id, no group or run of that number
├── Refused                           the job is not in a state that allows this
├── Kept                              `Tried.value` of a call that failed and was kept
├── AttemptTimeout (a TimeoutError)   an attempt of `@retry(timeout=…)` took too long
├── ResultRejected                    `@retry(on_result=…)` gave up; has the last result
└── Undelivered                       an endpoint did not answer with success; has status and body
    ├── Redirected                    it answered with a redirect, which is not followed
    ├── AddressRefused                it is at an address that is not allowed; nothing was sent
    └── TokenMissing                  the environment has no token for it; nothing was sent

RetryLater, GiveUp, Skip              raised by handlers; plain Exceptions on purpose, so that an
                                      `except RedriveError` in a handler cannot swallow them
NoAnswer                              a GiveUp: it was sent, and it is not known if it was done
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from redrive.jobs.job import Failure, Job


class RedriveError(Exception):
    """The base class of the errors that Redrive raises."""

    def __reduce__(self) -> tuple[object, ...]:
        """Let it travel between processes with all it carries."""
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    kind: type[RedriveError], args: tuple[object, ...], carried: dict[str, object]
) -> RedriveError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(carried)
    return error


class UsageError(RedriveError, ValueError):
    """Something in the call is wrong; the message says what was expected and what to do."""


class BadPayload(UsageError):
    """A value cannot be kept as JSON; `field` is the path to it."""

    def __init__(self, message: str, *, field: str = "$") -> None:
        super().__init__(message)
        self.field = field


class KeyConflict(UsageError):
    """The idempotency key already belongs to a job with another payload or another handler.

    `job_id` is the id that the refused job would have had.
    """

    def __init__(self, message: str, *, job_id: str = "") -> None:
        super().__init__(message)
        self.job_id = job_id

    redrive_category = "permanent"  # else its name would make it transient, as a 409 is


class UnknownHandler(UsageError):
    """No handler of that name is registered in this program."""


class ProgramMissing(UsageError):
    """A program cannot be imported by its name; `broken` if it exists but raises."""

    def __init__(self, message: str, *, hint: str = "", broken: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.broken = broken


class ChildFailed(RedriveError):
    """A process for a handler could not be started; the handler did not run."""


class StoreError(RedriveError):
    """The store could not do it; nothing was half done."""


class StoreMissing(StoreError):
    """There is no store at that place yet."""


class StoreForeign(StoreError):
    """The file or database is not ours, or another version of Redrive created it."""


class StoreReadOnly(StoreError):
    """The store may be read but not written."""


class StoreFull(StoreError):
    """No space, quota or size limit. The store works again by itself when there is room."""


class StoreBusy(StoreError):
    """Another process holds the store's lock for too long."""


class StoreDamaged(StoreError):
    """Acknowledged bytes are not what they were; `offset` is where they begin."""

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class StoreLost(StoreError):
    """The file was replaced or cut while it was open, or reading or writing it failed."""


class JobNotFound(RedriveError, LookupError):
    """There is no job of that id, no group or no run of that number."""


class Refused(RedriveError):
    """The job is not in a state that allows this."""


class Kept(RedriveError):
    """The call failed and was stored for later; `job` is the stored job."""

    def __init__(self, message: str, *, job: Job) -> None:
        super().__init__(message)
        self.job = job


class AttemptTimeout(RedriveError, TimeoutError):
    """An attempt took longer than the `timeout` of its `@retry`, and was cancelled."""

    redrive_category = "timeout"
    redrive_why = "its timeout"


class ResultRejected(RedriveError):
    """No attempt returned what `on_result` of its `@retry` accepts; `result` is the last result."""

    redrive_category = "transient"
    redrive_why = "on_result rejected its result"

    def __init__(self, message: str, *, result: object = None) -> None:
        super().__init__(message)
        self.result = result


class ProviderPaused(RedriveError):
    """A provider was not called: it is in cooldown, or a person paused it."""


class AllProvidersFailed(RedriveError, ExceptionGroup[Exception]):
    """No provider of a `fallback` answered; `exceptions` are theirs, in the order of preference.

    Its category is that of the error that a retry helps most, and its hint is the time until the
    first provider may be called again; the policy decides about it as about any error.
    """

    failures: Mapping[str, Failure]
    """What each provider's error means, by its name."""
    was_asked: bool
    """False if no provider was asked, because all of them are paused."""
    missing: str = ""
    """The import errors of providers whose library this program lacks."""
    redrive_category: str
    redrive_why: str
    cooldown_time: float | None
    """Seconds until the first provider may be asked again, where that is known."""
    code: str
    """The providers and their categories in a word: `openai:rate_limit/claude:transient`."""

    def __str__(self) -> str:
        return self.message


class Undelivered(RedriveError):
    """An endpoint did not answer with success. The endpoint's secrets are masked in the answer."""

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.headers = headers or {}
        self.body = body


class Redirected(Undelivered):
    """An endpoint answered with a redirect. It is not followed: the token is not for other hosts."""

    redrive_category = "permanent"
    redrive_why = "a redirect, which is not followed"


class AddressRefused(Undelivered):
    """A host is at an address that is not allowed from here; nothing was sent."""

    redrive_category = "permanent"
    redrive_why = "an address that is not allowed"


class TokenMissing(Undelivered):
    """The environment has no token or secret for an endpoint; nothing was sent."""

    redrive_category = "auth"
    redrive_why = "no token in the environment"


class RetryLater(Exception):
    """Raised by a handler: retry after this many seconds (by the policy, if not given).

    It counts as a failed attempt, so a handler that always says "later" still ends.
    """

    def __init__(self, message: str = "", *, after: object = None) -> None:
        super().__init__(message or "the handler asked to be run later")
        self.after = after


class GiveUp(Exception):
    """Raised by a handler: retrying is pointless, make it a dead letter now."""


class NoAnswer(GiveUp):
    """The request was sent and no answer came. It may have been done, so it is never sent again.

    Your own handlers can raise it too, if they must not do something twice.
    """

    redrive_why = "sent, no answer"


class Skip(Exception):
    """Raised by a handler: there is nothing left to do; complete the job and store the reason."""
