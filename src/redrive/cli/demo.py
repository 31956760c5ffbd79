"""The demo, as a command: a story in the terminal, or a bad night in the console."""

from __future__ import annotations

import secrets
import threading

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import FAILED

NAMES = ("hooks", "articles", "summaries", "sync", "events")
"""The examples that have a demo of their own."""
_FACTOR = 0.3  # how much of a bad night: about 1,500 dead letters


@command("demo", "redrive demo", "redrive demo hooks", "redrive demo --plain", "redrive demo --web")
@click.argument("name", required=False, type=click.Choice(NAMES), metavar="[EXAMPLE]")
@option("--web", "A bad night in the console, to play with.", name="in_browser")
@click.pass_context
def demo(ctx: click.Context, name: str | None, *, in_browser: bool) -> None:
    """Watch jobs fail, be retried, die, be repaired and be retried again, in under a minute.

    With the name of an example (hooks, articles, summaries, sync, events) its own code runs, on a clock
    whose waits pass a thousand times as fast. A local server plays the services that jobs call.
    Everything is in a temporary directory, which is removed at the end; your stores are not touched.
    Exits with 1 if the demo did not end as expected.

    With --web the console opens on a bad night: 1,500 dead letters of seven groups, a bulk retry that
    a worker carries out while you look, a cause to fix, a payload to edit. Ctrl-C ends it.
    """
    from redrive.contrib.demo import story, users  # noqa: PLC0415 - what runs jobs is loaded when needed
    from redrive.contrib.demo.screen import Screen  # noqa: PLC0415

    cli = ctx.ensure_object(Cli)
    if in_browser:
        _play(cli)
        return
    screen = Screen(plain=cli.plain, no_color=cli.no_color)
    is_right = story.tell(screen) if name is None else users.tell(name, screen)
    if not is_right:
        ctx.exit(FAILED)


def _play(cli: Cli) -> None:
    """Serve the console on a bad night, with a worker and jobs that arrive, until Ctrl-C."""
    from redrive.cli.serve import check_extra, listening, page, run_server  # noqa: PLC0415

    check_extra()
    from redrive import web  # noqa: PLC0415
    from redrive.contrib.demo.bad_night import NightShop, fill  # noqa: PLC0415
    from redrive.contrib.demo.story import place_of_its_own  # noqa: PLC0415
    from redrive.web.auth import made  # noqa: PLC0415

    token = made("you", "act", secrets.token_urlsafe(32))
    stop = threading.Event()
    with place_of_its_own() as folder:
        cli.say("preparing a bad night ...")
        fill(folder / "night.db", factor=_FACTOR)
        shop = NightShop(folder / "night.db")
        with shop.app, shop.app.worker(concurrency=4), listening("127.0.0.1", 0) as sock:
            arrivals = threading.Thread(target=shop.arrive, args=(stop,), daemon=True)
            arrivals.start()
            site = web.asgi(shop.app, tokens=[token], name="bad night", environment="demo")
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            cli.say(f"the console is on {url}; Ctrl-C ends the demo and removes it")
            try:
                with page(cli, site, url):
                    run_server(site, sock)
            finally:
                site.close()
                stop.set()
                arrivals.join()
