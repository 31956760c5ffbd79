"""`redrive watch`: what happens now, drawn again and again; one line each time in a pipe."""

from __future__ import annotations

import io
import json
import os
import select
import shutil
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from typing import Any, cast

import click

from redrive.cli import views
from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli.output import Document, Line, Panel, Part, Table, View, fields, plural
from redrive.desk.desk import Desk
from redrive.desk.live import live_of
from redrive.errors import StoreError
from redrive.jobs.durations import positive, words
from redrive.payloads.escaping import inert

SHARE = 25.0
"""A look may take 1/25 of the time: beside many jobs the looks become rarer, not dearer."""
_IN_A_PIPE = 10.0  # seconds between two lines in a pipe, unless --every says otherwise
_MOST_LANES = 20
_FILTERED = ("groups", "runs", "lanes", "workers")
_MINUTES = fields("what:word last_minute:number this_minute:number curve=last_30_minutes:trend")
_LANES = fields(
    """lane:id state:word pending:number running:number dead:number lag_seconds=lag:span
    attempts_last_minute=attempts/min:number"""
)
_GROUPS = fields(
    """group:id deaths_last_10_minutes=in_10m:number deaths_last_hour=1h:number since:time?
    title=cause:main"""
)


@command("watch", "redrive watch", "redrive watch --every 5s", "redrive watch --filter mail.send")
@option("--every TIME", "Time between two looks (2s; 10s in a pipe).")
@option("--filter TEXT", "Only rows with this text.", name="text", default="")
@option("--times N", "End after so many looks.", click.IntRange(min=1))
@click.pass_obj
def watch(cli: Cli, every: str | None, text: str, times: int | None) -> None:
    """Show what happens now: deaths and attempts per minute, growing groups, runs, lanes, workers.

    Keys: q quits, p pauses, / filters rows by a text (Esc shows all again). In a pipe, without a
    terminal and with --plain it prints one line for each look; with --json one document.
    """
    follow(cli, every, text, times)


def follow(cli: Cli, every: str | None = None, text: str = "", times: int | None = None) -> None:
    """Look again and again until a key, Ctrl-C or the number of looks ends it."""
    draws = not cli.json and cli.draws(sys.stdout) and sys.stdin.isatty() and _can_draw()
    rest = positive(every, name="--every") if every else (2.0 if draws else _IN_A_PIPE)
    with cli.reading() as desk, _screen(on=draws) as keys:
        state = _State(text)
        while not state.quits:
            began = time.monotonic()
            if not state.paused:
                state.look(desk)
                times = None if times is None else times - 1
            _show(cli, state, drawn=draws)
            if times == 0:
                break
            took = time.monotonic() - began
            keys.wait(max(rest, SHARE * took), state, lambda: _show(cli, state, drawn=draws))


class _State:
    """What the keys change."""

    def __init__(self, text: str) -> None:
        self.data: dict[str, Any] = {}
        self.text = text
        self.typed: str | None = None
        """The filter while it is typed."""
        self.paused = self.quits = False
        self.problem = ""
        """Why the last look failed: what is shown is older."""

    def look(self, desk: Desk) -> None:
        """Read what happens now; a store that stops answering later ends nothing."""
        try:
            self.data, self.problem = live_of(desk).document(), ""
        except StoreError as error:
            if not self.data:
                raise
            self.problem = str(error)

    def press(self, key: str) -> bool:
        """Act on a key; return True if the screen must be drawn again."""
        if self.typed is not None:
            return self._type(key)
        if key == "q":
            self.quits = True
        elif key in {"p", " "}:
            self.paused = not self.paused
        elif key == "/":
            self.typed = ""
        elif key == "\x1b":
            self.text = ""
        return key in {"p", " ", "/", "\x1b"}

    def _type(self, key: str) -> bool:
        typed = self.typed or ""
        if key in {"\r", "\n"}:
            self.text, self.typed = typed, None
        elif key == "\x1b":
            self.typed = None
        elif key in {"\x7f", "\b"}:
            self.typed = typed[:-1]
        elif key.isprintable():
            self.typed = typed + key
        return True


class _Keys:
    """The keys that are pressed, where there is a terminal."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def wait(self, seconds: float, state: _State, redraw: Any) -> None:
        """Wait for so long, and act on keys as they are pressed; a quit ends the wait."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not state.quits:
            if self._descriptor is None:
                time.sleep(left)
            elif select.select([self._descriptor], [], [], left)[0]:
                was_paused = state.paused
                keys = os.read(self._descriptor, 100).decode("utf-8", "replace")
                if not keys:  # the terminal is gone
                    state.quits = True
                elif [key for key in _split(keys) if state.press(key)]:
                    redraw()
                if was_paused and not state.paused:
                    return


