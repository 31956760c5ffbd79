"""The demo, as a command: a story in the terminal, or sample data in the console."""

from __future__ import annotations

import secrets
import sys

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import FAILED


@command("demo", "redrive demo", "redrive demo --plain", "redrive demo --web")
@option("--web", "Open the console on sample data, with a worker.", name="in_browser")
@click.pass_context
def demo(ctx: click.Context, *, in_browser: bool) -> None:
    """Watch jobs fail, be retried, die, be repaired and be retried again, in under a minute.

    Everything is in a temporary directory, which is removed at the end; your stores are not touched.
    Exits with 1 if the demo did not end as expected.

    With --web the console opens on about 100 dead letters of four causes: a bulk retry that a worker
    carries out while you look, a payload to edit, a paused lane. Ctrl-C ends it.
    """
    from redrive.contrib.demo import story  # noqa: PLC0415 - what runs jobs is loaded when needed

    cli = ctx.ensure_object(Cli)
    if in_browser:
        _serve(cli)
    elif not story.tell(story.Screen(draws=cli.draws(sys.stdout))):
        ctx.exit(FAILED)


def _serve(cli: Cli) -> None:
    """Serve the console on sample data, with a worker, until Ctrl-C."""
    from redrive.cli.serve import check_extra, listening, page, run_server  # noqa: PLC0415

    check_extra()
    from redrive import web  # noqa: PLC0415
    from redrive.contrib.demo import sample, story  # noqa: PLC0415
    from redrive.web.auth import made  # noqa: PLC0415

    token = made("you", "act", secrets.token_urlsafe(32))
    with story.own_folder() as folder:
        cli.say("preparing sample data ...")
        sample.fill(folder / "sample.db")
        with (
            sample.shop(folder / "sample.db") as app,
            app.worker(concurrency=4),
            listening("127.0.0.1", 0) as sock,
        ):
            site = web.asgi(app, tokens=[token], name="sample data", environment="demo")
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            cli.say(f"the console is on {url}; Ctrl-C ends the demo and removes it")
            try:
                with page(cli, site, url):
                    run_server(site, sock)
            finally:
                site.close()
