"""Serving: the console, health, metrics and the JSON API over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from html import escape
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from redrive import web
from redrive.app import Redrive
from redrive.cli._cli import Cli
from redrive.cli._command import command, yes_option
from redrive.cli._confirm import confirm, is_interactive
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli._load import load_app, program_name, set_up_alerts
from redrive.cli._logging import warn_on_stderr
from redrive.errors import StoreMissing
from redrive.submission import who
from redrive.web import auth
from redrive.worker.supervisor import heeding

if TYPE_CHECKING:
    from redrive.web.server import Server

PORT = 9200
_CONNECTIONS = 500
_HEAD = 65_536
_GRACE = 10
_PAGE = '<!doctype html><meta http-equiv="refresh" content="0;url={url}"><title>Redrive</title>'


@command(
    "serve",
    "redrive serve shop.jobs:app --tokens ~/.redrive-tokens",
    "redrive serve --open",
    "redrive serve shop.jobs:app --host 0.0.0.0 --allow-host jobs.shop.example",
)
@click.argument("app_name", metavar="[MODULE:APP]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65_535))
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A host name of the server; repeatable.",
)
@click.option(
    "--tokens",
    "token_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Names, rights and tokens, one a line; created if it is missing.",
)
@click.option(
    "--open", "opens", is_flag=True, help="Open the console in a browser, signed in; loopback only."
)
@yes_option
@click.option("--no-auth", is_flag=True, help="No tokens; on a loopback address only.")
@click.option("-v", "--verbose", is_flag=True, help="Log each request on standard error.")
@click.pass_obj
def serve(
    cli: Cli,
    app_name: str | None,
    *,
    host: str,
    port: int,
    names: tuple[str, ...],
    token_file: Path | None,
    opens: bool,
    yes: bool,
    no_auth: bool,
    verbose: bool,
) -> None:
    """Serve the console, health, metrics and the JSON API until stopped (SIGTERM or Ctrl-C).

    --open opens the console in your browser, signed in with a link that works once; where there is no
    browser it prints the link. It offers to create a store and tokens if there are none.

    Tokens come from REDRIVE_READ_TOKEN, REDRIVE_ACT_TOKEN and REDRIVE_REVEAL_TOKEN, or from a file.
    Jobs are submitted to the handlers of MODULE:APP; without a program the API serves the store alone.

    The server has no TLS of its own. If other hosts can reach it, put it behind a reverse proxy that
    does TLS. Without tokens such a server answers health checks and nothing else.
    """
    is_local = _is_loopback(host)
    if no_auth and not is_local:
        raise click.UsageError(f"--no-auth is for loopback addresses only; {host} is not one")
    check_extra()
    if opens:
        if host not in web.LOOPBACK:  # the link would sign others in
            raise click.UsageError(f"--open is for loopback addresses only; {host} is not one")
        token_file = _prepare(cli, app_name, token_file, ask=not yes, needs_tokens=not no_auth)
    known = [] if no_auth else _tokens(cli, token_file, is_local=is_local)
    hosts = {*web.LOOPBACK, *names, *([] if _is_everywhere(host) else [host])}
    with _app(cli, app_name, verbose=verbose) as app:
        app.store.now()  # opened here and now, so that its errors come before anybody asks
        place = cli.config.web
        site = web.asgi(
            app,
            tokens=known,
            hosts=hosts,
            auth=not no_auth,
            name=place.get("name", ""),
            environment=place.get("environment", ""),
        )
        with listening(host, port) as sock:
            shown = f"[{host}]" if ":" in host else host
            url = f"http://{shown}:{sock.getsockname()[1]}"
            cli.say(f"serving on {url}")
            if known and not is_local:
                cli.say("tokens are sent in clear text unless a proxy in front does TLS")
            with page(cli, site, url) if opens else nullcontext():
                try:
                    run_server(site, sock, verbose=verbose)
                finally:
                    site.close()


@contextmanager
def _app(cli: Cli, name: str | None, *, verbose: bool) -> Generator[Redrive]:
    """Return the program's app; without a program, the store alone."""
    level = logging.INFO if verbose else logging.WARNING
    if name is None and cli.store is None:
        name = program_name(cli, None)
    if name is not None:
        with load_app(cli, name, level=level) as app:
            yield app
        return
    warn_on_stderr(level)
    with cli.opened() as app:
        set_up_alerts(cli, app)
        yield app


