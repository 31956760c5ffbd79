"""Looking for what is wrong, or will be: each finding comes with what to do about it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

import redrive
from redrive.app import Redrive
from redrive.cli._command import command
from redrive.cli._errors import FAILED
from redrive.cli._face import Face
from redrive.cli._load import find_program, not_loaded
from redrive.cli.output import Cell, Facts, Line, Part, View
from redrive.config import Config
from redrive.desk.desk import Desk
from redrive.errors import (
    RedriveError,
    StoreDamaged,
    StoreForeign,
    StoreMissing,
    StoreOutdated,
    UsageError,
)
from redrive.jobs.clock import SystemClock
from redrive.jobs.durations import words
from redrive.jobs.job import State

SKEW, BAD_SKEW = 2.0, 60.0
"""Seconds by which the store's clock may differ from ours."""
ROOM, BAD_ROOM = 1_000_000_000, 100_000_000
"""Bytes that should be free beside a store."""
GROWTH = 10
"""Deaths within ten minutes that are worth a look."""

Level = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and what to do."""

    what: str
    level: Level
    said: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """Return the finding with its remedy, as text."""
        return f"{self.said} → {self.remedy}" if self.remedy else self.said


@command("doctor", "redrive doctor", "redrive doctor --json", "redrive doctor --store jobs.db")
@click.pass_obj
def doctor(face: Face) -> None:
    """Look for what is wrong with settings, store and workers; exit 1 if something is.

    Everything is looked at, nothing is changed. `redrive verify` reads every byte of the store.
    """
    found = list(_examine(face))
    bad = sum(one.level == "bad" for one in found)
    warned = sum(one.level == "warn" for one in found)
    data = {
        "ok": not bad,
        "findings": [
            {"what": f.what, "level": f.level, "said": f.said, "remedy": f.remedy or None}
            for f in found
        ],
    }
    said = f"{bad} wrong, {warned} worth a look, {len(found) - bad - warned} in order"
    found.sort(key=lambda one: ("bad", "warn", "ok").index(one.level))
    pairs: list[tuple[str, Cell]] = [(f"{one.level} {one.what}", one.words) for one in found]
    parts: list[Part] = [
        Line(said, "bad" if bad else "warn" if warned else "good"),
        Facts(pairs),  # no table: on a narrow terminal that would cut the remedies
    ]
    face.show(View(data, parts), then="redrive status" if not bad else "")
    if bad:
        raise click.exceptions.Exit(FAILED)


def _examine(face: Face) -> Iterator[Finding]:
    yield Finding("version", "ok", f"redrive {redrive.__version__}")
    try:
        yield from _settings(face)
        with face.reading() as desk:
            yield Finding("store", "ok", f"{desk.store.url} answers")
            for look in (_durability, _files, _workers, _lanes, _pauses, _growth):
                yield from look(desk)
            yield from _clock(desk, (face.clock or SystemClock()).now())
    except UsageError as error:
        yield Finding("settings", "bad", str(error), "mend the setting that is named")
    except (RedriveError, OSError) as error:
        yield Finding("store", "bad", str(error), _remedy(error))


def _remedy(error: Exception) -> str:
    match error:
        case StoreMissing():
            return "redrive init, or name another with --store"
        case StoreForeign():
            return "update this program, if a newer Redrive wrote it"
        case StoreOutdated():
            return "stop the old workers, then redrive migrate"
        case StoreDamaged():
            return "redrive verify"
        case _:
            return "is the server or the disk there, and may you use it? redrive config show"


def _settings(face: Face) -> Iterator[Finding]:
    config = face.config
    yield Finding("settings", "ok", f"the store is named by: {config.source}")
    if config.unknown:
        said = f"{config.file} has keys that mean nothing: {', '.join(config.unknown)}"
        yield Finding("settings", "warn", said, f"take them out; known: {', '.join(_keys())}")
    program = None
    if above := not_loaded(config):
        yield Finding("app", "warn", *above)
    if config.app is not None:
        try:
            program = find_program(config.app)
        except click.ClickException as error:
            remedy = f"mend {config.app}, or app in {config.file}"
            yield Finding("app", "bad", error.message, remedy)
        else:
            handlers = len(program.submitter.registry)
            yield Finding("app", "ok", f"{config.app} has {handlers} handlers")
    yield from _alerts(config, program)


def _alerts(config: Config, program: Redrive | None) -> Iterator[Finding]:
    """Look for channels that could not send, of the program or else of the file."""
    from redrive.alerts import Alerts  # noqa: PLC0415 - few have any

    found = program.alerts if program else None
    if found is None and config.alerts:
        found = Alerts()
    for name, variable in found.unset() if isinstance(found, Alerts) else ():
        said = f"channel {name} cannot send: {variable} is not set here"
        yield Finding("alerts", "warn", said, "set it where workers run; redrive alerts test")


def _keys() -> tuple[str, ...]:
    from redrive.config import KEYS  # noqa: PLC0415

    return KEYS


def _durability(desk: Desk) -> Iterator[Finding]:
    kept = desk.store.durability
    if kept == "full":
        yield Finding("durability", "ok", "full: what is acknowledged survives a power cut")
    else:
        remedy = "put the store on a disk that syncs; PostgreSQL: synchronous_commit = on"
        yield Finding("durability", "warn", f"{kept}: a power cut may lose work", remedy)


def _files(desk: Desk) -> Iterator[Finding]:
    """Look at the mode of a store's file and the room on its disk."""
    scheme, _, rest = desk.store.url.partition(":")
    place = Path(rest)
    if scheme not in {"sqlite", "jsonl"} or not place.exists():
        return
    found = place.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        said = f"{place} belongs to another user (uid {found.st_uid}, yours is {os.geteuid()})"
        yield Finding("permissions", "warn", said, "run commands and workers as that user")
    if mode & 0o077:
        said = f"{place} has mode {mode:o}: others may read payloads"
        yield Finding("permissions", "warn", said, f"chmod 600 {place}")
    else:
        yield Finding("permissions", "ok", f"mode {mode:o}: for its owner only")
    free = shutil.disk_usage(place.parent).free
    level: Level = "bad" if free < BAD_ROOM else "warn" if free < ROOM else "ok"
    remedy = "" if level == "ok" else "make room, or `redrive cleanup`"
    yield Finding("space", level, f"{free / 1e9:,.1f} GB free beside the store", remedy)


