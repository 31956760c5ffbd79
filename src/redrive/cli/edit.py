"""Editing a payload: in an editor or from a file, checked, shown as a diff, kept as a new version."""

from __future__ import annotations

import difflib
import os
import re
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

from redrive.cli._command import command
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli._face import Face
from redrive.cli._load import program_of
from redrive.cli.output import Block, Line, Part, View
from redrive.desk.desk import Desk
from redrive.desk.documents import payload_text
from redrive.errors import BadPayload, RedriveError
from redrive.jobs.job import Job
from redrive.jobs.transitions import amended
from redrive.payloads import strict_json
from redrive.payloads.editing import Hidden
from redrive.payloads.masking import MASK, mask_json

_PARTLY_HIDDEN = re.compile(rf'"(?:[^"\\]|\\.)*?{MASK}(?:[^"\\]|\\.)*+"')


@command(
    "edit",
    "redrive edit 01J9ZQ4B",
    "redrive edit 01J9ZQ4B --payload fixed.json --yes --reason 'country was missing'",
    "redrive edit 01J9ZQ4B --app shop.jobs:app --dry-run",
)
@click.argument("job_id", metavar="ID")
@click.option("--payload", metavar="FILE|-", help="The new payload, instead of an editor.")
@click.option("--app", "app_name", metavar="MODULE:APP", help="Whose handler must accept it.")
@click.option("--reveal", is_flag=True, help="Show secret fields in the editor.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the act.")
@click.option("--dry-run", is_flag=True, help="Check and show the difference, save nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_obj
def edit(
    face: Face,
    job_id: str,
    payload: str | None,
    app_name: str | None,
    reason: str,
    *,
    reveal: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Change a job's payload; the first one is kept, and nothing is run.

    Opens $VISUAL or $EDITOR. Secret fields are shown as marks such as •••1••• and stay what they
    are; --reveal shows them. The handler must accept the new payload where its program is known.
    """
    with face.acting(read_only=dry_run and not reveal) as desk:
        job, hidden, _ = desk.jobs.editable(job_id, reveal=reveal)
        amended(job, job.payload, now=job.updated)  # or it is refused, before anybody has typed
        program = program_of(face, app_name)
        accept = partial(_accepted, job, hidden, None if program is None else program.desk)
        if not (yes or dry_run or _somebody_there()):
            msg = "there is no terminal to ask on"
            hint = "add --yes, or look first with --dry-run"
            raise Stop("needs_yes", msg, hint=hint, exits=USAGE)
        if payload is not None:
            said = _content(payload)
            text = accept(said)
            _check_changed(said, hidden.text, job.payload)
            _finish(face, desk, job, text, reason, dry_run=dry_run, yes=yes)
            return
        with _paper(face, hidden) as paper:
            text = _ask(face, paper, accept)
            _check_changed(_content(str(paper)), hidden.text, job.payload)
            _finish(face, desk, job, text, reason, dry_run=dry_run, yes=yes)


def _check_changed(said: str, *shown: str) -> None:
    """Stop if a text is as it was shown.

    It is not compared with what is stored: the answer would say whether a secret was guessed right.
    """
    if any(_is_same(said, text) for text in shown):
        raise Stop("unchanged", "the payload is as it was; nothing was saved", exits=FAILED)


def _somebody_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _content(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeError as error:
        msg = f"the text is not UTF-8: {error}"
        raise BadPayload(msg) from error


def _accepted(job: Job, hidden: Hidden, program: Desk | None, text: str) -> str:
    """Put hidden values back, and check the payload as a submit would, also by its handler if known."""
    text = strict_json.compact(hidden.restore(text))
    if program is not None:
        program.jobs.check_payload(job.handler, text)
    return text


@contextmanager
def _paper(face: Face, hidden: Hidden) -> Generator[Path]:
    """Lay the text out in a private file; what a person wrote is kept if it could not be saved."""
    place = Path(tempfile.mkdtemp(prefix="redrive-"))
    paper = place / "payload.json"
    paper.write_text(hidden.text, encoding="utf-8")
    paper.chmod(0o600)
    try:
        yield paper
    except BaseException:
        if paper.exists() and paper.read_bytes() != hidden.text.encode():
            face.say(f"your text is kept in {paper}")
        else:
            shutil.rmtree(place, ignore_errors=True)
        raise
    shutil.rmtree(place, ignore_errors=True)


def _ask(face: Face, paper: Path, accept: Callable[[str], str]) -> str:
    """Open the editor until what it leaves can be accepted, or the person has had enough."""
    while True:
        _open_editor(paper)
        try:
            return accept(_content(str(paper)))
        except RedriveError as error:
            if not _somebody_there():
                raise
            face.say(f"error: {error}")
            if not click.confirm("Edit it again?", default=True, err=True):
                raise Stop("declined", "nothing was changed", exits=FAILED) from error


def _open_editor(paper: Path) -> None:
    said = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(said), str(paper)], check=False)  # noqa: S603 - theirs
    except (OSError, ValueError) as error:
        msg = f"cannot start the editor {said!r}: {error}"
        hint = "set EDITOR, or give the text with --payload FILE"
        raise Stop("no_editor", msg, hint=hint, exits=USAGE) from error
    if done.returncode:
        msg = f"the editor {said!r} ended with {done.returncode}; nothing was changed"
        raise Stop("editor_failed", msg, exits=FAILED)


def _finish(
    face: Face, desk: Desk, job: Job, text: str, reason: str, *, dry_run: bool, yes: bool
) -> None:
    """Show what changes, ask, and save it if nobody else did meanwhile."""
    changed = Block("Difference", _difference(job.payload, text), "diff")
    if not (dry_run or yes):
        face.preview(View(None, [changed]))
        if not click.confirm("Save it?", default=True, err=True):
            raise Stop("declined", "nothing was changed", exits=FAILED)
    if not dry_run:
        job = desk.edit(job.id, text, reason=reason, expected=job.edits)
    version = job.edits + 1 + dry_run
    said = f"{'would be' if dry_run else 'saved as'} version {version} of {job.id}"
    data = {
        "id": job.id,
        "version": version,
        "saved": not dry_run,
        "diff": changed.text.splitlines(),
    }
    parts: list[Part] = [Line(said, "" if dry_run else "good"), changed]
    face.show(View(data, parts), then="" if dry_run else f"redrive retry {job.id}")


def _is_same(text: str, stored: str) -> bool:
    try:
        return strict_json.same(strict_json.compact(text), strict_json.compact(stored))
    except BadPayload:
        return False  # what was stored cannot be read: somebody mends it


def _difference(before: str, after: str) -> str:
    """Return what changes, line by line, with the secrets of each hidden; `before` is masked already.

    Each by its own: what was typed is not compared with what is hidden, or it would tell a right guess.
    """
    old, new = (_hidden_whole(payload_text(text)) for text in (before, mask_json(after)))
    lines = list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=2))
    return "\n".join(lines) or "only hidden values, or the spelling of numbers, differ"


def _hidden_whole(text: str) -> list[str]:
    """Hide each value that has a hidden part: where it begins and ends would say what was guessed right."""
    return [_PARTLY_HIDDEN.sub(f'"{MASK}"', line) for line in text.splitlines()]
