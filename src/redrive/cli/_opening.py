"""`redrive serve --open`: from the terminal to a page that is signed in."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import click

from redrive import web
from redrive.cli._cli import Cli
from redrive.cli._confirm import confirm, is_interactive
from redrive.cli._errors import USAGE, Stop
from redrive.errors import StoreMissing
from redrive.submission import who
from redrive.web import tokens

if TYPE_CHECKING:
    from redrive.web.server import Server

_PAGE = '<!doctype html><meta http-equiv="refresh" content="0;url={url}"><title>Redrive</title>'


def check_address(host: str) -> None:
    """Refuse to open a page of a server that others can reach: its link would sign them in."""
    if host not in web.LOOPBACK:
        raise click.UsageError(f"--open is for loopback addresses only; {host} is not one")


def prepare(
    cli: Cli, program: str | None, token_file: Path | None, *, ask: bool, auth: bool
) -> Path | None:
    """Create a store and a file of tokens if there are none and the person agrees; return the file."""
    if program is None and cli.config.app is None:
        try:
            with cli.opened():
                pass
        except StoreMissing:
            _agreed(f"There is no store at {cli.config.store}. Create it?", ask=ask)
            with cli.opened(create=True):
                cli.say(f"created {cli.config.store}")
    if not auth or token_file is not None or tokens.from_environ():
        return token_file
    path = _home() / "tokens"
    if not path.exists():
        _agreed(f"There are no tokens. Create {path}?", ask=ask)
        tokens.write_file(path, who())
        cli.say(f"new tokens, one to read and one to act, are in {path}")
    return path


def _agreed(question: str, *, ask: bool) -> None:
    if not ask:
        return
    if not is_interactive():
        msg = f"{question.partition('?')[0]}: there is no terminal to ask on"
        raise Stop("needs_yes", msg, hint="add --yes", exits=USAGE)
    confirm(question, default=True)


def _home() -> Path:
    """Return the directory of a person's own settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "redrive"


@contextmanager
def page(cli: Cli, site: Server, url: str) -> Generator[None]:
    """Open a browser with a link that signs in once; print the link where there is no browser."""
    link = url + site.console.opening_path()
    file = _file(link) if _has_browser() else None
    # The browser is given a file of its owner only: the link would be in the list of processes.
    if file is None or not webbrowser.open(file.as_uri()):
        cli.say(f"open {link}\n(the link works once, for two minutes)")
    try:
        yield
    finally:
        if file is not None:
            with suppress(OSError):
                file.unlink()


def _has_browser() -> bool:
    """Return True if there is a screen to open a browser on."""
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True


def _file(link: str) -> Path:
    handle, name = tempfile.mkstemp(prefix="redrive-", suffix=".html")
    with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open already
        file.write(_PAGE.format(url=escape(link)))
    return Path(name)