def _clock(desk: Desk, now: float) -> Iterator[Finding]:
    skew = abs(desk.store.now() - now)
    level: Level = "bad" if skew > BAD_SKEW else "warn" if skew > SKEW else "ok"
    remedy = "" if level == "ok" else "set the clock of this host or of the database (NTP)"
    yield Finding("clock", level, f"the store's clock is {skew:.1f} s from ours", remedy)


def _workers(desk: Desk) -> Iterator[Finding]:
    workers = desk.lanes.workers()
    waiting = sum(c.jobs for c in desk.jobs.counts() if c.state is State.PENDING)
    last = desk.lanes.last_pass()
    if not workers and last is not None:
        ago = words(max(0.0, desk.store.now() - last))
        yield Finding("workers", "ok", f"none is alive; last pass {ago} ago")
        return
    if not workers:
        level: Level = "bad" if waiting else "warn"
        said = f"no worker has shown itself, {waiting:,} jobs are pending"
        yield Finding("workers", level, said, "redrive work MODULE:APP")
        return
    versions = sorted({worker.version for worker in workers})
    hosts = sorted({worker.host for worker in workers})
    said = f"{len(workers)} on {', '.join(hosts)}, version {', '.join(versions)}"
    if versions == [redrive.__version__]:
        yield Finding("workers", "ok", said)
    else:
        remedy = f"bring all to one version; this command is {redrive.__version__}"
        yield Finding("workers", "warn", said, remedy)


def _lanes(desk: Desk) -> Iterator[Finding]:
    lanes, because = desk.lanes.unserved(), desk.lanes.unserved_because()
    for why in because.values():
        remedy = "install it where the worker runs, and restart the worker"
        yield Finding("handlers", "bad", why, remedy)
    if lanes:
        remedy = "start a worker whose program has their handlers"
        yield Finding("lanes", "bad", f"due, and nobody serves them: {', '.join(lanes)}", remedy)
    else:
        yield Finding("lanes", "ok", "every lane with due jobs is served")


def _pauses(desk: Desk) -> Iterator[Finding]:
    for pause in desk.lanes.pauses():
        left = pause.seconds_left
        until = "until resumed" if left is None else f"for {words(left)} more"
        remedy = f"redrive resume {pause.lane}"
        yield Finding("pause", "warn", f"{pause.lane} is paused {until}", remedy)


def _growth(desk: Desk) -> Iterator[Finding]:
    minutes = desk.lanes.deaths(60, 60)
    soon, hour = sum(minutes[-10:]), sum(minutes)
    said = f"{soon:,} died in the last 10 minutes, {hour:,} in the last hour"
    grows = soon >= GROWTH
    yield Finding("growth", "warn" if grows else "ok", said, "redrive groups" if grows else "")
