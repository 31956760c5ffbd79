"""Former names of a handler's parameters, and which arguments a handler takes by their names."""

from __future__ import annotations

from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from redrive.errors import UsageError


def fits(shape: Mapping[str, Any], names: AbstractSet[str]) -> bool:
    """Return True if a handler of that shape takes arguments of these names; False for no shape."""
    if "needs" not in shape:
        return False
    now = {name_now(shape.get("renamed", {}), name, names) for name in names}
    return now.issuperset(shape["needs"]) and ("takes" not in shape or now.issubset(shape["takes"]))


def name_now(renamed: Mapping[str, str], name: str, names: Container[str]) -> str:
    """Return the present name of an argument; one that is stored under both names keeps both."""
    new = renamed.get(name, name)
    return name if new in names else new


def checked_renames(
    renamed: Mapping[str, str], names: AbstractSet[str], handler: str
) -> Mapping[str, str]:
    """Return the former names of parameters; UsageError unless each maps to a parameter."""
    if not isinstance(renamed, Mapping):
        raise UsageError(
            f"handler {handler!r}: renamed must map a former name to a parameter, such as "
            f"renamed={{'old': 'new'}}; found {renamed!r}"
        )
    for old, new in renamed.items():
        if new not in names or old in names:
            raise UsageError(
                f"handler {handler!r}: renamed={{{old!r}: {new!r}}} must map a former name to a "
                f"parameter; the parameters are {', '.join(sorted(names)) or 'none'}"
            )
    return dict(renamed)
