"""Print the waits of every preset and strategy into `docs/policies.md`, between its two marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path

from redrive import constant, exponential, fibonacci, linear
from redrive.jobs.job import Category
from redrive.policies.policy import Policy
from redrive.policies.presets import PRESETS
from redrive.strategies import RetryStrategy
from redrive.testing import simulate

PAGE = Path(__file__).resolve().parents[1] / "policies.md"
BEGIN, END = "<!-- written by make pages -->\n", "<!-- until here -->\n"
STRATEGIES = {
    "exponential(1)": exponential(1),
    "linear(1)": linear(1),
    "constant(5)": constant(5),
    "fibonacci(1)": fibonacci(1),
}
FIRST = 8
MANY = 50


def said(seconds: float) -> str:
    """Say a wait as people would.

    >>> said(0.8), said(90), said(3570), said(86400)
    ('0.8 s', '90 s', '59.5 min', '24 h')
    """
    if seconds < 180:
        return f"{seconds:.4g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def windows(low: Iterable[float], high: Iterable[float]) -> str:
    """Give the shortest and the longest of each wait, or the one there is."""
    pairs = zip(low, high, strict=True)
    return ", ".join(said(a) if a == b else f"{said(a)}–{said(b)}" for a, b in pairs)


def curve(strategy: RetryStrategy) -> str:
    """Give the first waits of a strategy."""
    bare = [strategy.calculate_backoff(index) for index in range(FIRST)]
    ends = ([strategy.apply_jitter(one, lambda end=end: end) for one in bare] for end in (0.0, 1.0))
    return windows(*ends)


def table_of(name: str, policy: Policy) -> Iterator[str]:
    """Give one preset's table; categories that are treated alike share a row."""
    rows: dict[tuple[int, str], list[str]] = {}
    for category in Category:
        low, high = (
            simulate(policy, repeat(category, MANY), rand=lambda end=end: end).delays
            for end in (0.0, 1.0)
        )
        rows.setdefault((len(low) + 1, windows(low, high)), []).append(category.value)
    yield f"### {name}\n\n| failures of | attempts | waits between them |\n|---|--:|---|\n"
    for (attempts, waits), names in rows.items():
        yield f"| {', '.join(names)} | {attempts} | {waits or 'dead at once'} |\n"
    yield "\n"


def tables() -> str:
    """Give everything between the marks."""
    parts = ["| strategy | first waits, with the usual jitter of 20 % |\n|---|---|\n"]
    for name, strategy in STRATEGIES.items():
        parts.append(f"| `{name}` | {curve(strategy)} |\n")
    parts.append("\n## The presets\n\n")
    for name, policy in PRESETS.items():
        parts += table_of(name, policy)
    return "".join(parts)


def page() -> str:
    """Give the whole page, with fresh tables."""
    head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return f"{head}{BEGIN}\n{tables()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
