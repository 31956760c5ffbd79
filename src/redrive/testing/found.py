"""Jobs that a test asked for, with a text for the message of an assertion that fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redrive.jobs.job import Job, State
from redrive.payloads import strict_json
from redrive.payloads.masked_jobs import seen

_LONGEST = 60  # characters of one argument that are shown
_SHOWN = 5  # stored jobs that are shown where none of them matched


class FoundJobs(list[Job]):
    """The jobs that matched, oldest first. Its repr names them, or those that did not match."""

    def __init__(self, jobs: Iterable[Job], wanted: str, others: Iterable[Job] = ()) -> None:
        super().__init__(jobs)
        self._wanted = wanted
        self._others = list(others)

    def one(self) -> Job:
        """Return the only job; AssertionError lists what there is instead."""
        if len(self) == 1:
            return self[0]
        msg = "\n".join([f"expected one {self._wanted}, found {len(self)}", *self.lines()])
        raise AssertionError(msg)

    def lines(self) -> list[str]:
        """Return one line for each job; without any, what was stored instead."""
        if self:
            return [f"  {line_of(job)}" for job in self]
        if not self._others:
            return ["  no jobs are stored"]
        more = len(self._others) - _SHOWN
        rest = [f"    and {more} more"] if more > 0 else []
        others = [f"    {line_of(job)}" for job in self._others[:_SHOWN]]
        return ["  stored jobs that do not match:", *others, *rest]

    def __repr__(self) -> str:
        lines = ", ".join(line.strip() for line in self.lines())
        return f"[{lines}]" if self else f"<no {self._wanted}; {lines.replace(':,', ':')}>"


def line_of(job: Job) -> str:
    """Return a job on one line: its call, its state, and its last error. Secrets are masked."""
    job = seen(job)
    made = f"{job.attempts} attempt{'s' * (job.attempts != 1)}"
    text = f"{call_of(job.handler, _arguments(job))} {job.state}"
    text += f" after {made}" if job.attempts else ""
    if job.state is State.DEAD:
        text += f" ({job.reason})"
    failure = job.failure
    return f"{text}: {failure.type}: {failure.message}" if failure else text


def call_of(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call as a program writes it: `mail.send(to='ada')`."""
    shown = [f"{key}={_short(repr(value))}" for key, value in arguments.items()]
    return f"{name}({', '.join(shown)})"


def _arguments(job: Job) -> Mapping[str, Any]:
    try:
        return strict_json.loads(job.payload)
    except ValueError:
        return {"payload": job.payload}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
