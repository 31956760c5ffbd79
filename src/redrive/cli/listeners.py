"""Durable listeners: list them, and remove one that no program has any more."""

from __future__ import annotations

from typing import cast

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option, reason_option, yes_option
from redrive.cli._confirm import confirm, need_terminal
from redrive.cli._errors import NOTHING, Stop
from redrive.cli.output import Line, Table, View, fields, plural
from redrive.desk.lanes import ListenerRecord

_LISTENERS = fields(
    "name=listener:id kinds:prose waiting:number oldest_seconds=oldest:span",
    kinds=lambda row: ", ".join(cast("list[str]", row["kinds"])),
)


@command(
    "listeners",
    "redrive listeners",
    "redrive listeners --remove mirror",
    "redrive listeners --json",
)
@option("--remove NAME", "Remove this one and the events for it.", name="name")
@reason_option
@yes_option
@click.pass_obj
def listeners(cli: Cli, name: str | None, reason: str, *, yes: bool) -> None:
    """Show the durable listeners (`app.on`), and how many events wait for each.

    Remove one that no program has any more: its events would wait forever.
    """
    if name is None:
        _list(cli)
        return
    with cli.acting() as desk:
        known = {one.name: one for one in desk.lanes.listeners()}
        if name not in known:
            raise Stop("nothing_matched", f"there is no listener {name!r}", exits=NOTHING)
        if not yes:
            need_terminal("removing a listener")
            confirm(f"Remove {name} and {plural(known[name].waiting, 'event')} that wait for it?")
        desk.lanes.remove_listener(name, reason=reason)
    data = {"listener": name, "removed": True, "events": known[name].waiting}
    cli.show(View(data, [Line(f"listener {name} is removed", "good")]), then="redrive listeners")


def _list(cli: Cli) -> None:
    with cli.reading() as desk:
        known, now = desk.lanes.listeners(), desk.store.now()
    data = [_document(one, now) for one in known]
    parts = [Table(_LISTENERS, data)] if data else [Line("No listener is registered.")]
    cli.show(View(data, parts), then="")


def _document(one: ListenerRecord, now: float) -> dict[str, object]:
    oldest = None if one.oldest is None else max(0.0, now - one.oldest)
    kinds = list(one.kinds)
    return {"name": one.name, "kinds": kinds, "waiting": one.waiting, "oldest_seconds": oldest}
