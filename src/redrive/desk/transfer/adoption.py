"""A file of another program where a store is to be: taken in once, and kept beside it as `.legacy`.

A script that used to keep its failed work in a file of its own changes to Redrive at the same path,
and goes on with what was in it. The store appears by one rename, whole: a program that is killed in
the middle finds its file as it was, and the next one begins again.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from redrive.errors import StoreForeign
from redrive.jobs.clock import Clock
from redrive.jobs.job import Action, State
from redrive.jobs.logger import log
from redrive.stores import open_store
from redrive.stores.contract import Store

if TYPE_CHECKING:
    from redrive.desk.transfer.formats.fields import Fields

_LOOKED_AT = 20  # records at the beginning of a file, one of which must be known
_CHUNK = 1 << 18
_OURS = b'{"redrive":"jsonl"'


def opened(
    url: str | os.PathLike[str] | Store,
    *,
    create: bool,
    read_only: bool,
    clock: Clock,
    allow_network: bool,
    actor: str,
) -> Store:
    """Open a store; a file of another program at its place becomes one, if we may make one there."""
    again = partial(
        open_store,
        url,
        create=create,
        read_only=read_only,
        clock=clock,
        allow_network=allow_network,
    )
    try:
        return again()
    except StoreForeign:
        scheme, _, rest = str(url).partition(":")
        if not create or read_only or scheme != "jsonl" or not adopt(Path(rest), clock, actor):
            raise
    return again()


def adopt(path: Path, clock: Clock, actor: str) -> bool:
    """Make a store of a file of another program; False if no record in it is known."""
    from redrive.stores import _files  # noqa: PLC0415 - once in the life of a file

    place = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - must not follow links
    lock = _files.FileLock(place.with_name(f"{place.name}.lock"))
    try:
        with lock.held():
            with place.open("rb") as file:
                if file.read(len(_OURS)) == _OURS:
                    return True  # another process was faster
                name = _format_of(file)
            if name is not None:
                _replace(place, name, clock, actor)
    finally:
        lock.close()
    return name is not None


def _format_of(file: IO[bytes]) -> str | None:
    """Name the format of the first record that is known; ours are none: they are for `import`."""
    from redrive.desk.transfer.formats.detect import format_of  # noqa: PLC0415
    from redrive.desk.transfer.formats.pieces import pieces  # noqa: PLC0415
    from redrive.desk.transfer.rules import parsed  # noqa: PLC0415

    file.seek(0)
    chunks = iter(partial(file.read, _CHUNK), b"")
    for piece in islice(pieces(chunks), _LOOKED_AT):
        value = parsed(piece.raw.decode(errors="replace"))
        format_ = format_of(cast("Fields", value)) if isinstance(value, dict) else None
        if format_ is not None:
            return format_.name
    return None


def _replace(place: Path, name: str, clock: Clock, actor: str) -> None:
    from redrive.stores import _files  # noqa: PLC0415
    from redrive.stores.jsonl import JsonlStore  # noqa: PLC0415

    aside = _kept_as(place)
    part = place.with_name(f"{place.name}.adopting")
    part.unlink(missing_ok=True)
    store = JsonlStore(part, clock=clock, allow_network=True)  # the place itself was judged before
    try:
        fates, waiting = _take_in(store, aside)
        action = Action(actor=actor, verb="import", target=str(aside), reason=f"a file of {name}")
        left = fates["bad"] + fates["ignored"]
        store.record(replace(action, done=fates["added"], skipped=left))
    finally:
        store.close()
    part.replace(place)
    _files.sync_directory(place.parent)
    part.with_name(f"{part.name}.lock").unlink(missing_ok=True)
    log.warning(
        "%s was a file of %s and is a store now: %d jobs imported (waiting: %s), %d lines of the "
        "same jobs, %d log lines ignored, %d records unreadable; the file is kept as %s; times "
        "without a zone were read as local time",
        place,
        name,
        fates["added"],
        ", ".join(f"{number} of {handler}" for handler, number in waiting.items()) or "none",
        fates["folded"],
        fates["ignored"],
        fates["bad"],
        aside,
    )


def _kept_as(place: Path) -> Path:
    """Link the file under a second name, under which it stays; no other file is replaced."""
    for number in count():
        aside = place.with_name(f"{place.name}.legacy{f'-{number}' if number else ''}")
        try:
            aside.hardlink_to(place)
        except FileExistsError:
            if not aside.samefile(place):
                continue
        return aside
    raise AssertionError  # count() has no end


def _take_in(store: Store, file: Path) -> tuple[Counter[str], Counter[str]]:
    """Count what became of the records, and the handlers of the jobs that wait."""
    from redrive.desk.transfer import importing  # noqa: PLC0415
    from redrive.desk.transfer.formats.quarantine import Quarantine  # noqa: PLC0415
    from redrive.desk.transfer.formats.record import TransferOptions  # noqa: PLC0415
    from redrive.desk.transfer.formats.times import local  # noqa: PLC0415

    asked = TransferOptions(zone=local, now=store.now())
    fates: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    with file.open("rb") as source, Quarantine(file.with_name(f"{file.name}.bad")) as rest:
        for batch in importing.stored(store, source, asked):
            for line in batch:
                fates[line.fate] += 1
                waiting[line.handler] += line.fate == "added" and line.state is State.PENDING
                if line.fate == "bad":
                    rest.put(line.number, line.offset, line.reason, line.raw)
    return fates, +waiting
