"""Warn once of clients that retry by themselves inside a provider.

Retries in two layers multiply: 3 attempts of a client in each of 5 attempts of a job are 15
requests, and delay the next provider. No client library is imported: OpenAI's,
Anthropic's and those generated like them have `max_retries`, and count their retries in a header of
the request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from redrive.classify.clues import as_text, as_whole, guarded, reach
from redrive.in_place.cooldowns import log

_HEADER = "x-stainless-retry-count"
_warned: set[str] = set()


def look_at(function: Callable[..., Any], provider: str) -> None:
    """Warn of clients that a provider uses, as far as they can be seen from outside."""
    used = guarded(lambda: list(_used_by(function))) or []
    for client in (*used, *(_held(thing, "_client") for thing in used)):
        retries = as_whole(_held(client, "max_retries")) or 0
        if retries > 0 and _held(client, "base_url") is not None:
            _warn(provider, f"max_retries={retries}")


def _held(thing: object, name: str) -> object:
    """Return an attribute without running code, which might use the network."""
    return guarded(inspect.getattr_static, thing, name, None)


def warn_of(error: Exception, provider: str) -> None:
    """Warn of a client whose request had been repeated before it failed."""
    headers = reach(error, "request", "headers")
    count = guarded(int, as_text(reach(headers, _HEADER)) or "") or 0
    if count > 0:
        _warn(provider, f"{count} × just now")


def _warn(provider: str, evidence: str) -> None:
    if provider not in _warned:
        _warned.add(provider)
        log.warning(
            "the client of provider %s retries by itself (%s); set max_retries=0: retries in "
            "two layers multiply, and delay the next provider",
            provider,
            evidence,
        )


def _used_by(function: Any) -> Iterator[object]:
    """List what a function holds: bound arguments, its object, its closure and its globals."""
    if isinstance(function, partial):
        yield from (*function.args, *function.keywords.values())
        yield from _used_by(function.func)
        return
    if inspect.ismethod(function):
        yield function.__self__
        held = guarded(object.__getattribute__, function.__self__, "__dict__")
        yield from (held or {}).values()
        function = function.__func__
    if inspect.isfunction(function):
        yield from (cell.cell_contents for cell in function.__closure__ or ())
        names, scope = function.__code__.co_names, function.__globals__
        yield from (scope[name] for name in names if name in scope)
