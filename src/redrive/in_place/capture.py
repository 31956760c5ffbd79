"""Keep failures of ordinary code as jobs: the `with` block of `Redrive.capture`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from redrive.errors import StoreError, UsageError
from redrive.jobs.job import Job
from redrive.jobs.logger import log

if TYPE_CHECKING:
    from redrive.submission import Options, Submitter


class Capture:
    """Stores an exception of ordinary code as a job; see `Redrive.capture`. `job` is that job."""

    def __init__(
        self, submitter: Submitter, name: str, payload: str, options: Options, *, reraise: bool
    ) -> None:
        self.job: Job | None = None
        self._submitter = submitter
        self._name = name
        self._payload = payload
        self._options = options
        self._reraise = reraise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        try:
            self.job = self._submitter.capture(self._name, self._payload, error, self._options)
        except (StoreError, UsageError) as failed:
            log.exception("could not keep the failure of %s", self._name)
            error.add_note(f"Redrive could not keep this failure: {failed}")
            return False
        return not self._reraise
