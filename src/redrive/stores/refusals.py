"""The errors that several stores raise in the same words."""

from __future__ import annotations

from redrive.errors import JobNotFound, StoreError, StoreForeign, StoreReadOnly


def not_writable(place: object) -> StoreReadOnly:
    """Return the error for a change of a store that was opened for reading."""
    return StoreReadOnly(f"{place} was opened for reading only; open it for writing to change it")


def closed(place: object) -> StoreError:
    """Return the error for the use of a store after `close`."""
    return StoreError(f"{place} was closed; open it again")


def no_job(job_id: str) -> JobNotFound:
    """Return the error for an id that no job has."""
    return JobNotFound(f"no job {job_id}; it may have been purged")


def no_group(number: int) -> JobNotFound:
    """Return the error for a number that no group has."""
    return JobNotFound(f"no group G{number}; `redrive groups` lists the groups")


def importer_of(start: bytes) -> str:
    """Return the function that imports a file which begins so, or what to write for one."""
    for name, mark in _MARKS.items():
        if mark in start:
            return f"redrive.contrib.formats:{name}"
    return "MODULE:FUNCTION"


_MARKS = {
    "hooks": b'"attemptsMade"',
    "articles": b'"article_data"',
    "sync": b'"originalData"',
    "events": b'"event_id"',
}


def check_version(url: str, version: int, known: int) -> None:
    """Raise StoreForeign if another version of Redrive created a store."""
    if version != known:
        raise StoreForeign(
            f"{url} was created by another version of Redrive: it has schema {version}, this program "
            f"reads schema {known}. Use that version, or name another store with --store"
        )
