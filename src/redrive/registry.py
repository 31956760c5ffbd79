"""The handlers a program knows, by the names that are on disk."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from redrive.errors import UnknownHandler, UsageError
from redrive.jobs import checks
from redrive.jobs.job import Job
from redrive.jobs.logger import log
from redrive.jobs.reports import EventKind
from redrive.payloads import masking, strict_json
from redrive.payloads.arguments import Arguments
from redrive.payloads.escaping import DRIVING
from redrive.policies.policy import Policy

_LONGEST_NAME, _LONGEST_LANE = 64, 128
UNFIT = rf"""\s:"'*,|(){DRIVING}"""
"""What no name may have, as a set of a regular expression: what selectors need and nobody can see."""
_UNFIT = re.compile(f"[{UNFIT}]")


Isolation = Literal["thread", "process"]
"""Beside others in the worker's own process, or in a child, which can be killed."""

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One registered handler: the function and its settings."""

    name: str
    function: Callable[..., object]
    arguments: Arguments
    policy: Policy
    lane: str
    timeout: float | None = None
    isolation: Isolation | None = None
    """Where a worker runs it; None: in a child if it is a plain function with a time limit."""
    already_done: Callable[..., object] | None = None
    formerly: tuple[str, ...] = ()
    is_async: bool = False
    kinds: frozenset[EventKind] = frozenset()
    """The kinds of events that a listener is called for; none for a handler."""

    @property
    def source(self) -> str:
        """The module that defines it, also if it is the script that was started; empty if unknown."""
        module = str(getattr(self.function, "__module__", None) or "")
        if module != "__main__":
            return "" if module.startswith("redrive.") else module  # an endpoint is everybody's
        main = sys.modules[module]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        return spec.name if spec else Path(file or module).stem

    @property
    def first_name(self) -> str:
        """The name it had first: groups of failures stay when a handler is renamed."""
        return (*self.formerly, self.name)[0]

    def is_apart(self, *, suspect: bool) -> bool:
        """Return True if it runs in a child: asked for, limited in time, or suspected of a crash."""
        if self.isolation == "thread":
            return False
        return self.isolation == "process" or self.is_unlimited or suspect

    @property
    def is_unlimited(self) -> bool:
        """True if it has a time limit that only a process of its own can enforce."""
        return self.timeout is not None and not self.is_async

    @classmethod
    def unregistered(cls, name: str) -> Entry:
        """Return the entry of a handler that this program does not know, to store its work."""
        check_name(name)
        return cls(
            name=name,
            function=_nothing,
            arguments=Arguments(_nothing, name),
            policy=Policy(attempts=1),
            lane=name,
        )


def _nothing(**_: object) -> None:
    """Do nothing; never called."""


class Registry:
    """Finds a handler by its name or by one it had before."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._aliases: dict[str, Entry] = {}
        self._withdrawn: dict[str, str] = {}

    def add(self, entry: Entry) -> None:
        """Register a handler; two of one name are a mistake."""
        for name in (entry.name, *entry.formerly):
            check_name(name)
            if name in self._aliases:
                other = self._aliases[name].function
                raise UsageError(
                    f"two handlers have the name {name!r}: it belongs to {other.__module__}.{other.__qualname__}; "
                    "names are stored with jobs and must be unique"
                )
        check_lane(entry.lane)
        self._entries[entry.name] = entry
        self._aliases.update(dict.fromkeys((entry.name, *entry.formerly), entry))

    def wrap(self, change: Callable[[Entry], Entry]) -> None:
        """Replace every entry by what `change` returns for it, in this process."""
        self._entries = {name: change(entry) for name, entry in self._entries.items()}
        self._aliases = {name: self._entries[old.name] for name, old in self._aliases.items()}

    def get(self, name: str) -> Entry | None:
        """Return the handler of that name, or None."""
        return self._aliases.get(name)

    def need(self, name: str) -> Entry:
        """Return the handler of that name; UnknownHandler names those that are registered."""
        entry = self._aliases.get(name)
        if entry is None:
            known = ", ".join(sorted(self._entries)) or "none"
            msg = f"no handler named {name!r} is registered in this program; known: {known}"
            raise UnknownHandler(msg)
        return entry

    def call_of(
        self, name: str, payload: Mapping[str, object], policy: Policy, limit: int
    ) -> tuple[Entry, str]:
        """Return the handler of that name and the payload as text.

        Without such a handler, the entry stands for one: it has this policy and is never run.
        """
        entry = self._aliases.get(check_name(name))
        if not isinstance(payload, Mapping):
            kind = type(payload).__name__  # not the value: it may be secret
            raise UsageError(f"a payload must be a mapping of names to values; found {kind}")
        if entry is not None:
            values = entry.arguments.by_present_names(dict(payload))
            return entry, entry.arguments.dump((), values, limit)
        text = strict_json.dumps(dict(payload), max_bytes=limit)
        return replace(Entry.unregistered(name), policy=policy), text

    def names(self) -> frozenset[str]:
        """Return every handler name, older ones included, that this program can run."""
        return frozenset(self._aliases)

    def lane_of(self, job: Job) -> str | None:
        """Return the lane of a job that a program without its handler submitted; None if it is there.

        Such a job waits in the lane of its handler's name, which a handler in another lane leaves free.
        """
        entry = self._aliases[job.handler]
        is_elsewhere = job.lane == job.handler and entry.lane != entry.name
        return entry.lane if is_elsewhere and entry.lane != job.lane else None

    def withdraw(self, name: str, why: str) -> None:
        """Stop serving a handler in this process, because a library that it needs is missing."""
        if name not in self._withdrawn:
            self._withdrawn[name] = why
            log.error(
                "handler %s cannot run here: %s; its jobs wait and use up no attempts. Install "
                "what is missing and restart this process",
                name,
                masking.inert(why),
            )

    def reinstate(self) -> None:
        """Serve every handler again; for tests."""
        self._withdrawn.clear()

    @property
    def withdrawn(self) -> Mapping[str, str]:
        """The handlers that this process does not serve any more, and why."""
        return self._withdrawn

    def served_names(self) -> frozenset[str]:
        """Return the names of all jobs that this process runs."""
        if not self._withdrawn:
            return self.names()
        served = self._aliases.items()
        return frozenset(name for name, entry in served if entry.name not in self._withdrawn)

    def served_lanes(self) -> frozenset[str]:
        """Return the lanes whose jobs this process runs, each of them."""
        lost = {self._entries[name].lane for name in self._withdrawn}
        return frozenset(entry.lane for entry in self) - lost

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def warn_unlimited(entry: Entry) -> None:
    """Warn once that a plain function runs here, where nothing can end it."""
    if entry.name not in _warned:
        _warned.add(entry.name)
        warnings.warn(
            f"the time limit of handler {entry.name!r} is not enforced here: a plain function can "
            "be stopped only in a process of its own, and no other process can import this program; put it into a "
            "module (`redrive work module:app`), or make the handler async",
            RuntimeWarning,
            stacklevel=2,
        )


