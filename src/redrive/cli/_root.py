"""The command `redrive` itself: finds commands by name, loads them late, and explains errors."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, shared, write_examples
from redrive.cli._errors import FAILED, INTERRUPTED, Problem, explain
from redrive.errors import StoreMissing
from redrive.payloads.escaping import inert

EXAMPLES = ("redrive status", "redrive dlq", "redrive retry G7 --dry-run")

SECTIONS: dict[str, dict[str, tuple[str, str, str]]] = {
    "Look": {
        "status": ("status", "status", "If there is an incident and why; counts and causes."),
        "dlq": ("lists", "dlq", "The dead letters, newest first."),
        "failed": ("lists", "failed", "Jobs that failed and wait for their next attempt."),
        "list": ("lists", "list_", "Jobs by state, handler, category, age or text."),
        "show": ("show", "show", "Everything about one job."),
        "groups": ("groups", "groups", "What jobs died of, the most common cause first."),
        "group": ("groups", "group", "One group: its growth, what its jobs share, notes."),
        "metrics": ("metrics", "metrics", "Numbers of jobs; all metrics for Prometheus."),
        "log": ("lists", "log", "The audit log: who did what."),
        "explain": ("explain", "explain", "How an error is classified and when it is retried."),
        "help": ("_root", "help_", "The help of a command."),
    },
    "Act": {
        "retry": ("act", "retry", "Retry jobs; several of them as a run."),
        "run": ("runs", "run", "Bulk retries: list, watch, pause, resume, cancel."),
        "resolve": ("act", "resolve", "Close jobs that were settled another way."),
        "discard": ("act", "discard", "Discard jobs permanently."),
        "reopen": ("act", "reopen", "Make closed jobs dead letters again."),
        "edit": ("edit", "edit", "Change a job's payload."),
        "pause": ("lanes", "pause", "Pause a lane."),
        "resume": ("lanes", "resume", "Resume a paused lane."),
    },
    "Run and maintain": {
        "work": ("work", "work", "Run jobs that are due."),
        "serve": ("serve", "serve", "Health, metrics and a JSON API over HTTP."),
        "alerts": ("alerts", "alerts", "The alert channels; send a test message."),
        "init": ("maintenance", "init", "Create the store."),
        "doctor": ("doctor", "doctor", "Find problems, and what to do about them."),
        "verify": ("maintenance", "verify", "Check everything stored for damage."),
        "purge": ("act", "purge", "Remove finished jobs permanently."),
        "export": ("transfer", "export", "Write jobs to a file, with their history."),
        "import": ("transfer", "import_", "Read jobs from a file, a query or another program."),
        "demo": ("demo", "demo", "Watch jobs fail, die and be retried, in a minute."),
    },
}
MEANT = {"cancel": "discard", "delete": "purge", "ls": "list", "requeue": "retry"}
"""What people try, and the command that does it."""


class ReaderGone(Exception):
    """The reader of standard output closed it: `redrive list | head`."""


class Root(click.Group):
    """The group of all commands; imports one only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name every command."""
        return [name for section in SECTIONS.values() for name in section]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command."""
        for section in SECTIONS.values():
            if cmd_name in section:
                module, name, _ = section[cmd_name]
                return cast("click.Command", getattr(import_module(f"redrive.cli.{module}"), name))
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the one that was meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - rarely needed

            near = get_close_matches(name.lower(), self.list_commands(ctx), n=1)
            meant = MEANT.get(name) or next(iter(near), "")
            ctx.fail(f"no command {name!r}.{f' Did you mean `redrive {meant}`?' if meant else ''}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples first."""
        write_examples(EXAMPLES, formatter)
        super().format_help(ctx, formatter)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands by what they are for, without importing them."""
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, words) for name, (_, _, words) in section.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click would call it a failure when the reader has seen enough."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error
        return result

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> NoReturn:
        """Run a command, and turn an error into a message and an exit code."""
        words = list(sys.argv[1:] if args is None else args)
        _open_closed_streams()
        for stream in (sys.stdout, sys.stderr):
            _never_fail_to_encode(stream)
        try:
            code = super().main(words, *more, **{**extra, "standalone_mode": False})
        except click.exceptions.Exit as stop:
            code = stop.exit_code
        except ReaderGone:
            # Python would complain again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = 0
        except (click.Abort, KeyboardInterrupt):
            sys.stderr.write("stopped\n")
            code = INTERRUPTED
        except Exception as error:  # noqa: BLE001 - each is explained, our own with its traceback
            code = _report(error, as_json=not {"--json", "--jsonl"}.isdisjoint(words))
        sys.exit(code if isinstance(code, int) else 0)


@click.pass_context
def _status_or_help(ctx: click.Context) -> None:
    """Show the status where no command is named, or the help where there is no store yet."""
    status = root.get_command(ctx, "status")
    if ctx.invoked_subcommand is not None or status is None:
        return
    try:
        ctx.invoke(status)
    except StoreMissing:
        if ctx.ensure_object(Cli).store:
            raise
        sys.stdout.write(ctx.get_help() + "\n")


@command("help", "redrive help", "redrive help retry", "redrive help retry --plain")
@click.argument("name", required=False, metavar="[COMMAND]")
@click.pass_context
def help_(ctx: click.Context, name: str | None) -> None:
    """Show the help of a command, or the list of commands: as Markdown on a terminal with rich."""
    from redrive.cli.output import Line, View  # noqa: PLC0415

    here = ctx.find_root()
    if name is not None:
        found = root.get_command(here, name)
        if found is None:
            raise click.UsageError(f"no command {name!r}; `redrive help` lists the commands")
        here = click.Context(found, here, info_name=name)
    text = here.get_help()
    # A heading, and each list below it as a block of code.
    markdown = re.sub(r"(?m)^([\w ]+):\n((?:  .*\n?|\n)+)", "## \\1\n```\n\\2```\n", f"{text}\n")
    if ctx.obj.json or not ctx.obj.show_markdown(markdown):
        ctx.obj.show_raw(View({"help": text}, [Line(line) for line in text.splitlines()]))


def _open_closed_streams() -> None:
    """Open devnull for streams that the caller closed (`>&-`), so that writing to them does not fail."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - kept open
            setattr(sys, name, nowhere)


def _never_fail_to_encode(stream: TextIO) -> None:
    """Let a character that the terminal cannot show become an escape instead of an error."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _report(error: Exception, *, as_json: bool) -> int:
    problem = explain(error)
    if problem is None:
        import traceback  # noqa: PLC0415 - only for our own mistakes

        trace = inert("".join(traceback.format_exception(error)), keep_newlines=True)
        sys.stderr.write(f"{trace}\nThis is a bug in Redrive: please report it.\n")
        return FAILED
    _print_problem(problem, as_json=as_json)
    return problem.exit


def _print_problem(problem: Problem, *, as_json: bool) -> None:
    if as_json:
        from redrive.cli.output import text  # noqa: PLC0415

        sys.stderr.write(text.problem(problem.code, problem.message, problem.hint))
        return
    sys.stderr.write(f"error: {inert(problem.message, keep_newlines=True)}\n")
    if problem.hint:
        sys.stderr.write(f"hint: {inert(problem.hint, keep_newlines=True)}\n")


def _print_version(ctx: click.Context, _: click.Parameter, value: object) -> None:
    if not value or ctx.resilient_parsing:
        return
    import redrive  # noqa: PLC0415 - the version is all that is wanted from there

    sys.stdout.write(f"redrive {redrive.__version__}\n")
    ctx.exit()


def _agree(ctx: click.Context, _: click.Parameter, value: object) -> None:
    """Pass --yes to every command that knows it."""
    if value:
        ctx.default_map = {name: {"yes": True} for name in root.list_commands(ctx)}


root = Root(
    "redrive",
    invoke_without_command=True,
    callback=_status_or_help,
    help="Keeps jobs that failed: see why, retry them, or close them with a reason.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or needs --yes, 3 nothing matched, "
    "4 conflict, 5 store missing or unreachable, 6 done but some failed, 7 a run was stopped, "
    "130 interrupted (a run that was followed continues).",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        *shared(),
        click.Option(
            ["--yes", "-y"], is_flag=True, expose_value=False, help="Do not ask.", callback=_agree
        ),
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            help="Show the version.",
            callback=_print_version,
        ),
    ],
)
