"""Programs by name, `module:attribute`: load one, and find the name of a loaded one.

The only place that imports a module by name. The name comes from a command, from the settings or from
`program_name`; never from a store.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TypeVar

from redrive.errors import ProgramMissing, RedriveError, UsageError
from redrive.payloads.masking import error_text, type_name

T = TypeVar("T")

_ABSENT = object()


def load_program(name: str, kind: type[T]) -> T:
    """Import and return the named object of that kind; ProgramMissing says why it cannot."""
    module_name, colon, path = name.partition(":")
    if not colon or not path or not module_name or "/" in module_name or module_name[0] == ".":
        msg = f"{name!r} is not the name of a program; write module:attribute, as in shop.jobs:app"
        raise UsageError(msg)
    module = load_module(module_name)
    value = _attribute(module, path)
    if isinstance(value, kind):
        return value
    msg = f"{name} is of the type {type_name(value)}, not a {kind.__name__} object"
    if value is _ABSENT:
        msg = f"module {module_name} has no {path!r}"
    raise ProgramMissing(msg, hint=_others(module, module_name, kind))


def program_name(value: object) -> str | None:
    """Return the name by which another process could import this object; None if it could not.

    A module that was started as `python -m shop.jobs` counts by that name. One that was started as
    a plain script does not: to import it would be to run it again. Where several modules have the
    object, the one that was loaded first counts: the others imported it from there.
    """
    for loaded, module in sorted(
        sys.modules.copy().items(), key=lambda item: item[0] == "__main__"
    ):
        for key, member in list(getattr(module, "__dict__", {}).items()):
            if member is value and (name := importable(loaded)) is not None:
                return f"{name}:{key}"
    return None


def importable(loaded: str) -> str | None:
    """Return the name by which another process finds a loaded module; None if it cannot."""
    module = sys.modules.get(loaded)
    spec: ModuleSpec | None = getattr(module, "__spec__", None)
    if spec is None or spec.name.endswith("__main__"):
        return None
    parent = sys.modules.get(spec.name.rpartition(".")[0])
    path = getattr(parent, "__path__", None)
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    specs = (finder.find_spec(spec.name, path) for finder in finders)
    again = next((spec for spec in specs if spec is not None), None)
    return spec.name if again is not None and again.origin == spec.origin else None


def load_module(name: str) -> ModuleType:
    """Import a module; ProgramMissing says why it cannot."""
    here = os.getcwd()  # noqa: PTH109 - the text that `python -m` would put there too
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            msg = f"no module {name!r} here or on the path of {sys.executable}"
            hint = "run it in the program's directory and environment"
            if name.endswith(".py"):
                hint = f"it takes a module, not a file: write {name[:-3]}, without .py"
            raise ProgramMissing(msg, hint=hint) from error
        raise _failed(name, error) from error
    except Exception as error:
        raise _failed(name, error) from error
    except SystemExit as error:
        raise _failed(name, error) from error


def _attribute(module: ModuleType, path: str) -> object:
    """Return what a path names in a module; a module may run a program's code to find it."""
    value: object = module
    try:
        for part in path.split("."):
            value = getattr(value, part, _ABSENT)
    except RedriveError:
        raise
    except Exception as error:
        raise _failed(module.__name__, error) from error
    return value


def _failed(name: str, error: BaseException) -> ProgramMissing:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):
        place = ""  # its text says where
    text = error_text(error)
    msg = f"importing {name} failed: {type_name(error)}{f': {text}' if text else ''}{place}"
    hint = f"python -c 'import {name}' shows the whole traceback"
    return ProgramMissing(msg, hint=hint, broken=True)


def _others(module: ModuleType, name: str, kind: type[object]) -> str:
    known = [key for key, value in vars(module).items() if isinstance(value, kind)]
    return f"did you mean {name}:{known[0]}?" if known else ""
