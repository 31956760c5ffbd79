"""What the site prints below `python.md`: signatures and docstrings of everything public."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import redrive

SECTIONS = {
    "The app": "Redrive Handler Tried current Event",
    "Policies": "Policy Rule DEAD Pause Keep when presets",
    "Backoff": "exponential linear constant fibonacci",
    "In place": "retry retrying fallback",
    "Raised by handlers": "RetryLater GiveUp Skip",
    "Records": "Job State Reason Attempt Failure Category Group",
    "The base of all errors": "RedriveError",
}
MODULES = {
    "redrive.desk.desk": "Desk",
    "redrive.desk.jobs": "Jobs",
    "redrive.desk.groups": "Groups GroupRecord",
    "redrive.desk.runs": "Runs",
    "redrive.desk.lanes": "Lanes LanePause LiveWorker",
    "redrive.desk.log": "Log",
    "redrive.desk.transfer": "Transfer",
    "redrive.errors": (
        "UsageError BadPayload KeyConflict UnknownHandler JobNotFound Refused Kept "
        "AttemptTimeout ResultRejected Undelivered NoAnswer AllProvidersFailed ProviderPaused StoreError StoreMissing StoreBusy "
        "StoreFull StoreDamaged StoreForeign StoreLost StoreReadOnly"
    ),
    "redrive.strategies": (
        "RetryStrategy ExponentialBackoffStrategy LinearBackoffStrategy ConstantBackoffStrategy "
        "FibonacciBackoffStrategy"
    ),
    "redrive.testing": "in_memory Harness FoundJobs no_waiting ManualClock simulate Simulation",
    "redrive.context": "Current",
    "redrive.in_place.options": "RetryEvent",
    "redrive.in_place.fallback": "Answer",
    "redrive.delivery.endpoint": "Endpoint",
    "redrive.worker.passes": "Pass",
    "redrive.alerts": "Alerts Rules webhook apprise",
    "redrive.contrib.event_stream": "ResilientEventStream",
    "redrive.metrics": "Collector InPlaceCollector text",
    "redrive.logs": "JsonFormatter",
    "redrive.web": "asgi",
    "redrive.contrib.cloud_tasks": "CloudTasks",
    "redrive.contrib.firestore": "mirror",
}
SMALL, SHORT = 60, 40


def signature(thing: Any) -> str:
    """Spell how it is called, as the source does."""
    if inspect.isclass(thing) and "__wrapped__" in vars(thing):
        return "(…)"  # only some versions of Python look through a class that wraps a function
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    parts, star = list[str](), False
    for one in found.parameters.values():
        if one.name in {"self", "cls"} or one.name.startswith("_"):
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or one.kind in {one.KEYWORD_ONLY, one.VAR_POSITIONAL}
        parts.append(spelled(one))
    gives = None if inspect.isclass(thing) else found.return_annotation
    end = "" if gives in {None, found.empty} else f" -> {note(gives)}"
    flat = f"({', '.join(parts)}){end}"
    if len(flat) <= SMALL:
        return flat
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def spelled(one: inspect.Parameter) -> str:
    """Spell one parameter; a default that has no words of its own is dots."""
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    kind = "" if one.annotation is one.empty else f": {note(one.annotation)}"
    if one.default is one.empty:
        return f"{stars}{one.name}{kind}"
    worded = repr(one.default.value if isinstance(one.default, enum.Enum) else one.default)
    is_short = len(worded) <= SHORT and not worded.startswith("<")
    return f"{one.name}{kind} = {worded if is_short else '…'}"


def note(annotation: object) -> str:
    """Spell an annotation."""
    if isinstance(annotation, str):
        return annotation
    return "None" if annotation is None else getattr(annotation, "__name__", str(annotation))


def words(thing: Any) -> str:
    """Give the docstring, its examples set apart."""
    parts = inspect.cleandoc(thing.__doc__ or "").strip().split("\n\n")
    return "\n\n".join(f"```text\n{one}\n```" if one.startswith(">>>") else one for one in parts)


def fields_of(kind: type) -> Iterator[tuple[str, str]]:
    """Give the fields of a class that have words below them, in the order of the source."""
    if "__wrapped__" in vars(kind):
        return  # a handler passes for the function it wraps
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for one, below in pairwise(body):
        match one, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                yield name, " ".join(said.split())
            case _:
                pass


def methods_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Give what a class can do, its own and what it has from other classes of ours."""
    for name, found in inspect.getmembers_static(kind):
        bare = getattr(found, "__func__", found)
        is_ours = inspect.isfunction(bare) and bare.__module__.startswith("redrive")
        if not name.startswith("_") and (is_ours or isinstance(found, property)):
            yield name, found if isinstance(found, property) else bare


def entry(name: str, thing: Any) -> Iterator[str]:
    """Give what the page says about one name."""
    yield f"### {name}\n\n"
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        yield f"{words(thing)}\n\n" + ", ".join(f"`{one.value}`" for one in thing) + "\n\n"
        return
    if callable(thing) and not isinstance(thing, redrive.Rule):
        yield f"```text\n{name}{signature(thing)}\n```\n\n"
    yield f"{words(thing)}\n\n"
    if inspect.isclass(thing):
        rows = [
            f"| `{field}` | {said.replace('|', chr(92) + '|')} |\n"
            for field, said in fields_of(thing)
        ]
        yield "".join(["| field | |\n|---|---|\n", *rows, "\n"]) if rows else ""
        for method, found in methods_of(thing):
            called = "" if isinstance(found, property) else signature(found)
            first = words(found).partition("\n\n")[0].replace("\n", " ")
            yield f"- `{method}{' '.join(called.split())}`: {first}\n".replace("( ", "(").replace(
                ", )", ")"
            )
        yield "\n"


def page() -> str:
    """Return the part of the page that is made."""
    parts = list[str]()
    for title, names in SECTIONS.items():
        parts.append(f"\n## {title}\n\n")
        parts += [part for name in names.split() for part in entry(name, getattr(redrive, name))]
    for module, names in MODULES.items():
        parts.append(f"\n## {module}\n\n")
        home = importlib.import_module(module)
        parts += [part for name in names.split() for part in entry(name, getattr(home, name))]
    return "".join(parts).rstrip("\n") + "\n"
