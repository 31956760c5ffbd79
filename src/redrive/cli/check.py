"""One line for a monitor such as Nagios, Icinga or a cron job, with its exit codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli.output import Line, View
from redrive.desk.desk import Desk
from redrive.desk.status import health_of
from redrive.errors import RedriveError, UsageError
from redrive.jobs.durations import seconds, words
from redrive.jobs.job import State

OK, WARNING, CRITICAL, UNKNOWN = range(4)
"""The exit codes of this command alone; monitors have agreed on them."""
_NAMES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_RATE = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*/\s*([smhd])\s*")
_PER_MINUTE = {"s": 60.0, "m": 1.0, "h": 1 / 60, "d": 1 / 1440}


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value and its limits."""

    name: str
    value: float
    unit: str = ""
    text: str = ""
    warn: float | None = None
    crit: float | None = None

    @property
    def level(self) -> int:
        """Return OK, WARNING or CRITICAL."""
        if self.crit is not None and self.value > self.crit:
            return CRITICAL
        return WARNING if self.warn is not None and self.value > self.warn else OK

    @property
    def perfdata(self) -> str:
        """Write it as monitors read it: label=value[unit];warn;crit;min."""
        limits = ";".join("" if limit is None else f"{limit:g}" for limit in (self.warn, self.crit))
        return f"{self.name}={_number(self.value)}{self.unit};{limits};0"


@command(
    "check",
    "redrive check",
    "redrive check --max-dead 100 --max-age 1h",
    "redrive check --max-dead 10,100 --max-growth 10/m --max-unserved 0",
)
@option("--max-dead [WARN,]N", "Number of dead letters.")
@option("--max-age [WARN,]TIME", "How long the oldest dead letter has been dead.")
@option("--max-growth [WARN,]RATE", "Deaths per time, such as 10/m, over ten minutes.")
@option("--max-unserved [WARN,]N", "Lanes with due jobs and no worker.")
@option("--max-silent [WARN,]N", "Workers without a heartbeat for 15 s.")
@click.pass_obj
def check(cli: Cli, /, **limits: str | None) -> None:
    """Check the store against limits, in one line; exit 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.

    A number above its limit is critical; with two limits, above the first is a warning. Without any
    limit a dead letter, an unserved lane or a silent worker is a warning. A blocked event loop always
    is.
    """
    try:
        with cli.reading() as desk:
            figures = list(_figures(desk, limits))
    except (RedriveError, OSError) as error:
        cli.show(_view(UNKNOWN, str(error), []))
        raise click.exceptions.Exit(UNKNOWN) from error
    level = max(figure.level for figure in figures)
    message = " ".join(
        f"{figure.name}={figure.text or _number(figure.value)}" for figure in figures
    )
    cli.show(_view(level, message, figures))
    raise click.exceptions.Exit(level)


def _view(level: int, message: str, figures: list[Figure]) -> View:
    data = {
        "status": _NAMES[level],
        "message": message,
        "figures": {
            figure.name: {
                "value": figure.value,
                "warn": figure.warn,
                "crit": figure.crit,
                "level": figure.level,
            }
            for figure in figures
        },
    }
    perfdata = " ".join(figure.perfdata for figure in figures)
    # A bar separates the text from the figures, so the text must not contain figure.
    text = message.replace("|", "/")
    return View(data, [Line(f"{_NAMES[level]} {text}{f' | {perfdata}' if figures else ''}")])


def _figures(desk: Desk, limits: dict[str, str | None]) -> Iterator[Figure]:
    alone = not any(limits.values())
    health = health_of(desk)
    age, growth = health.age(State.DEAD) or 0.0, sum(desk.lanes.deaths(60, 10)) / 10

    def limit(name: str, default: float | None = None) -> tuple[float | None, float | None]:
        text = limits[name]
        return (default if alone else None, None) if text is None else _limits(name, text)

    yield Figure("dead", health.total(State.DEAD), "", "", *limit("max_dead", 0))
    yield Figure("oldest", age, "s", words(age), *limit("max_age"))
    yield Figure("growth", growth, "", f"{growth:g}/m", *limit("max_growth"))
    lanes, why = len(health.unserved), "; ".join(health.because.values())
    yield Figure(
        "unserved", lanes, "", f"{lanes} ({why})" if why else "", *limit("max_unserved", 0)
    )
    silent = sum(worker.is_silent for worker in health.workers)
    yield Figure("silent", silent, "", "", *limit("max_silent", 0))
    yield Figure("blocked", sum(one.blocked is not None for one in health.workers), "", "", 0)


def _limits(name: str, text: str) -> tuple[float | None, float | None]:
    """Read one limit, or two: the first warns."""
    first, comma, second = text.partition(",")
    if not comma:
        return None, _limit(name, first)
    warn, crit = _limit(name, first), _limit(name, second)
    if warn > crit:
        msg = f"{_option(name)} {text}: the first limit is the warning, so it must not be greater than the second"
        raise UsageError(msg)
    return warn, crit


def _limit(name: str, text: str) -> float:
    if name == "max_age":
        return seconds(text.strip(), name=_option(name))
    if name == "max_growth":
        match = _RATE.fullmatch(text)
        if match:
            return float(match[1]) * _PER_MINUTE[match[2]]
        raise UsageError(f"{_option(name)} must be a rate such as 10/m; found {text!r}")
    if text.strip().isascii() and text.strip().isdecimal() and len(text) < sys.float_info.dig:
        return float(text)
    raise UsageError(f"{_option(name)} must be a whole number; found {text!r}")


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