def check_apart(registry: Registry, program: Callable[[], str | None]) -> None:
    """Refuse to run in this process what asked for one of its own."""
    asked = [entry.name for entry in registry if entry.isolation == "process"]
    if asked and program() is None:
        raise UsageError(
            f"handler {asked[0]!r} asks for a process of its own (isolation='process'), but no other "
            "process can import this program; put it into a module and run `redrive work module:app`, "
            "or name it: app.worker(program='module:app')"
        )


_warned: set[str] = set()


def check_functions(
    name: str, function: Callable[..., object], already_done: Callable[..., object] | None
) -> bool:
    """Return True if a handler is async; refuse generators and an async `already_done`."""
    checks.function(function, f"handler {name!r}")
    if already_done is not None:
        checks.function(already_done, f"already_done of handler {name!r}")
    if _is_method(function):
        raise UsageError(
            f"handler {name!r}: {function.__qualname__} is a method, but a job has no instance to "
            "call it on; register a function, or a bound method: app.handler(name)(instance.method)"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(
            f"handler {name!r} is a generator; generators are not supported: return a value instead"
        )
    if already_done is not None and checks.is_async(already_done):
        raise UsageError(f"handler {name!r}: already_done must be a plain function, not async")
    return checks.is_async(function)


def _is_method(function: Callable[..., object]) -> bool:
    """Return True for a function that stands in a class and takes its instance or class first."""
    if not inspect.isfunction(function):
        return False
    owner = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters), "")
    return bool(owner) and not owner.endswith("<locals>") and first in {"self", "cls"}


def check_name(name: str) -> str:
    """Refuse a name that could not safely stand in a selector, a command, a log line or a URL."""
    if not _is_name(name, _LONGEST_NAME):
        hint = '; write @app.handler("name")' if callable(name) else ""
        msg = f"a name must be 1 to {_LONGEST_NAME} {_RULE}; found {name!r}{hint}"
        raise UsageError(msg)
    return name


def check_lane(lane: str) -> str:
    """Refuse a lane's name like a handler's; a colon may stand in it."""
    if not isinstance(lane, str) or not _is_name(lane.replace(":", "_"), _LONGEST_LANE):
        msg = f"a lane must be 1 to {_LONGEST_LANE} {_RULE} (a colon may); found {lane!r}"
        raise UsageError(msg)
    return lane


_RULE = """printable characters; space : " ' * , | ( ) may not be in it, nor - begin it"""


def _is_name(name: object, most: int) -> bool:
    return (
        isinstance(name, str)
        and 0 < len(name) <= most
        and name[0] != "-"
        and name not in {".", ".."}  # a browser would take them out of a URL
        and not _UNFIT.search(name)
    )


def fitted_name(text: str) -> str:
    """Make a name of any text: what may not be in a name becomes `_`."""
    fit = _UNFIT.sub("_", text)[:_LONGEST_NAME]
    return fit if _is_name(fit, _LONGEST_NAME) else f"_{fit[1:]}"


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags as a tuple; raise UsageError for one that is no name, or for a text."""
    return tuple(check_name(tag) for tag in checks.texts(tags, "tags"))


def check_isolation(isolation: Isolation | None) -> None:
    """Refuse any value but "thread", "process" and None."""
    if isolation is not None and isolation not in get_args(Isolation):
        raise UsageError(f"isolation must be 'thread' or 'process'; found {isolation!r}")


def check_key(key: str | None) -> str | None:
    """Refuse an idempotency key that could not travel in a header."""
    if key is not None and not _KEY.fullmatch(checks.text(key, "a key")):
        raise UsageError(f"a key must be 1 to 255 visible ASCII characters; found {key[:300]!r}")
    return key
