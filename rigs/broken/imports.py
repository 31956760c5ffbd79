"""Imports that are broken on purpose, each by one name. A rig's child calls one before it imports."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from redrive.desk.transfer import importing
from redrive.desk.transfer.mapping import FieldMapping
from redrive.jobs.ids import new_id
from redrive.jobs.records import evolve
from redrive.stores.contract import Store


def no_key() -> None:
    """Give each job an id of chance and no key: a second import adds all again."""
    job = FieldMapping.job

    def keyless(self: FieldMapping, *given: Any) -> Any:
        return evolve(job(self, *given), id=new_id(), key=None)

    FieldMapping.job = keyless  # type: ignore[method-assign]


def resumes_by_count() -> None:
    """Skip as many records as there are jobs: bad ones among them are never put aside."""
    stored = importing.stored

    def resumed(store: Store, source: Any, *given: Any, **options: Any) -> Iterator[Any]:
        done = sum(count.jobs for count in store.counts())
        return stored(store, islice(source, done, None), *given, **options)

    importing.stored = resumed


BROKEN = {one.__name__: one for one in (no_key, resumes_by_count)}
