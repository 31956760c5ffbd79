"""Policies and strategies as tables of delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import repeat
from typing import Any

import click

from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli.output import Facts, Field, Part, Table, View, fact, fields, joined
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

KEPT = ("completed", "resolved", "dead")
STRATEGIES: Mapping[str, Callable[[], RetryStrategy]] = {
    "exponential": ExponentialBackoffStrategy,
    "linear": LinearBackoffStrategy,
    "constant": ConstantBackoffStrategy,
    "fibonacci": FibonacciBackoffStrategy,
}
SHOWN = 10  # how many delays of a bare strategy are shown
_HINTS = {"replace": "replaces the delay", "floor": "is the minimum delay", "ignore": "is ignored"}


def _kept(state: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda policy: "forever" if policy["keep"][state] is None else policy["keep"][state]


_POLICY = [
    *fields("name=policy attempts max_age:span"),
    *fields("hints=a_server's_hint", hints=lambda policy: _HINTS[str(policy["hints"])]),
    *(Field(state, f"{state} kept", "span", show=_kept(state)) for state in KEPT),
]
_CATEGORIES = fields("category:word attempts:number wait:main")
_DELAYS = fields("failure:number delay:exact lowest:exact highest:exact")
_STEPS = [*fields("categories+"), *_DELAYS, *fields("then:word")]


@command(
    "policy",
    "redrive policy show WEBHOOKS",
    "redrive policy show exponential --plain",
    "redrive policy show DEFAULT --json",
)
@click.argument("what", type=click.Choice(["show"]))
@click.argument("name")
@click.pass_obj
def policy(cli: Cli, what: str, name: str) -> None:
    """Show the delays and limits of a policy or a strategy.

    Presets: DEFAULT, WEBHOOKS, LLM, BATCH, SYNC, EVENTS. Strategies: exponential, linear,
    constant, fibonacci.
    """
    del what
    if name.lower() in STRATEGIES:
        cli.show(_strategy_view(name.lower(), STRATEGIES[name.lower()]()))
    elif name.upper() in PRESETS:
        cli.show(_policy_view(name.upper(), PRESETS[name.upper()]))
    else:
        known = ", ".join([*PRESETS, *STRATEGIES])
        raise click.UsageError(f"no policy {name!r}; known: {known}")


def _strategy_view(name: str, strategy: RetryStrategy) -> View:
    data = {"name": name, "strategy": repr(strategy), "delays": _delays(strategy, SHOWN)}
    facts = [
        fact("strategy", name),
        fact("class", strategy.get_strategy_name()),
        fact("cap", strategy.max_backoff, "span"),
        fact("jitter", _jitter(strategy)),
    ]
    delays = Table(_DELAYS, _delays(strategy, SHOWN), "Delays after each failure", "delay")
    return View(data, [Facts(facts), delays])


def _policy_view(name: str, policy: Policy) -> View:
    categories = [_category_document(policy, category) for category in Category]
    data = {
        "name": name,
        "attempts": policy.max_attempts,
        "max_age": policy.oldest,
        "hints": policy.hints,
        "keep": asdict(policy.keep),
        "categories": categories,
    }
    waits = [{**row, "wait": _wait(policy.rule(row["category"]))} for row in categories]
    parts: list[Part] = [Facts(_POLICY, data), Table(_CATEGORIES, waits, "Categories", "category")]
    sets = _sets(policy)
    parts += [_delay_table(names, rule, alone=len(sets) == 1) for names, rule in sets]
    return View(data, parts)


def _sets(policy: Policy) -> list[tuple[list[Category], Rule]]:
    """Return the categories with the same delays together."""
    sets: list[tuple[list[Category], Rule]] = []
    for category in Category:
        rule = policy.rule(category)
        if rule.dead:
            continue
        same = next((names for names, known in sets if known == rule), None)
        if same is None:
            sets.append(([category], rule))
        else:
            same.append(category)
    return sets


def _wait(rule: Rule) -> str:
    return "dead at once" if rule.dead or rule.wait is None else _described(rule.wait)


def _attempts(policy: Policy, category: Category) -> int:
    """Return the number of attempts if all failures are of one category."""
    return len(simulate(policy, repeat(category), rand=lambda: 0.5).delays) + 1


def _delay_table(names: list[Category], rule: Rule, *, alone: bool) -> Table:
    """Show the delays, and the one after the last attempt, which no job waits for."""
    categories = "every category" if alone and len(names) > 1 else joined(names)
    rows = [{**delay, "categories": categories, "then": "retry"} for delay in _delays_of(rule)]
    for row in rows[(rule.attempts or 1) - 1 :]:
        row["then"] = "dead, no wait"
    return Table(_STEPS, rows, f"Delays: {categories}", "delay")


def _category_document(policy: Policy, category: Category) -> dict[str, Any]:
    rule = policy.rule(category)
    return {
        "category": category,
        "dead_at_once": rule.dead,
        "attempts": _attempts(policy, category),
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


def _described(strategy: RetryStrategy) -> str:
    cap = "" if strategy.max_backoff > LONGEST else f", cap {words(strategy.max_backoff)}"
    name = strategy.get_strategy_name().removesuffix("BackoffStrategy").lower()
    return f"{name} from {words(strategy.calculate_backoff(0))}{cap}, jitter {_jitter(strategy)}"


def _jitter(strategy: RetryStrategy) -> str:
    kind = strategy.jitter_factor if strategy.jitter is None else strategy.jitter
    if isinstance(kind, float | int):
        return f"± {kind:.0%}" if kind > 0 else "none"
    return str(kind) if kind in {"none", "full", "equal"} else f"± {kind}"
