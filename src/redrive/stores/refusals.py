"""The errors that several stores raise in the same words."""

from __future__ import annotations

from redrive.errors import JobNotFound, StoreError, StoreForeign, StoreOutdated, StoreReadOnly


def outdated(url: str, version: int, needed: int) -> StoreOutdated:
    """Return the error for a store of an older schema."""
    return StoreOutdated(
        f"{url} has schema {version}; this Redrive needs {needed}. Stop the old workers and run "
        f"`redrive migrate --store '{url}'` (about a minute for 1,000,000 jobs); it can be "
        "interrupted and run again"
    )


def newer(place: object, version: int, known: int) -> StoreForeign:
    """Return the error for a store of a newer schema."""
    return StoreForeign(
        f"{place} was written by a newer Redrive (schema {version}, this one knows {known}); "
        "update this program"
    )


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
