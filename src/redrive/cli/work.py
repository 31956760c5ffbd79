"""Running jobs: a worker with its processes, or one pass for cron and scripts."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import FAILED, PARTLY
from redrive.cli._load import load_app, program_name
from redrive.cli._logging import log_as_json, warn_on_stderr
from redrive.cli.output import Facts, Field, View
from redrive.jobs.durations import seconds as in_seconds
from redrive.worker.health import Heartbeat, end_orphaned_group
from redrive.worker.supervisor import (
    HURRIED,
    LOST,
    REPLACE,
    WATCHDOG,
    Supervisor,
    heeding,
)

if TYPE_CHECKING:
    from redrive.events import Event
    from redrive.worker.worker import Worker

_MOST_NAMED = 10  # errors that a pass names


@command(
    "work",
    "redrive work shop.jobs:app",
    "redrive work shop.jobs:app --processes 4 --concurrency 16",
    "redrive work shop.jobs:app --once",
    "redrive work --once -v          # the app named in redrive.toml",
)
@click.argument("app_name", metavar="[MODULE:APP]", required=False)
@option("--once", "Run the jobs that are due, each once, and exit.")
@option("--ignore-backoff", "With --once: run every pending job, also of paused lanes.")
@option("--limit N", "With --once: at most so many jobs.", click.IntRange(0), default=0)
@option(
    "--processes N",
    "Worker processes under a supervisor; 0 works in this process.",
    click.IntRange(0),
    default=1,
)
@option(
    "--concurrency M",
    "Handlers that each process runs at the same time.",
    click.IntRange(1),
    default=8,
)
@option("--batch N", "Jobs claimed at once, at most.", click.IntRange(1), default=100)
@option("--grace TIME", "How long running jobs may take to finish.", default="30s")
@option(
    "--log-format",
    "The log on standard error; json is one document a line, for Cloud Logging.",
    ["text", "json"],
    default="text",
)
@option(
    "--watchdog TIME",
    "Replace a worker process that sends no heartbeat for this long; 0s: never.",
    default=f"{WATCHDOG:g}s",
)
@option("--parent", kind=int, default=0, hidden=True)
@option("--ready", kind=int, default=-1, hidden=True)
@option("--crew", kind=int, default=1, hidden=True)
@option("--existing", hidden=True)
@option("--seize", multiple=True, hidden=True)
@option(
    "-v --verbose", "With --once: log what happens on standard error (the default on a terminal)."
)
@click.pass_obj
def work(cli: Cli, /, app_name: str | None, *, once: bool, limit: int, **options: Any) -> None:
    """Run jobs until SIGTERM or Ctrl-C (running jobs may finish), or with --once those due now.

    With --once the exit code is 6 if some jobs failed (they are kept and retried), and 1 if a handler
    lacks a library (its jobs wait and use up no attempts). With --processes 0 it is 74 if the store is
    gone, and 75 if the process should be started again.
    """
    name = program_name(cli, app_name)
    if not name:
        msg = 'name your program as MODULE:APP, or in redrive.toml: app = "shop.jobs:app"'
        raise click.UsageError(msg)
    if not once and (options["ignore_backoff"] or limit):
        raise click.UsageError("--ignore-backoff and --limit belong to --once")
    # A service logs what fails; a pass started by cron is silent if nothing fails.
    is_loud = options["verbose"] or not once or sys.stderr.isatty()
    level = logging.INFO if is_loud else logging.WARNING
    grace = in_seconds(options["grace"], name="--grace")
    silence = in_seconds(options["watchdog"], name="--watchdog")
    if options["log_format"] == "json":
        log_as_json(level)
    if once:
        _pass(cli, name, level, ignore_backoff=options["ignore_backoff"], limit=limit)
    elif processes := options["processes"]:
        warn_on_stderr(level, times=True)
        command = _command(name, options, level)
        crewed = Supervisor(command, processes, grace, watchdog=silence)
        raise click.exceptions.Exit(crewed.run())
    else:
        raise click.exceptions.Exit(_work_here(cli, name, level, grace, options))


def _command(name: str, options: Mapping[str, Any], level: int) -> list[str]:
    """Return the command that runs one worker of ours."""
    crew = ["--crew", str(options["processes"]), "--parent", str(os.getpid())]
    command = [sys.executable, "-m", "redrive", "work", name, "--processes", "0", *crew]
    for one in ("concurrency", "batch", "grace", "log_format"):
        command += [f"--{one.replace('_', '-')}", str(options[one])]
    return [*command, "-v"] if level == logging.INFO else command


def _work_here(cli: Cli, name: str, level: int, grace: float, options: Mapping[str, Any]) -> int:
    """Work in this process until a signal stops it; return the exit code."""
    parent, sizes = options["parent"], {one: options[one] for one in ("concurrency", "batch")}
    with load_app(cli, name, level=level, times=True, existing=options["existing"]) as app:
        _refuse_processes(app.store.url, options["crew"])
        worker = app.worker(**sizes, grace=grace, program=name, parent=parent, replaced=True)
        worker.dead_holders = list(options["seize"])
        code = _until_signal(worker, options["ready"], parent)
    end_orphaned_group(parent)
    return code


def _refuse_processes(url: str, processes: int) -> None:
    if processes > 1 and url.startswith("jsonl:"):
        raise click.UsageError(
            f"a JSON Lines store serves one worker process, not {processes}: "
            "leave --processes out (and raise --concurrency), or use SQLite or PostgreSQL"
        )


def _until_signal(worker: Worker, ready: int, parent: int) -> int:
    """Work in this process until a signal stops it; return the exit code.

    Under a supervisor, which learns by `ready` that we have started, a second signal changes nothing.
    """

    def stop() -> None:
        worker.stop(HURRIED if worker.is_stopping and ready < 0 else None)

    def code() -> int:
        return LOST if worker.lost_store else REPLACE if worker.wants_replacement else 0

    heartbeat = Heartbeat(worker, ready, parent, code)
    with heeding(stop, hurry=lambda: worker.stop(HURRIED)):
        heartbeat.start()
        worker.run()
    heartbeat.stopped()
    return code()


def _pass(cli: Cli, name: str, level: int, *, ignore_backoff: bool, limit: int) -> None:
    # The output of handlers must not get into the document.
    aside = redirect_stdout(sys.stderr) if cli.json else nullcontext()
    failed: Counter[tuple[str, str]] = Counter()

    def note(event: Event) -> None:
        if event.kind == "failed" and event.job and event.failure:
            failed[event.job.handler, event.failure.title] += 1

    with aside, load_app(cli, name, level=level, times=True) as app:
        if level > logging.INFO:  # else the log names each
            app.listen(note)
        done = app.run_due(ignore_backoff=ignore_backoff, limit=limit)
        missing = dict(app.submitter.registry.withdrawn)
    counted = asdict(done)
    data = {**counted, "missing": missing}
    shown = [Field(name, name) for name in counted]
    cli.show(View(data, [Facts(shown, data)]), then="redrive status")
    for (handler, error), jobs in failed.most_common(_MOST_NAMED):
        cli.say(f"{handler}: {jobs} failed and will be retried: {error}")
    if len(failed) > _MOST_NAMED:
        cli.say(f"and {len(failed) - _MOST_NAMED} other errors; `redrive failed` lists the jobs")
    for handler, why in missing.items():
        cli.say(f"handler {handler} cannot run here: {why}; install it and run this again")
    if missing:
        raise click.exceptions.Exit(FAILED)
    if done.failed:
        raise click.exceptions.Exit(PARTLY)
