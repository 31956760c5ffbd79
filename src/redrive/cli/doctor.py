"""Checks of settings, store and workers, each with what to do; and the settings in force."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import click

import redrive
from redrive.app import Redrive
from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli._errors import FAILED
from redrive.cli._load import find_program, not_loaded
from redrive.cli.output import Facts, Line, Part, Table, Tone, View, fact, fields, plural
from redrive.config import KEYS, Config, find
from redrive.desk.desk import Desk
from redrive.errors import (
    RedriveError,
    StoreDamaged,
    StoreForeign,
    StoreMissing,
    UsageError,
)
from redrive.jobs.clock import SystemClock
from redrive.jobs.durations import words
from redrive.jobs.job import State
from redrive.payloads.masking import MASK, mask_json, mask_text
from redrive.payloads.secret_names import is_secret_name
from redrive.submission import who

SKEW, BAD_SKEW = 2.0, 60.0  # seconds by which the store's clock may differ from ours
ROOM, BAD_ROOM = 1_000_000_000, 100_000_000  # bytes that should be free on the store's disk
LATE_EVENTS = 600.0  # seconds for which an event may wait for its listener

Level = Literal["ok", "warn", "bad"]
Setting = tuple[str, str, str]
"""A name, a value, and where it is set."""

_SETTINGS = fields("name=setting:id value:prose source=from:prose")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, the result, and what to do."""

    what: str
    level: Level
    message: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """Return the finding with its remedy."""
        return f"{self.message} → {self.remedy}" if self.remedy else self.message


@command("doctor", "redrive doctor", "redrive doctor --json", "redrive doctor --store jobs.db")
@click.pass_obj
def doctor(cli: Cli) -> None:
    """Check settings, store and workers for problems; exit 1 if there is one.

    Below: the settings in force and where each comes from, secrets masked. Nothing is changed.
    `redrive verify` reads every byte of the store.
    """
    findings = list(_examine(cli))
    settings: list[dict[str, object]] = []
    with suppress(UsageError):  # it is a finding
        names = ("name", "value", "source")
        settings = [dict(zip(names, row, strict=True)) for row in _in_force(cli.config)]
    levels = Counter(finding.level for finding in findings)
    data = {
        "ok": not levels["bad"],
        "findings": [
            {"what": f.what, "level": f.level, "message": f.message, "remedy": f.remedy or None}
            for f in findings
        ],
        "settings": settings,
    }
    text = f"{levels['bad']} failed, {plural(levels['warn'], 'warning')}, {levels['ok']} OK"
    findings.sort(key=lambda finding: ("bad", "warn", "ok").index(finding.level))
    tone: Tone = "bad" if levels["bad"] else "warn" if levels["warn"] else "good"
    facts = Facts([fact(f"{f.level} {f.what}", f.text) for f in findings])
    parts: list[Part] = [Line(text, tone), facts, Table(_SETTINGS, settings, "Settings", "setting")]
    cli.show(View(data, parts), then="" if levels["bad"] else "redrive status")
    if levels["bad"]:
        raise click.exceptions.Exit(FAILED)


def _examine(cli: Cli) -> Iterator[Finding]:
    yield Finding("version", "ok", f"redrive {redrive.__version__}")
    try:
        yield from _settings(cli)
        with cli.reading() as desk:
            yield Finding("store", "ok", f"{desk.store.url} answers")
            for look in (_durability, _files, _workers, _lanes, _listeners):
                yield from look(desk)
            yield from _clock(desk, (cli.clock or SystemClock()).now())
    except UsageError as error:
        yield Finding("settings", "bad", str(error), "correct this setting")
    except (RedriveError, OSError) as error:
        yield Finding("store", "bad", str(error), _remedy(error))


def _remedy(error: Exception) -> str:
    match error:
        case StoreMissing():
            return "redrive init, or name another with --store"
        case StoreForeign():
            return "name another with --store"
        case StoreDamaged():
            return "redrive verify"
        case _:
            return "check that the server or disk is reachable and that you have access"


def _settings(cli: Cli) -> Iterator[Finding]:
    config = cli.config
    yield Finding("settings", "ok", f"the store is set by: {config.source}")
    if config.unknown:
        message = f"{config.file} has unknown keys: {', '.join(config.unknown)}"
        yield Finding("settings", "warn", message, f"remove them; known: {', '.join(KEYS)}")
    program = None
    if above := not_loaded(config):
        yield Finding("app", "warn", *above)
    if config.app is not None:
        try:
            program = find_program(config.app)
        except click.ClickException as error:
            remedy = f"correct {config.app}, or app in {config.file}"
            yield Finding("app", "bad", error.message, remedy)
        else:
            handlers = plural(len(program.submitter.registry), "handler")
            yield Finding("app", "ok", f"{config.app} has {handlers}")
    yield from _alerts(config, program)


def _alerts(config: Config, program: Redrive | None) -> Iterator[Finding]:
    """Check that the channels of the program, or else of the file, can send."""
    from redrive.alerts import Alerts  # noqa: PLC0415 - few have any

    alerts = program.alerts if program else None
    if alerts is None and config.alerts:
        alerts = Alerts()
    for name, variable in alerts.unset() if isinstance(alerts, Alerts) else ():
        message = f"channel {name} cannot send: {variable} is not set here"
        yield Finding("alerts", "warn", message, "set it where workers run; redrive alerts test")


