"""Export and import at the desk: jobs as lines of text, and rows of other programs as jobs.

    {"redrive":1,"payload":{…},"job":{…},"history":[…]}

A line has a job with its whole history and payload. What it says holds in any store: numbers of groups,
runs, actions and leases belong to one store and stay there. The payload is the text it was given as.
Lines come from files that people and programs have touched, so everything in them is checked.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

from redrive.desk import importing
from redrive.desk.importing import Function, Made, Result
from redrive.errors import RedriveError, StoreError, UsageError
from redrive.jobs import transitions
from redrive.jobs.clock import LATEST
from redrive.jobs.job import Job, Return, State
from redrive.jobs.logger import log
from redrive.jobs.records import evolve
from redrive.payloads import strict_json
from redrive.payloads.masked_jobs import failures_masked
from redrive.stores import refusals
from redrive.stores._codec import check_types, encode, head_to_dict, job_from_dict, record_to_dict

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.log import Log

VERSION = 1
_START = f'{{"redrive":{VERSION},"payload":'
_LONGEST: Final = 64 * 1024 * 1024
_MOST = 2**31  # every whole number of a record is a count; databases keep them up to this
importer_of = refusals.importer_of
_decode = json.JSONDecoder().raw_decode


class Transfer:
    """Writes jobs as lines, and stores the jobs of lines and of rows."""

    def __init__(self, backend: Backend, log: Log) -> None:
        self._backend = backend
        self._log = log

    def export_lines(self, jobs: Iterable[Job | str]) -> Iterator[str]:
        """Write jobs (or ids) as lines of JSON, each with its whole history and payload, as it is now.

        `export_lines(app.desk.jobs.ids(state="dead"))`. Nothing of the payloads is masked: that is
        recorded in the audit log, if the store can be written.
        """
        number = 0
        try:
            for target in jobs if isinstance(jobs, Iterable) else (jobs,):
                if not isinstance(target, Job | str):
                    raise UsageError(f"jobs must be a list of jobs; found {type(target).__name__}")
                job = self._backend.store.get(target if isinstance(target, str) else target.id)
                if job is not None:  # else it was purged meanwhile
                    yield line_of(job)
                    number += 1
        finally:
            if number:
                try:
                    self._log.record(replace(self._log.action("export", "jobs"), done=number))
                except StoreError as error:
                    log.warning("the export is not in the audit log: %s", error)

    def import_lines(
        self, lines: Iterable[bytes], *, dry_run: bool = False, source: str = ""
    ) -> Generator[Result]:
        """Store the jobs of exported lines, and yield what became of each, as it is asked for.

        A job whose id is stored stays as it is, so a repeat changes nothing. What is stored is
        recorded as one action, also when the import is broken off.
        """
        return self._import(read(lines), source, dry_run=dry_run, own=True)

    def import_rows(
        self,
        rows: Iterable[object],
        function: Function,
        *,
        name: str = "",
        dry_run: bool = False,
        source: str = "",
    ) -> Generator[Result]:
        """Store the jobs that a function makes of rows; see `redrive.desk.importing`.

        A job whose key is stored stays as it is. `name` is a prefix of the keys.
        """
        if not callable(function):
            raise UsageError(f"function must be a function; found {type(function).__name__}")
        settings, now = self._backend.settings, self._backend.store.now()
        limit = settings.payload_limit
        found = importing.made(rows, function, prefix=name, limit=limit, now=now)
        return self._import(found, source, dry_run=dry_run, own=False)

    def _import(
        self, found: Iterable[Made], source: str, *, dry_run: bool, own: bool
    ) -> Generator[Result]:
        store, added, left = self._backend.store, 0, 0
        try:
            for results in importing.stored(store, found, dry_run=dry_run, own=own):
                new = sum(result.fate == "added" for result in results)
                added, left = added + new, left + len(results) - new
                yield from results
        finally:
            if added and not dry_run:
                action = self._log.action("import", source)
                store.record(replace(action, done=added, skipped=left))


def line_of(job: Job) -> str:
    """Write a job, without the end of the line; one that runs is written as returned."""
    job = _at_rest(job)
    rest: dict[str, Any] = {"job": head_to_dict(job)}
    if job.history:
        rest["history"] = [record_to_dict(attempt) for attempt in job.history]
    line = f"{_START}{_embedded(job.payload)},{encode(rest)[1:]}"
    # What is no Unicode text (half a character in an old error) goes out as an escape of JSON.
    return line.encode("utf-8", "backslashreplace").decode()


def _at_rest(job: Job) -> Job:
    """Leave out what only one store can mean."""
    if job.state is State.RUNNING:
        job = transitions.settled(job, Return(), None, now=job.updated, group=None)
    return evolve(job, group=None, run=None, actions=(), holder=None, lease_end=None)


def _embedded(payload: str) -> str:
    """Return the payload as it stands, or as a string if it is no object."""
    try:
        return strict_json.compact(payload, max_bytes=_LONGEST)
    except RedriveError:
        return json.dumps(payload)


def read(lines: Iterable[bytes]) -> Iterator[Made]:
    """Read lines back: the number and the text of each, and its job or what is wrong with it."""
    for number, raw in enumerate(lines, 1):
        if not isinstance(raw, bytes):
            raise UsageError(
                f"lines must be bytes, as from open(file, 'rb'); found {type(raw).__name__}"
            )
        text = raw.decode("utf-8", "surrogateescape").strip()
        try:
            if text.startswith('{"row": '):  # of a quarantine file
                record = json.loads(text)["record"]
                text = record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
            if text:
                yield Made(number, text, job_of(text))
        except importing.BAD as error:
            yield Made(number, text, str(error) or type(error).__name__)


def job_of(line: str) -> Job:
    """Read a line back; the error says what is wrong with it."""
    try:
        parsed: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    value = cast("dict[str, Any]", parsed if isinstance(parsed, dict) else {})
    version = value.get("redrive")
    if type(version) is not int or not isinstance(value.get("job"), dict):
        raise ValueError("is not a line of `redrive export`; for other rows add --with")
    if version > VERSION:
        raise ValueError(f"has version {version}, this Redrive reads up to {VERSION}; upgrade it")
    head: dict[str, Any] = {**value["job"], "history": value.get("history", [])}
    strict_json.dumps(head, max_bytes=_LONGEST)
    check_types(Job, head)
    _check_numbers({**head, "origin": None})
    if line.startswith(_START):  # cut out as it was given; another program wrote other lines
        _, end = _decode(line, len(_START))
        payload = strict_json.compact(line[len(_START) : end], max_bytes=_LONGEST)
    else:
        payload = strict_json.dumps(value.get("payload"), max_bytes=_LONGEST)
    job = _at_rest(job_from_dict(head, payload))
    if job.original is not None:
        strict_json.compact(job.original, max_bytes=_LONGEST)
    if any(attempt.ordinal >= following.ordinal for attempt, following in pairwise(job.history)):
        raise ValueError("has a history whose ordinals do not increase")
    return failures_masked(importing.checked(job))


def _check_numbers(value: object, name: str = "job") -> None:
    """Refuse numbers that no record of ours has: counts end at 2**31, times with the year 9999."""
    match value:
        case dict():
            for key, inner in cast("dict[str, object]", value).items():
                _check_numbers(inner, f"{name}.{key}")
        case list():
            for inner in cast("list[object]", value):
                _check_numbers(inner, name)
        case float() if abs(value) > LATEST:
            raise ValueError(f"{name} cannot be {value!r}")
        case int() if not 0 <= value < _MOST:
            raise ValueError(f"{name} cannot be {value!r}")
        case _:
            pass
