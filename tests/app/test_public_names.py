"""The names of the package: loaded when asked for, all of them there."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import redrive
from tablekit import each_row


@each_row("name", redrive.__all__)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(redrive, name) is getattr(importlib.import_module("redrive"), name)
    assert name in dir(redrive)


def test_type_checkers_see_the_names_that_programs_see() -> None:
    tree = ast.parse(Path(redrive.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {(home, name) for name, home in redrive._HOME_OF.items()}
    assert seen == homes | {("redrive.policies", "presets")}
    assert {name for _, name in seen} == set(redrive.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        redrive.Nothing  # noqa: B018


def test_the_public_names_fit_on_a_card() -> None:
    assert len(redrive.__all__) <= 30


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
