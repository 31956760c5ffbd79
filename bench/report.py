"""The page that the figures are shown on."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from measure import NOISY, Goal, Result

INTRO = """# Performance

Written by `make bench`; do not edit. Absolute figures belong to one disk on one day: what counts are
the ratios, taken between contestants that took turns in one run.

Each figure is the median of {rounds} rounds; *spread* is how far they lie apart, as a part of it, and
a row above {noisy:.0%} should be measured again. Durability: **P** survives a power cut (synced before the call
returns), **K** survives `kill -9` and may lose the last ones to a power cut. Jobs carry 1 KiB of JSON.
*CPU* is the processor time of the worker or the submitting process and of PostgreSQL together.
"""

CONSOLE = Path(__file__).with_name("console.md")
"""Figures of `web.py`, written by hand: it needs a full store and takes too long for each run."""
PLOT = "![Redrive beside raw limits and peers](performance.svg)\n"


def page(results: Sequence[Result], facts: Mapping[str, str], rounds: int) -> str:
    """Write the whole page."""
    parts = [
        INTRO.format(rounds=rounds, noisy=NOISY),
        "\n".join(f"- {name}: {value}" for name, value in facts.items()) + "\n",
        PLOT,
        "## What has to hold\n",
        goals(results),
        *(section(result) for result in results),
        CONSOLE.read_text("utf-8"),
    ]
    return "\n".join(parts)


def goals(results: Iterable[Result]) -> str:
    """Say of every goal whether it was reached."""
    rows = ["| measure | | found | must | aim | |", "|---|---|--:|--:|--:|---|"]
    for result in results:
        for goal in result.measure.goals:
            found = result.reached(goal)
            what = (
                f"{goal.who} : {goal.over}" if goal.over else f"{goal.who}, {result.measure.unit}"
            )
            word = verdict(goal, found) + (", noisy" if _is_noisy(result, goal) else "")
            if goal.why and word.startswith("**missed"):
                word += f": {goal.why}"
            cells = (result.measure.title, what, *_bounds(goal, found), word)
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _is_noisy(result: Result, goal: Goal) -> bool:
    """Whether one of the two should be measured again."""
    names = [name for name in (goal.who, goal.over) if name]
    return result.reached(goal) is not None and any(result.spread(one) > NOISY for one in names)


def _bounds(goal: Goal, found: float | None) -> tuple[str, str, str]:
    sign = "≤" if goal.at_most else "≥"
    shown = "–" if found is None else f"{found:.3g}"
    return shown, f"{sign} {goal.must:g}", f"{sign} {goal.aim:g}"


def verdict(goal: Goal, found: float | None) -> str:
    """Say in a word what came of a goal."""
    if found is None:
        return "not measured"
    if goal.holds(found, goal.aim):
        return "reached"
    return "holds" if goal.holds(found, goal.must) else "**missed**"


def section(result: Result) -> str:
    """Write the table of one measure; ratios are to its first contestant."""
    measure = result.measure
    first = measure.contestants[0].name
    base = result.median(first)
    lines = [f"## {measure.title}\n"]
    if measure.note:
        lines.append(f"{measure.note}\n")
    lines.append(
        f"| | durability | {measure.unit} | spread | : {first} | CPU µs a job |\n"
        "|---|---|--:|--:|--:|--:|"
    )
    for one in measure.contestants:
        median = result.median(one.name)
        if median is None:
            why = result.failed.get(one.name, "not measured")
            lines.append(f"| {one.name} | {one.durability} | – | did not run: {why} | | |")
            continue
        ratio = f"{median / base:.2f}" if base else ""
        spread = _spread(result.spread(one.name))
        spent = result.cpu.get(one.name)
        cpu = figure(statistics.median(spent)) if spent else "–"
        cells = (one.name, one.durability, figure(median), spread, ratio, cpu)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _spread(spread: float) -> str:
    return f"{spread:.0%}, measure again" if spread > NOISY else f"{spread:.0%}"


def figure(value: float) -> str:
    """Write a figure with three digits that matter."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
