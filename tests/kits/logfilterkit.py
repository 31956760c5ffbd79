"""Cloud Logging as far as a log-based metric needs it: lines become entries, and a filter matches them.

The filter language: comparisons (`= != < <= > >= :`) of a field with a value or with values in
parentheses, NOT, OR, AND (OR binds tighter), parentheses. Text is compared without regard to case, and
a comparison with a field that is missing is false, but for `!=`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Entry = dict[str, Any]
Test = Callable[[Entry], bool]

SEVERITIES = (
    *("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING"),
    *("ERROR", "CRITICAL", "ALERT", "EMERGENCY"),
)
_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<op>!=|>=|<=|[=<>:])|(?P<mark>[()])|(?P<word>[\w.\-]+))'
)


def entry_of(line: str) -> Entry:
    """Return the entry that the agent makes of a line: JSON is a payload, other lines are text."""
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return {"severity": "DEFAULT", "textPayload": line}
    severity = str(fields.pop("severity", "DEFAULT")).upper()
    entry: Entry = {"severity": severity if severity in SEVERITIES else "DEFAULT"}
    if "time" in fields:
        entry["timestamp"] = fields.pop("time")
    return {**entry, "jsonPayload": fields}


def value_of(entry: Entry, path: str) -> Any:
    """Return the value of a field; None if it is missing."""
    value: Any = entry
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


class Filter:
    """A filter that is read once; call it with an entry."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            assert found is not None, f"not a filter: {text[at:]!r}"
            self._tokens.append((str(found.lastgroup), found[0].strip()))
            at = found.end()
        self._matches = self._all()
        assert not self._tokens, f"left over: {self._tokens}"

    def __call__(self, entry: Entry) -> bool:
        return self._matches(entry)

    def _next(self, *wanted: str) -> str:
        """Take the next token if it is one of these, or any if none is named."""
        if not self._tokens or (wanted and self._tokens[0][1] not in wanted):
            return ""
        return self._tokens.pop(0)[1]

    def _all(self) -> Test:
        tests = [self._any()]
        while self._tokens and self._tokens[0][1] != ")":
            self._next("AND")  # two comparisons beside each other are joined by AND too
            tests.append(self._any())
        return lambda entry: all(test(entry) for test in tests)

    def _any(self) -> Test:
        tests = [self._one()]
        while self._next("OR"):
            tests.append(self._one())
        return lambda entry: any(test(entry) for test in tests)

    def _one(self) -> Test:
        if self._next("NOT"):
            test = self._one()
            return lambda entry: not test(entry)
        if self._next("("):
            test = self._all()
            assert self._next(")"), "a parenthesis is not closed"
            return test
        kind, path = self._tokens.pop(0)
        assert kind == "word", f"a field is needed, not {path}"
        operator = self._next("=", "!=", "<", "<=", ">", ">=", ":")
        assert operator, f"no comparison after {path}"
        values = self._values()
        return lambda entry: any(
            _compare(path, value_of(entry, path), operator, value) for value in values
        )

    def _values(self) -> list[str]:
        if not self._next("("):
            return [self._value()]
        values = [self._value()]
        while self._next("OR"):
            values.append(self._value())
        assert self._next(")"), "a parenthesis is not closed"
        return values

    def _value(self) -> str:
        kind, text = self._tokens.pop(0)
        assert kind in {"text", "word"}, f"a value is needed, not {text}"
        return str(json.loads(text)) if kind == "text" else text


def _compare(path: str, found: object, operator: str, wanted: str) -> bool:
    if found is None:
        return operator == "!="
    a: Any
    b: Any
    a, b = str(found).casefold(), wanted.casefold()
    if path == "severity":
        a, b = SEVERITIES.index(str(found)), SEVERITIES.index(wanted.upper())
    elif isinstance(found, int | float) and not isinstance(found, bool):
        a, b = float(found), float(wanted)
    match operator:
        case ":":
            return wanted.casefold() in str(found).casefold()
        case "=":
            return bool(a == b)
        case "!=":
            return bool(a != b)
        case _:
            order = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
            return bool(order[operator])


def extracted(metric: dict[str, Any], entry: Entry) -> dict[str, Any]:
    """Return the labels that a metric takes from an entry."""
    labels: dict[str, Any] = {}
    for key, how in metric["labelExtractors"].items():
        found = re.fullmatch(r"EXTRACT\(([\w.]+)\)", how)
        assert found is not None, how
        labels[key] = value_of(entry, found[1])
    return labels
