"""The errors that several stores raise in the same words."""

from __future__ import annotations

from redrive.errors import JobNotFound, StoreError, StoreForeign, StoreOutdated, StoreReadOnly


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


def check_newest(url: str, version: int, known: int) -> None:
    """Raise StoreForeign if a newer Redrive wrote a store."""
    if version > known:
        schemas = f"schema {version}, this one knows {known}"
        raise StoreForeign(f"{url} was written by a newer Redrive ({schemas}); update this program")


def check_version(url: str, version: int, needed: int) -> None:
    """Raise StoreForeign if a newer Redrive wrote a store, StoreOutdated if an older one did."""
    check_newest(url, version, needed)
    if version < needed:
        raise StoreOutdated(
            f"{url} has schema {version}; this Redrive needs {needed}. The store is older than this "
            "program: stop the old workers and upgrade the store with "
            f"`redrive migrate --store '{url}'` (about a minute for 1,000,000 jobs); it can be "
            "interrupted and run again"
        )
