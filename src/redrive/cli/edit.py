"""Editing a payload: in an editor or from a file, checked, shown as a diff, stored as a new version."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from redrive.cli._cli import Cli
from redrive.cli._command import app_option, command, option, reason_option, yes_option
from redrive.cli._confirm import confirm, declined, is_interactive, need_terminal
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli._load import program_of
from redrive.cli.output import Block, Line, Part, View
from redrive.desk.desk import Desk
from redrive.desk.edits import difference, is_unchanged
from redrive.errors import BadPayload, UsageError
from redrive.jobs.job import Job
from redrive.jobs.transitions import amended


@command(
    "edit",
    "redrive edit 01J9ZQ4B",
    "redrive edit 01J9ZQ4B --payload fixed.json --yes --reason 'country was missing'",
    "redrive edit 01J9ZQ4B --app shop.jobs:app --dry-run",
)
@click.argument("job_id", metavar="ID")
@option("--payload FILE|-", "The new payload, instead of an editor.")
@app_option("The program whose handler must accept it.")
@option("--reveal", "Show secret fields in the editor.")
@reason_option
@option("--dry-run", "Check and show the difference, save nothing.")
@yes_option
@click.pass_obj
def edit(
    cli: Cli,
    job_id: str,
    payload: str | None,
    app_name: str | None,
    reason: str,
    *,
    reveal: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Change a job's payload; the original is kept, and nothing is run.

    Opens $VISUAL or $EDITOR. Secrets are shown as ••• and keep their values where that is left alone;
    --reveal shows them. If the program is known, its handler must accept the new payload.
    """
    if not (yes or dry_run):
        need_terminal("edit")  # before the audit log records that something was revealed
    with cli.acting(read_only=dry_run and not reveal) as desk:
        job, shown, _ = desk.jobs.editable(job_id, reveal=reveal)
        amended(job, job.payload, now=job.updated)  # raises Refused before the editor opens
        program = program_of(cli, app_name)
        taker = None if program is None else program.desk.jobs
        accept = partial(desk.jobs.preview_edit, job.id, expected=job.edits, taker=taker)
        finish = partial(_finish, cli, desk, job, reason=reason, dry_run=dry_run, yes=yes)
        if payload is not None:
            new = _content(payload)
            after = accept(new)
            _check_changed(new, shown, job.payload)
            finish(new, after)
            return
        with _draft(cli, shown) as draft:
            new, after = _ask(cli, draft, accept)
            _check_changed(new, shown, job.payload)
            finish(new, after)


def _check_changed(new: str, *shown: str) -> None:
    if is_unchanged(new, *shown):
        raise Stop("unchanged", "the payload is unchanged; nothing was saved", exits=FAILED)


def _content(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeError as error:
        raise BadPayload(f"the text is not UTF-8: {error}") from error


@contextmanager
def _draft(cli: Cli, text: str) -> Generator[Path]:
    """Write the text to a private file; keep it if a changed text could not be saved."""
    place = Path(tempfile.mkdtemp(prefix="redrive-"))
    draft = place / "payload.json"
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o600)
    try:
        yield draft
    except BaseException:
        if draft.exists() and draft.read_bytes() != text.encode():
            cli.say(f"your text is kept in {draft}")
        else:
            shutil.rmtree(place, ignore_errors=True)
        raise
    shutil.rmtree(place, ignore_errors=True)


def _ask(cli: Cli, draft: Path, accept: Callable[[str], str]) -> tuple[str, str]:
    """Open the editor until its text is accepted, or the person stops; return it and its preview."""
    while True:
        _open_editor(draft)
        try:
            text = _content(str(draft))
            return text, accept(text)
        except UsageError as error:
            if not is_interactive():
                raise
            cli.say(f"error: {error}")
            if not click.confirm("Edit it again?", default=True, err=True):
                raise declined() from error


def _open_editor(draft: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(draft)], check=False)  # noqa: S603 - theirs
    except (OSError, ValueError) as error:
        msg = f"cannot start the editor {editor!r}: {error}"
        hint = "set EDITOR, or pass the text with --payload FILE"
        raise Stop("no_editor", msg, hint=hint, exits=USAGE) from error
    if done.returncode:
        msg = f"the editor {editor!r} ended with {done.returncode}; nothing was changed"
        raise Stop("editor_failed", msg, exits=FAILED)


def _finish(
    cli: Cli,
    desk: Desk,
    job: Job,
    new: str,
    after: str,
    *,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show the difference, ask, and save it unless somebody else changed the job."""
    lines = difference(job.payload, after)
    text = "\n".join(lines) or "only hidden values, or the spelling of numbers, differ"
    changed = Block("Difference", text, "diff")
    if not (dry_run or yes):
        cli.preview(View(None, [changed]))
        confirm("Save it?", default=True)
    if not dry_run:
        job = desk.edit(job.id, new, reason=reason, expected=job.edits)
    version = job.edits + 1 + dry_run
    text = f"{'would be' if dry_run else 'saved as'} version {version} of {job.id}"
    data = {
        "id": job.id,
        "version": version,
        "saved": not dry_run,
        "diff": changed.text.splitlines(),
    }
    parts: list[Part] = [Line(text, "" if dry_run else "good"), changed]
    cli.show(View(data, parts), then="" if dry_run else f"redrive retry {job.id}")
