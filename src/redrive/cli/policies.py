"""Policies and strategies as tables of delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat

import click

from redrive.cli._command import command
from redrive.cli._face import Face
from redrive.cli.output import Cell, Facts, Part, Span, Table, View, columns
from redrive.cli.output.plain import span
from redrive.in_place.retry import simulate
from redrive.jobs.durations import words
from redrive.jobs.job import Category
from redrive.policies.policy import Policy, Rule
from redrive.policies.presets import PRESETS
from redrive.strategies import (
    LONGEST,
    ConstantBackoffStrategy,
    ExponentialBackoffStrategy,
    FibonacciBackoffStrategy,
    LinearBackoffStrategy,
    RetryStrategy,
)

STRATEGIES: Mapping[str, Callable[[], RetryStrategy]] = {
    "exponential": ExponentialBackoffStrategy,
    "linear": LinearBackoffStrategy,
    "constant": ConstantBackoffStrategy,
    "fibonacci": FibonacciBackoffStrategy,
}
SHOWN = 10
"""How many delays of a bare strategy are shown."""


@command(
    "policy",
    "redrive policy show WEBHOOKS",
    "redrive policy show exponential --plain",
    "redrive policy show DEFAULT --json",
)
@click.argument("what", type=click.Choice(["show"]))
@click.argument("name")
@click.pass_obj
def policy(face: Face, what: str, name: str) -> None:
    """Show the delays and limits of a preset or a strategy.

    Presets: DEFAULT, WEBHOOKS, LLM, BATCH, SYNC, EVENTS. Strategies: exponential, linear,
    constant, fibonacci.
    """
    del what
    if name.lower() in STRATEGIES:
        face.show(_strategy_view(name.lower(), STRATEGIES[name.lower()]()))
    elif name.upper() in PRESETS:
        face.show(_policy_view(name.upper(), PRESETS[name.upper()]))
    else:
        known = ", ".join([*PRESETS, *STRATEGIES])
        raise click.UsageError(f"no policy {name!r}; there are: {known}")


def _strategy_view(name: str, strategy: RetryStrategy) -> View:
    delays = _delays(strategy, SHOWN)
    facts: list[tuple[str, Cell]] = [
        ("strategy", name),
        ("class", strategy.get_strategy_name()),
        ("cap", Span(strategy.max_backoff)),
        ("jitter", _jitter(strategy)),
    ]
    data = {"name": name, "strategy": repr(strategy), "delays": delays}
    heads = columns("failure:number", "delay:number", "lowest:number", "highest:number")
    rows = [[d["failure"], d["delay"], d["lowest"], d["highest"]] for d in _worded(delays)]
    return View(data, [Facts(facts), Table(heads, rows, "Delays after each failure", "delay")])


def _policy_view(name: str, chosen: Policy) -> View:
    sets = _sets(chosen)
    facts: list[tuple[str, Cell]] = [
        ("policy", name),
        ("attempts", chosen.max_attempts),
        ("max age", Span(chosen.oldest)),
        ("a server's hint", _HINTS[chosen.hints]),
        ("completed kept", _kept(chosen.keep.completed)),
        ("resolved kept", _kept(chosen.keep.resolved)),
        ("dead kept", _kept(chosen.keep.dead)),
    ]
    parts: list[Part] = [Facts(facts), _category_table(chosen)]
    parts += [_delay_table(names, rule, len(sets) == 1) for names, rule in sets]
    data = {
        "name": name,
        "attempts": chosen.max_attempts,
        "max_age": chosen.oldest,
        "hints": chosen.hints,
        "keep": {
            "completed": chosen.keep.completed,
            "resolved": chosen.keep.resolved,
            "dead": chosen.keep.dead,
        },
        "categories": [_category_document(chosen, category) for category in Category],
    }
    return View(data, parts)


_HINTS = {
    "replace": "replaces the delay",
    "floor": "is the least delay",
    "ignore": "is ignored",
}


def _kept(age: float | None) -> Cell:
    return "for ever" if age is None else Span(age)


def _sets(chosen: Policy) -> list[tuple[list[Category], Rule]]:
    """Put the categories together that wait alike."""
    sets: list[tuple[list[Category], Rule]] = []
    for category in Category:
        rule = chosen.rule(category)
        if rule.dead:
            continue
        same = next((names for names, known in sets if known == rule), None)
        if same is None:
            sets.append(([category], rule))
        else:
            same.append(category)
    return sets


def _category_table(chosen: Policy) -> Table:
    rows: list[list[Cell]] = []
    for category in Category:
        rule = chosen.rule(category)
        attempts: Cell = _attempts(chosen, category)
        wait = "dead at once" if rule.dead or rule.wait is None else _words_of(rule.wait)
        rows.append([category, attempts, wait])
    return Table(
        columns("category:word", "attempts:number", "wait"), rows, "Categories", "category"
    )


def _attempts(chosen: Policy, category: Category) -> int:
    """Return the number of attempts where all failures are of one category."""
    return len(simulate(chosen, repeat(category), rand=lambda: 0.5).delays) + 1


def _delay_table(names: list[Category], rule: Rule, alone: bool) -> Table:
    """Show the delays, and the one more that the curve has but nobody waits for."""
    attempts = rule.attempts or 1
    said = "every category" if alone and len(names) > 1 else ", ".join(names)
    rows: list[list[Cell]] = [
        [
            said,
            delay["failure"],
            delay["delay"],
            delay["lowest"],
            delay["highest"],
            "retry" if index < attempts - 1 else "dead, never waited",
        ]
        for index, delay in enumerate(_worded(_delays_of(rule)))
    ]
    heads = columns(
        "categories:text:extra",
        "failure:number",
        "delay:number",
        "lowest:number",
        "highest:number",
        "then:word",
    )
    return Table(heads, rows, f"Delays: {said}", "delay")


def _category_document(chosen: Policy, category: Category) -> dict[str, object]:
    rule = chosen.rule(category)
    return {
        "category": category,
        "dead_at_once": rule.dead,
        "attempts": _attempts(chosen, category),
        "strategy": None if rule.wait is None else repr(rule.wait),
        "delays": [] if rule.dead else _delays_of(rule),
    }


def _delays_of(rule: Rule) -> list[dict[str, float]]:
    return [] if rule.wait is None else _delays(rule.wait, rule.attempts or 1)


def _delays(strategy: RetryStrategy, count: int) -> list[dict[str, float]]:
    """Return each delay without jitter, and the ends of the jitter's range; the cap holds for all."""
    cap = min(strategy.max_backoff, LONGEST)
    return [
        {
            "failure": index + 1,
            "delay": min(bare, cap),
            "lowest": strategy.apply_jitter(bare, lambda: 0.0),
            "highest": strategy.apply_jitter(bare, lambda: 1.0),
        }
        for index, bare in enumerate(strategy.calculate_backoff(n) for n in range(count))
    ]


def _worded(delays: list[dict[str, float]]) -> list[dict[str, str | None]]:
    """Return delays in seconds as text: rounded to minutes one could not compare them."""
    return [
        {name: f"{value:g}" if name == "failure" else span(value) for name, value in delay.items()}
        for delay in delays
    ]


def _words_of(strategy: RetryStrategy) -> str:
    cap = "" if strategy.max_backoff > LONGEST else f", cap {words(strategy.max_backoff)}"
    name = strategy.get_strategy_name().removesuffix("BackoffStrategy").lower()
    return f"{name} from {words(strategy.calculate_backoff(0))}{cap}, jitter {_jitter(strategy)}"


def _jitter(strategy: RetryStrategy) -> str:
    kind = strategy.jitter_factor if strategy.jitter is None else strategy.jitter
    if isinstance(kind, float | int):
        return f"± {kind:.0%}" if kind else "none"
    return str(kind) if kind in {"none", "full", "equal"} else f"± {kind}"