def _split(keys: str) -> list[str]:
    """Return single keys; an arrow or function key, which begins with Esc, is none of ours."""
    if keys.startswith("\x1b") and len(keys) > 1:
        return []
    return list(keys)


@contextmanager
def _screen(*, on: bool) -> Generator[_Keys]:
    """Use the other screen of the terminal, without a cursor, and read single keys from it."""
    if not on:
        yield _Keys(None)
        return
    import termios  # noqa: PLC0415 - only where there is a terminal
    import tty  # noqa: PLC0415

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        sys.stdout.write("\x1b[?1049h\x1b[?25l")
        yield _Keys(descriptor)
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _can_draw() -> bool:
    if os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        return False
    return all(find_spec(name) is not None for name in ("termios", "rich"))


def _show(cli: Cli, state: _State, *, drawn: bool) -> None:
    if cli.json:
        data = {**_filtered(state.data, state.text), "error": state.problem or None}
        sys.stdout.write(json.dumps(data, ensure_ascii=False) + "\n")
    elif not drawn:
        failed = f"  NO ANSWER: {state.problem}" if state.problem else ""
        sys.stdout.write(inert(line_of(_filtered(state.data, state.text)) + failed) + "\n")
    else:
        _draw(state)
    sys.stdout.flush()


def _draw(state: _State) -> None:
    """Write the view over the one before, as many lines as the terminal has."""
    from redrive.cli.output import terminal  # noqa: PLC0415

    size = shutil.get_terminal_size()
    text = io.StringIO()
    terminal.render(view_of(state.data, state.text), text, width=size.columns, like=sys.stdout)
    lines = text.getvalue().splitlines()[: size.lines - 1]
    lines += [""] * (size.lines - 1 - len(lines)) + [_bar(state)[: size.columns - 1]]
    sys.stdout.write("\x1b[H" + "\x1b[K\n".join(lines) + "\x1b[K")


def _bar(state: _State) -> str:
    """Return the last line: what the keys do, and what they did."""
    if state.typed is not None:
        return f"filter: {inert(state.typed)}_   Enter applies it, Esc cancels"
    if state.problem:
        return inert(f"q quit  no answer since {state.data['now'][11:19]}: {state.problem}")
    keys = f"q quit  p {'continue' if state.paused else 'pause'}  / filter"
    only = f"  only {state.text!r} (Esc: all)" if state.text else ""
    return f"{keys}{inert(only)}{'  PAUSED' if state.paused else ''}"


def view_of(data: dict[str, Any], text: str = "") -> View:
    """Return the parts of the screen; with a text, of lanes, groups, runs and workers those with it."""
    data = _filtered(data, text)
    now = datetime.fromisoformat(data["now"]).timestamp()
    title = f"{data['store']}  {data['now'][:19].replace('T', ' ')} UTC"
    states = "  ".join(f"{name} {number:,}" for name, number in data["states"].items())
    parts: list[Part] = [
        Panel(f"{data['verdict']}: {data['why']}", views.TONES[data["verdict"]], title),
        Line(states),
        Table(_MINUTES, data["minutes"], "Per minute"),
        Table(_GROUPS, data["groups"], "Groups with deaths in the last 10 minutes"),
        Table(views.RUNS, data["runs"], "Runs"),
        Table(_LANES, data["lanes"][:_MOST_LANES], "Lanes"),
        Table(views.WORKERS, data["workers"], "Workers"),
    ]
    return View(data, parts, now=now)


def _filtered(data: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the data with only those groups, runs, lanes and workers that have the text in any value."""
    small = text.casefold()
    rows: dict[str, list[Document]] = {name: data[name] for name in _FILTERED}
    return data | {
        name: [row for row in some if small in json.dumps(row, ensure_ascii=False).casefold()]
        for name, some in rows.items()
    }


def line_of(data: dict[str, Any]) -> str:
    """Return one look as one line."""
    flow = {row["what"]: row["last_minute"] for row in data["minutes"]}
    workers = cast("list[dict[str, Any]]", data["workers"])
    busy, slots = (sum(one[name] or 0 for one in workers) for name in ("busy", "slots"))
    lag = max((row["lag_seconds"] or 0.0 for row in data["lanes"]), default=0.0)
    parts = [
        f"{data['now'][:19]}Z {data['verdict']}",
        *(f"{what} {number:,}/min" for what, number in flow.items()),
        *(f"{state} {data['states'][state]:,}" for state in ("pending", "running", "dead")),
        f"lag {words(lag)}",
        f"{plural(len(workers), 'worker')} {busy}/{slots} busy",
        *(f"{row['group']} +{row['deaths_last_10_minutes']:,}" for row in data["groups"][:3]),
        *(
            f"{run['run']} {run['phase']} {run['succeeded']:,}/{run['total']:,}"
            for run in data["runs"]
        ),
    ]
    return inert("  ".join(parts))