def _durability(desk: Desk) -> Iterator[Finding]:
    kept = desk.store.durability
    if kept == "full":
        yield Finding("durability", "ok", "full: acknowledged work survives a power cut")
    else:
        remedy = "put the store on a disk that honours fsync; PostgreSQL: synchronous_commit = on"
        yield Finding(
            "durability", "warn", f"{kept}: a power cut may lose acknowledged work", remedy
        )


def _files(desk: Desk) -> Iterator[Finding]:
    """Check the mode of the store's file and the space on its disk."""
    scheme, _, rest = desk.store.url.partition(":")
    place = Path(rest)
    if scheme not in {"sqlite", "jsonl"} or not place.exists():
        return
    status = place.stat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        message = f"{place} belongs to another user (uid {status.st_uid}, yours is {os.geteuid()})"
        yield Finding("permissions", "warn", message, "run commands and workers as that user")
    if mode & 0o077:
        message = f"{place} has mode {mode:o}: others may read payloads"
        yield Finding("permissions", "warn", message, f"chmod 600 {place}")
    else:
        yield Finding("permissions", "ok", f"mode {mode:o}: for its owner only")
    free = shutil.disk_usage(place.parent).free
    level: Level = "bad" if free < BAD_ROOM else "warn" if free < ROOM else "ok"
    remedy = "" if level == "ok" else "free some space, or run redrive purge"
    yield Finding("space", level, f"{free / 1e9:,.1f} GB free on the store's disk", remedy)


def _clock(desk: Desk, now: float) -> Iterator[Finding]:
    skew = abs(desk.store.now() - now)
    level: Level = "bad" if skew > BAD_SKEW else "warn" if skew > SKEW else "ok"
    remedy = "" if level == "ok" else "set the clock of this host or of the database (NTP)"
    yield Finding(
        "clock", level, f"the store's clock and this host's differ by {skew:.1f} s", remedy
    )


def _workers(desk: Desk) -> Iterator[Finding]:
    workers = desk.lanes.workers()
    waiting = sum(c.jobs for c in desk.jobs.counts() if c.state is State.PENDING)
    last = desk.lanes.last_pass()
    if not workers and last is not None:
        ago = words(max(0.0, desk.store.now() - last))
        yield Finding("workers", "ok", f"none is running; last pass {ago} ago")
        return
    if not workers:
        level: Level = "bad" if waiting else "warn"
        message = f"no worker is running; {plural(waiting, 'job')} pending"
        yield Finding("workers", level, message, "redrive work MODULE:APP")
        return
    versions = sorted({worker.version for worker in workers})
    hosts = sorted({worker.host for worker in workers})
    message = f"{len(workers)} on {', '.join(hosts)}, version {', '.join(versions)}"
    if versions == [redrive.__version__]:
        yield Finding("workers", "ok", message)
    else:
        remedy = f"update all to one version; this command has {redrive.__version__}"
        yield Finding("workers", "warn", message, remedy)


def _lanes(desk: Desk) -> Iterator[Finding]:
    lanes, because = desk.lanes.unserved(), desk.lanes.unserved_because()
    for why in because.values():
        remedy = "install it where the worker runs, and restart the worker"
        yield Finding("handlers", "bad", why, remedy)
    if lanes:
        remedy = "start a worker whose program has the handlers"
        yield Finding(
            "lanes", "bad", f"jobs are due and no worker serves: {', '.join(lanes)}", remedy
        )
    else:
        yield Finding("lanes", "ok", "every lane with due jobs is served")


def _listeners(desk: Desk) -> Iterator[Finding]:
    now = desk.store.now()
    for one in desk.lanes.listeners():
        if one.oldest is not None and now - one.oldest > LATE_EVENTS:
            waits = f"{plural(one.waiting, 'event')} wait, the oldest for {words(now - one.oldest)}"
            remedy = (
                "run a worker whose program has it, see why it fails in the worker's log, "
                f"or remove it: app.desk.lanes.remove_listener({one.name!r})"
            )
            yield Finding("listener", "warn", f"{one.name}: {waits}", remedy)


def _in_force(active: Config) -> Iterator[Setting]:
    """Return the settings and where each is set, also of stores that are not used."""
    yield "store", mask_text(active.store), active.source
    filed = find(environ={})
    for source, value in (
        ("REDRIVE_STORE", os.environ.get("REDRIVE_STORE")),
        (filed.source, filed.store),
    ):
        if value and source not in {active.source, "default"}:
            yield "store (not used)", mask_text(value), source
    file = str(active.file)
    if active.app is not None:
        yield "app", active.app, file
    if active.app_above is not None:
        yield "app (not loaded from a directory above)", active.app_above, file
    yield "actor", who(), "the user who is logged in"
    yield from _nested("endpoints", active.endpoints, file)
    yield from _nested("alerts", active.alerts, file)
    if active.secret_names:
        yield "mask.names", ", ".join(active.secret_names), file


def _nested(name: str, table: Mapping[str, object], source: str) -> Iterator[Setting]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _nested(f"{name}.{key}", cast("Mapping[str, object]", value), source)
        else:
            yield f"{name}.{key}", _text(key, value), source


def _text(key: str, value: object) -> str:
    """Return a value as text, masked; of an environment variable also if it is set."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if key.endswith("_env"):
        names = re.findall(r"\w+", text)
        is_set = {name: "set" if os.environ.get(name) else "not set" for name in names}
        return ", ".join(f"{name} ({is_set[name]})" for name in names)
    return MASK if is_secret_name(key) else mask_json(text)
