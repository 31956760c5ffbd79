"""From an action and its data to something that can be run, and kept when it fails.

An action is a plain function or a registered handler. Only a handler can be run again by a worker;
for a plain function the dead letter keeps the data under the event's type as the handler's name, so a
program that registers a handler of that name can drive it again.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from redrive import _json, redact
from redrive.errors import BadPayload, UsageError
from redrive.handler import Handler
from redrive.keeping import Options
from redrive.worker.registry import Entry

Action: TypeAlias = "Callable[[], object] | Callable[[Any], object] | Handler[..., object]"
"""What an event does. A function that needs an argument is called with the event's data."""

_UNFIT = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 64
_TEXT = 100_000
_DEEPEST = _json.MAX_DEPTH - 4
_MOST_VALUES = 50_000
_LONGEST_INTEGER = 10_000
"""In bits; what is longer is kept as text."""


@dataclass(frozen=True, slots=True)
class Work:
    """How to run an action in place, and what to keep of it."""

    entry: Entry
    payload: str
    call: Callable[[], object]


def work_of(action: Action, data: Mapping[str, object], event_type: str, limit: int) -> Work:
    """Prepare an action; whatever the data holds, there is a payload to keep."""
    if not isinstance(data, Mapping):
        msg = f"data must be a mapping of names to values; found {redact.type_name(data)}"
        raise UsageError(msg)
    if isinstance(action, Handler):
        if action.chosen != Options():
            msg = f"give {action.name} itself as the action: an event has no use for its options"
            raise UsageError(msg)
        return _of_handler(action.entry, data, limit)
    if not callable(action) or inspect.iscoroutinefunction(action):
        msg = f"action must be a function (not async) or a registered handler; found {action!r}"
        raise UsageError(msg)
    function = cast("Callable[..., object]", action)
    call = (lambda: function(data)) if _needs_argument(function) else function
    return Work(Entry.unregistered(_name(event_type)), payload_of(data, limit), call)


def _name(event_type: object) -> str:
    """Give a handler's name for an event's type, whatever characters that has."""
    name = _UNFIT.sub("_", str(event_type))[:_LONGEST_NAME]
    return "_" + name[1:] if not name or name.startswith(".") else name


def _of_handler(entry: Entry, data: Mapping[str, object], limit: int) -> Work:
    """Bind the data to the handler; what does not fit is kept as it is, for people to edit."""
    if entry.is_async:
        msg = f"{entry.name} is async, but an event's action runs here and now; use its `asubmit`"
        raise UsageError(msg)
    arguments = dict(data)
    try:
        payload = entry.arguments.dump((), arguments, limit)
    except UsageError as error:
        return Work(entry, payload_of(data, limit), _raising(BadPayload(str(error))))
    return Work(entry, payload, lambda: entry.function(**arguments))


def _raising(error: Exception) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


def _needs_argument(function: Callable[..., object]) -> bool:
    """Whether a function has a positional parameter without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions do not tell
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(one.kind in places and one.default is one.empty for one in parameters)


def payload_of(data: Mapping[str, object], limit: int) -> str:
    """Write data as JSON; what JSON cannot hold becomes text, so that no event is lost to it."""
    try:
        return _json.dumps(dict(data), max_bytes=limit)
    except BadPayload:
        pass
    plain = _Plain()
    try:
        return _json.dumps(plain.of(data), max_bytes=limit)
    except BadPayload as error:
        return _json.dumps({"not_kept": str(error), "keys": [plain.of(key) for key in data][:50]})


class _Plain:
    """Turns values into plain JSON, up to a number of them: small data can refer to itself a lot."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, value: object, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return f"<{redact.type_name(value)}: too deep or too much>"
        if isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value).items()
            return {redact.safe_text(k, 200): self.of(v, depth + 1) for k, v in pairs}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.of(item, depth + 1) for item in cast("list[object]", value)]
        return value if _is_json(value) else redact.safe_text(value, _TEXT)


def _is_json(value: object) -> bool:
    match value:
        case None | bool():
            return True
        case int():
            return type(value) is int and value.bit_length() <= _LONGEST_INTEGER
        case float():
            return type(value) is float and math.isfinite(value)
        case _:
            return False
