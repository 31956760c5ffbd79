"""The user's own rules: which errors they match, and what is logged of one that raises."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from redrive.classify import clues as look
from redrive.classify.clues import Clues, as_text, as_whole, errno_name, name_of
from redrive.jobs.logger import log
from redrive.payloads.masking import type_name
from redrive.policies.policy import When

_MINUTE: Final = 60.0
_WARNED: Final[dict[str, float]] = {}
"""When a rule that raises may be logged again, by its description and place."""


def applies(rule: When, clues: Clues, raised: list[str]) -> bool:
    """Return True if a rule matches an error; one whose test raises does not, and is logged."""
    try:
        return _matches(rule, clues)
    except Exception as error:  # noqa: BLE001 - user code
        raised.append(f"your rule for {description(rule)} raised {type_name(error)}")
        _warn(rule, error)
        return False


def has_rule(error: BaseException, rules: Sequence[When]) -> bool:
    """Return True if one of the user's rules is about this error."""
    clues = look.guarded(look.gather, error) if rules else None
    return clues is not None and any(applies(rule, clues, []) for rule in rules)


def _matches(rule: When, clues: Clues) -> bool:
    """Return True if an error meets every condition of a rule."""
    cls = type(clues.error)
    return (
        (rule.status is None or rule.status == clues.status)
        and (rule.code is None or _has_code(clues, rule.code))
        and (rule.error is None or issubclass(cls, rule.error))
        and (rule.name is None or any(_is_named(base, rule.name) for base in cls.__mro__))
        and (rule.test is None or bool(rule.test(clues.error)))
    )


def _has_code(clues: Clues, code: str) -> bool:
    # A number is a code only to those who ask for it.
    number = clues.held.get("code")
    return code in (as_text(number), str(as_whole(number)), errno_name(clues), *dict(clues.codes))


def _is_named(cls: type, name: str) -> bool:
    """Match `openai.RateLimitError` wherever below `openai` the class is defined."""
    package, _, last = name.rpartition(".")
    module = getattr(cls, "__module__", "")
    below = not package or f"{module}.".startswith(f"{package}.")
    return (below and cls.__name__ == last) or f"{module}.{cls.__qualname__}" == name


def description(rule: When) -> str:
    """Return what a rule is about, as text."""
    kinds = rule.error if isinstance(rule.error, tuple) else filter(None, [rule.error])
    parts = (
        " or ".join(map(name_of, kinds)) or rule.name,
        f"status {rule.status}" if rule.status else None,
        f"code {rule.code}" if rule.code else None,
        (as_text(look.reach(rule.test, "__name__")) or "a test") if rule.test else None,
    )
    return ", ".join(filter(None, parts))


def _warn(rule: When, error: BaseException) -> None:
    """Log that a rule raised an error, at most once a minute; not its text, which may be secret."""
    code = look.reach(rule.test, "__code__")
    place = f"{look.reach(code, 'co_filename')}:{look.reach(code, 'co_firstlineno')}"
    name, now = f"{description(rule)} ({place if code else rule.then})", time.monotonic()
    if now >= _WARNED.get(name, now):
        _WARNED[name] = now + _MINUTE
        text = "the rule for %s raised %s, which counts as no match: correct its test"
        log.warning(text, name, type_name(error), extra={"event": "rule_failed"})
