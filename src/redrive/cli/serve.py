"""Serving: the console, health, metrics and the JSON API over HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from redrive import web
from redrive.app import Redrive
from redrive.cli import _opening as opening
from redrive.cli._cli import Cli
from redrive.cli._command import command, yes_option
from redrive.cli._errors import FAILED, USAGE, Stop
from redrive.cli._load import load_app, program_name, set_up_alerts
from redrive.cli._logging import warn_on_stderr
from redrive.web import tokens
from redrive.worker.supervisor import heeding

if TYPE_CHECKING:
    from redrive.web.proxy import TrustedProxy
    from redrive.web.server import Server

People = Mapping[str, tokens.Right]
"""The rights of people whom a proxy signs in."""

PORT = 9200
PER_CLIENT = 100  # connections of one client, unless it is a proxy
_HEAD = 65_536
_GRACE = 10


@command(
    "serve",
    "redrive serve shop.jobs:app --tokens ~/.redrive-tokens",
    "redrive serve --open",
    "redrive serve shop.jobs:app --host 0.0.0.0 --behind-proxy --allow-host jobs.shop.example",
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
@click.option("--behind-proxy", is_flag=True, help="A proxy in front of the server does TLS.")
@click.option(
    "--user-header",
    metavar="NAME",
    help="The header in which the proxy names the person who is signed in.",
)
@click.option(
    "--proxy-secret-file",
    "secret_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The secret that the proxy must send as Redrive-Proxy-Secret.",
)
@click.option(
    "--per-client",
    type=click.IntRange(0),
    metavar="N",
    help=f"Connections of one client address; 0: no limit.  [{PER_CLIENT}; 0 with --behind-proxy]",
)
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
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
    behind_proxy: bool,
    user_header: str | None,
    secret_file: Path | None,
    per_client: int | None,
    tls_cert: str | None,
    tls_key: str | None,
    verbose: bool,
) -> None:
    """Serve the console, health, metrics and the JSON API until stopped (SIGTERM or Ctrl-C).

    --open opens the console in your browser, signed in with a link that works once; where there is no
    browser it prints the link. It offers to create a store and tokens if there are none.

    Tokens come from REDRIVE_READ_TOKEN, REDRIVE_ACT_TOKEN and REDRIVE_REVEAL_TOKEN, or from a file.
    Jobs are submitted to the handlers of MODULE:APP; without a program the API serves the store alone.
    An address that other hosts can reach needs tokens, and TLS or a proxy that does TLS.

    A proxy that signs people in names them in --user-header, for the console only, and proves itself by
    the secret of --proxy-secret-file. The file of --tokens has a line for each person: a name and a right,
    as in "mira@shop.example act"; "* read" is everybody else.
    """
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    is_safe = behind_proxy or tls_cert is not None
    _check_address(host, auth=not no_auth, is_safe=is_safe)
    check_extra()
    if (user_header is None) != (secret_file is None):
        raise click.UsageError("--user-header and --proxy-secret-file belong together")
    if user_header is not None and (opens or no_auth or not behind_proxy):
        raise click.UsageError("--user-header needs --behind-proxy, without --open and --no-auth")
    if opens:
        opening.check_address(host)
        token_file = opening.prepare(cli, app_name, token_file, ask=not yes, auth=not no_auth)
    known, people = _tokens(cli, token_file, auth=not no_auth)
    proxy = _proxy(user_header, secret_file, people, known)
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
            who=proxy,
        )
        with listening(host, port) as sock:
            scheme = "http" if tls_cert is None else "https"
            shown = f"[{host}]" if ":" in host else host
            url = f"{scheme}://{shown}:{sock.getsockname()[1]}"
            cli.say(f"serving on {url}")
            each = (0 if behind_proxy else PER_CLIENT) if per_client is None else per_client
            with opening.page(cli, site, url) if opens else nullcontext():
                try:
                    run_server(site, sock, tls_cert, tls_key, each=each, verbose=verbose)
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


def _tokens(cli: Cli, path: Path | None, *, auth: bool) -> tuple[list[tokens.Token], People]:
    """Return the tokens of the environment and of a file, and the rights of people without one."""
    if not auth:
        return [], {}
    known = tokens.from_environ()
    if path is None:
        if not known:
            hint = (
                "add --tokens FILE (created if it is missing), set REDRIVE_ACT_TOKEN or "
                "REDRIVE_READ_TOKEN, or allow everybody on this host with --no-auth"
            )
            raise Stop("no_tokens", "no token is set", hint=hint, exits=USAGE)
        return known, {}
    path = path.expanduser()
    if not path.exists():
        tokens.write_file(path)
        cli.say(f"new tokens, one to read and one to act, are in {path}")
    more, people = tokens.from_file(path)
    return [*known, *more], people


def _proxy(
    header: str | None, secret_file: Path | None, people: People, known: list[tokens.Token]
) -> TrustedProxy | None:
    """Return who asks, if a proxy signs people in."""
    if header is None or secret_file is None:
        if people:
            msg = f"no token for {', '.join(people)} in the file of --tokens"
            hint = "write the token after the right, or let a proxy name people: --user-header NAME"
            raise Stop("no_token", msg, hint=hint, exits=USAGE)
        return None
    if not people:
        msg = "no person is named in the file of --tokens"
        hint = "write a name and a right, as in 'mira@shop.example act', or '* read' for everybody"
        raise Stop("no_people", msg, hint=hint, exits=USAGE)
    from redrive.web.proxy import TrustedProxy  # noqa: PLC0415 - an extra

    lines = tokens.private_lines(secret_file.expanduser())
    return TrustedProxy(header, tokens.made("proxy", "read", "".join(lines)), people, known)


def _check_address(host: str, *, auth: bool, is_safe: bool) -> None:
    """Refuse an address that others can reach without tokens, or without TLS."""
    if _is_loopback(host):
        return
    if not auth:
        raise click.UsageError(f"--no-auth is for loopback addresses only; {host} is not one")
    if not is_safe:
        msg = f"other hosts can reach {host}, and tokens would be sent in clear text"
        hint = "add --tls-cert and --tls-key, or --behind-proxy if a proxy does TLS"
        raise Stop("not_safe", msg, hint=hint, exits=USAGE)


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


def run_server(
    site: Server,
    sock: socket.socket,
    cert: str | None = None,
    key: str | None = None,
    *,
    each: int = PER_CLIENT,
    verbose: bool = False,
) -> None:
    """Serve until a signal comes."""
    import uvicorn  # noqa: PLC0415 - an extra

    from redrive.web.connections import Connections, listener, server_for  # noqa: PLC0415

    config = uvicorn.Config(
        site,
        ssl_certfile=cert,
        ssl_keyfile=key,
        log_config=None,
        access_log=verbose,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEAD,
        timeout_graceful_shutdown=_GRACE,
    )
    connections = Connections(each)
    server = server_for(config, connections)
    if verbose:
        requests = logging.getLogger("uvicorn.access")
        requests.setLevel(logging.INFO)
        requests.addHandler(logging.StreamHandler(sys.stderr))
    # uvicorn handles signals itself and raises them again at its end, which must not end us.
    with heeding(lambda: None), listener(sock, connections) as guarded:
        asyncio.run(server.serve(sockets=[guarded]))
