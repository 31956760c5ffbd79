"""The names of the package: loaded when asked for, all of them there."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import redrive
from tablekit import each_row


@each_row("name", redrive.__all__)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(redrive, name) is getattr(importlib.import_module("redrive"), name)
    assert name in dir(redrive)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        redrive.Nothing  # noqa: B018


@each_row(
    "name, home",
    [(name, home) for home, names in redrive._ELSEWHERE.items() for name in names.split()],
)
def test_a_name_from_another_module_is_an_error_that_says_where(name: str, home: str) -> None:
    assert hasattr(importlib.import_module(home), name)
    with pytest.raises(AttributeError, match=rf"from {home} import {name}$"):
        getattr(redrive, name)


def test_importing_the_package_loads_none_of_its_modules() -> None:
    code = "import sys, redrive; print([m for m in sys.modules if m.startswith('redrive.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
