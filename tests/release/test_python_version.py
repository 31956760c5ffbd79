"""The environment of `make test PYTHON=…` proves its version."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tablekit import each_row

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "python_version.py"))
OURS = "{}.{}".format(*sys.version_info)


@each_row("wanted, code", [("", 0), (OURS, 0), ("3.1", 1), ("3.99", 1)])
def test_another_version_than_the_one_asked_for_is_an_error(
    wanted: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert TOOL["main"](wanted) == code
    said = capsys.readouterr()
    assert f"CPython {OURS}." in said.out
    assert bool(said.err) is bool(code)


def test_make_names_the_environment_and_what_it_must_hold() -> None:
    """An environment of that name with another Python in it fails before the first test."""
    recipe = (ROOT / "Makefile").read_text("utf-8")
    assert "VENV := .venv-$(VERSION)" in recipe
    assert "tools/python_version.py $(VERSION)" in recipe
