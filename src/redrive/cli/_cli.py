"""What every command receives: the shared options, the store, and standard output and error.

Standard output carries what was asked for; everything else goes to standard error. Reading commands
open the store read-only and never create one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from redrive.cli._logging import warn_on_stderr
from redrive.config import Config, find
from redrive.payloads.escaping import inert

if TYPE_CHECKING:  # what runs jobs is loaded only by commands that act
    from redrive.app import Redrive
    from redrive.cli.output import View
    from redrive.desk.desk import Desk
    from redrive.desk.jobs import Scope
    from redrive.jobs.clock import Clock

REPORT_EVERY = 10.0  # seconds between two lines of progress, where no bar can be shown


class Cli:
    """One call of the command line. A test may pass a clock that stands still."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self.store: str | None = None
        self.plain = False
        self.json = False
        self.jsonl = False
        self.no_color = False
        self.quiet = False
        self.verbose = False

    @cached_property
    def config(self) -> Config:
        """The settings in force: which store, and where that was set."""
        config = find(store=self.store)
        if config.unknown:
            names = ", ".join(config.unknown)
            self.say(f"warning: {config.file} has unknown keys, which are ignored: {names}")
        if config.secret_names:
            from redrive.payloads.secret_names import add_secret_names  # noqa: PLC0415 - few have any

            add_secret_names(config.secret_names)
        return config

    @contextmanager
    def reading(self) -> Generator[Desk]:
        """Open the store to read it, without what only actions need: it starts in half the time."""
        from redrive.desk.backend import ReadOnly  # noqa: PLC0415
        from redrive.desk.desk import Desk  # noqa: PLC0415

        warn_on_stderr(logging.INFO if self.verbose else logging.WARNING)
        with closing(ReadOnly(self._url(), self.clock)) as backend:
            yield Desk(backend)

    @contextmanager
    def acting(self, *, read_only: bool = False) -> Generator[Desk]:
        """Open the store to change it; a missing one is an error. A dry run only reads."""
        with self.opened(read_only=read_only) as app:
            yield app.desk

    @contextmanager
    def opened(self, *, create: bool = False, read_only: bool = False) -> Generator[Redrive]:
        """Open the store as an app, and close it at the end."""
        warn_on_stderr(logging.INFO if self.verbose else logging.WARNING)
        from redrive.app import Redrive  # noqa: PLC0415

        url = self._url()
        app = Redrive(url, create=create, read_only=read_only, clock=self.clock)
        with app:
            app.store.now()  # opened here and now, so that its errors come before any output
            yield app

    def _url(self) -> str:
        """Return the store's URL; `memory:` is refused, since it would be a new, empty store."""
        from redrive.errors import UsageError  # noqa: PLC0415 - click is not loaded for this

        if self.config.store.startswith("memory:"):
            raise UsageError(
                "a memory: store exists only inside one process, so this command would see an empty "
                f"one (set by: {self.config.source}); name a file or a database with --store"
            )
        return self.config.store

    def show(self, view: View, *, then: str = "") -> None:
        """Print a view on standard output; `then` is the command that usually comes next."""
        out = sys.stdout
        if self.json:
            from redrive.cli.output import text  # noqa: PLC0415

            out.write(text.json_lines(view) if self.jsonl else text.document(view))
        elif not self.draws(out) or not _show_on_terminal(view, out):
            from redrive.cli.output.text import plain  # noqa: PLC0415

            out.write(plain(view))
        out.flush()
        if self.jsonl and view.page and view.page.get("cursor"):
            self.say(f"there are more: add --cursor {view.page['cursor']}")
        if then and not self.json and not self.quiet and sys.stderr.isatty():
            self.say(f"next: {then}{self._where(then)}")

    def _where(self, then: str) -> str:
        """Return the --store option, if it was used: the next command needs it too."""
        if self.store is None or " work " in then or "--store" in then:
            return ""
        from shlex import quote  # noqa: PLC0415 - few name it so

        return f" --store {quote(self.store)}"

    def show_raw(self, view: View) -> None:
        """Print a view as plain text, on a terminal too: it is meant for a file."""
        plain, self.plain = self.plain, True
        try:
            self.show(view)
        finally:
            self.plain = plain

    def show_markdown(self, text: str) -> bool:
        """Print Markdown on a terminal; return False where there is no terminal or no rich."""
        if not self.draws(sys.stdout):
            return False
        try:
            from redrive.cli.output import terminal  # noqa: PLC0415
        except ImportError:
            return False
        return terminal.render_markdown(text, sys.stdout)

    def draws(self, out: TextIO) -> bool:
        """Return True if tables and colours are wanted; FORCE_COLOR asks for them in a pipe too."""
        if self.no_color:
            os.environ["NO_COLOR"] = "1"  # for rich, which looks there
        forced = os.environ.get("FORCE_COLOR", "") not in {"", "0"}
        return not self.plain and (out.isatty() or (forced and not self.no_color))

    @contextmanager
    def screen(self) -> Generator[Callable[[View], None]]:
        """Draw views one over the other, on a terminal with rich; elsewhere one after the other."""
        if self.json or not self.draws(sys.stdout):
            yield self.show
            return
        try:
            from redrive.cli.output import terminal  # noqa: PLC0415
        except ImportError:
            yield self.show
            return
        with terminal.screen(sys.stdout) as draw:
            yield draw

    def preview(self, view: View) -> None:
        """Print a view on standard error, before a person is asked to confirm."""
        if self.json or not self.draws(sys.stderr) or not _show_on_terminal(view, sys.stderr):
            from redrive.cli.output.text import plain  # noqa: PLC0415

            sys.stderr.write(plain(view))
        sys.stderr.flush()

    @contextmanager
    def progress(self, what: str, total: int | None) -> Generator[Callable[[int], None]]:
        """Show progress on standard error: a bar on a terminal, else a line every ten seconds."""
        import shutil  # noqa: PLC0415 - few commands take long

        import click  # noqa: PLC0415

        if self.quiet:
            yield lambda _: None
        elif sys.stderr.isatty() and not os.environ.get("CI"):
            width = max(4, min(36, shutil.get_terminal_size().columns - len(what) - 30))
            with click.progressbar(
                length=total or 0, label=what, file=sys.stderr, width=width
            ) as bar:
                yield bar.update
        else:
            yield _Progress(self, what, total).count

    def say_scope(self, scope: Scope | None) -> None:
        """Print how many jobs were searched, where no index could answer."""
        if scope is not None and not self.json:
            whole = scope.looked == scope.of
            part = f"all {scope.of:,}" if whole else f"the newest {scope.looked:,} of {scope.of:,}"
            self.say(f"searched {part} jobs")

    def say(self, text: str) -> None:
        """Print a line on standard error, without control characters."""
        sys.stderr.write(inert(text, keep_newlines=True) + "\n")
        sys.stderr.flush()


class _Progress:
    """Prints a line of progress every ten seconds."""

    def __init__(self, cli: Cli, what: str, total: int | None) -> None:
        self._say = cli.say
        self._what = what
        self._of = "" if total is None else f" of {total:,}"
        self._done = 0
        self._next = monotonic() + REPORT_EVERY

    def count(self, more: int) -> None:
        """Add to the count, and print it if ten seconds have passed."""
        self._done += more
        if monotonic() >= self._next:
            self._next = monotonic() + REPORT_EVERY
            self._say(f"{self._done:,}{self._of} {self._what}")


def same_line(*, without: str) -> str:
    """Return the command line as it was typed, without one of its options, ready to paste."""
    import shlex  # noqa: PLC0415 - for people only

    return shlex.join(["redrive", *(word for word in sys.argv[1:] if word != without)])


def _show_on_terminal(view: View, out: TextIO) -> bool:
    try:
        from redrive.cli.output import terminal  # noqa: PLC0415 - rich costs as much as all else
    except ImportError:
        return False
    terminal.render(view, out)
    return True