def _tokens(cli: Cli, path: Path | None, *, is_local: bool) -> list[auth.Token]:
    """Return the tokens of the environment and of a file."""
    known = auth.from_environ()
    if path is None:
        hint = "add --tokens FILE (created if it is missing), or set REDRIVE_ACT_TOKEN or REDRIVE_READ_TOKEN"
        if not known and is_local:
            hint += ", or allow everybody on this host with --no-auth"
            raise Stop("no_tokens", "no token is set", hint=hint, exits=USAGE)
        if not known:
            cli.say(f"no token is set: only health checks are answered; {hint}")
        return known
    path = path.expanduser()
    if not path.exists():
        _create_tokens(cli, path)
    return [*known, *auth.from_file(path)]


def _create_tokens(cli: Cli, path: Path, operator: str = "operator") -> None:
    auth.write_file(path, operator)
    cli.say(f"new tokens, one to read and one to act, are in {path}")


def _prepare(
    cli: Cli, program: str | None, token_file: Path | None, *, ask: bool, needs_tokens: bool
) -> Path | None:
    """Create a store and a file of tokens if there are none and the person agrees; return the file."""

    def agree(question: str) -> None:
        if ask and not is_interactive():
            msg = f"{question.partition('?')[0]}: there is no terminal to ask on"
            raise Stop("needs_yes", msg, hint="add --yes", exits=USAGE)
        if ask:
            confirm(question, default=True)

    if program is None and cli.config.app is None:
        try:
            with cli.opened():
                pass
        except StoreMissing:
            agree(f"There is no store at {cli.config.store}. Create it?")
            with cli.opened(create=True):
                cli.say(f"created {cli.config.store}")
    if not needs_tokens or token_file is not None or auth.from_environ():
        return token_file
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    path = settings / "redrive" / "tokens"
    if not path.exists():
        agree(f"There are no tokens. Create {path}?")
        _create_tokens(cli, path, who())
    return path


@contextmanager
def page(cli: Cli, site: Server, url: str) -> Generator[None]:
    """Open a browser with a link that signs in once; print the link where there is no browser."""
    link = url + site.console.sessions.link()
    file = None
    screens = [os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")]
    if any(screens) or not sys.platform.startswith("linux"):
        # The browser is given a file of its owner only: the link would be in the list of processes.
        handle, name = tempfile.mkstemp(prefix="redrive-", suffix=".html")
        with open(handle, "w", encoding="utf-8") as opened:  # noqa: PTH123 - it is open already
            opened.write(_PAGE.format(url=escape(link)))
        file = Path(name)
    try:
        if file is None or not webbrowser.open(file.as_uri()):
            cli.say(f"open {link}\n(the link works once, for two minutes)")
        yield
    finally:
        if file is not None:
            file.unlink(missing_ok=True)


def check_extra() -> None:
    """Stop if what serving needs is not installed."""
    missing = [
        name for name in ("jinja2", "msgspec", "starlette", "uvicorn") if find_spec(name) is None
    ]
    if missing:
        msg = f"serving needs {' and '.join(missing)}: pip install 'redrive[web]'"
        raise Stop("no_extra", msg, exits=FAILED)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_everywhere(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


@contextmanager
def listening(host: str, port: int) -> Generator[socket.socket]:
    """Return a socket that listens on an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        msg = f"cannot listen on {host}, port {port}: {error.strerror or error}"
        raise Stop("no_port", msg, exits=FAILED) from error
    with sock:
        # Connections inherit it. Without it a response in two parts waits 40 ms for the client's ACK.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def run_server(site: Server, sock: socket.socket, *, verbose: bool = False) -> None:
    """Serve until a signal comes."""
    import uvicorn  # noqa: PLC0415 - an extra

    config = uvicorn.Config(
        site,
        http="h11",  # strict about heads that smuggle a second request
        log_config=None,
        access_log=verbose,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEAD,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE,
    )
    if verbose:
        requests = logging.getLogger("uvicorn.access")
        requests.setLevel(logging.INFO)
        requests.addHandler(logging.StreamHandler(sys.stderr))
    # uvicorn handles signals itself and raises them again at its end, which must not end us.
    with heeding(lambda: None):
        asyncio.run(uvicorn.Server(config).serve(sockets=[sock]))
