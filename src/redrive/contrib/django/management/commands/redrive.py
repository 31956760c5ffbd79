"""`manage.py redrive …`: the commands of `redrive`, with the store and the app of the project."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from redrive.cli import main


class Command(BaseCommand):  # type: ignore[misc] # Django has no types
    """Passes its words on to the command line of Redrive."""

    help = (
        "Run a command of Redrive: manage.py redrive status; manage.py redrive --help lists them."
    )
    requires_system_checks: tuple[str, ...] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run `redrive` with all words; only the options of manage.py itself are taken out."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--settings")
        parser.add_argument("--pythonpath", default="")
        own, words = parser.parse_known_args(argv[2:])
        # The processes of workers must find the project, whatever the current directory is.
        folders = (
            own.pythonpath,
            str(Path(argv[0]).resolve().parent),
            os.environ.get("PYTHONPATH"),
        )
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
        _run(words)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take any words, for `call_command("redrive", "status")`."""
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def handle(self, *_: Any, words: list[str], **__: Any) -> None:
        """Run `redrive` for `call_command`; an exit code other than 0 is a CommandError."""
        try:
            _run(words)
        except SystemExit as end:
            if end.code:
                msg = f"redrive {' '.join(words)} ended with exit code {end.code}"
                raise CommandError(msg, returncode=int(end.code)) from None


def _run(words: list[str]) -> None:
    before = sys.argv
    sys.argv = ["redrive", *words]  # as it is shown to people
    try:
        main()
    finally:
        sys.argv = before
