"""The statement that failed: the same after edits that do not concern it, and never an error."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import textwrap
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from redrive.classify import classify
from redrive.classify.statements import statement_at
from tablekit import each_row

SOURCE = """
def charge(order, rates):
    total = compute(order["lines"], rates, retries=3, note="it's due")
    return total


def compute(lines, rates, retries, note):
    return sum(rates[one] for one in lines)


charge({"lines": ["eu"]}, {})
"""


def place_in(error: BaseException, function: str) -> TracebackType:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_name != function:
        trace = trace.tb_next
    assert trace is not None, function
    return trace


def load(file: Path, source: str) -> BaseException:
    """Write a module, import it, and return the error that this raises."""
    linecache.checkcache()
    file.write_text(textwrap.dedent(source), "utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(Exception) as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return caught.value


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def form(folder: Path, source: str, function: str = "charge", name: str = "jobs") -> str:
    return statement_at(place_in(load(folder / f"{name}.py", source), function))


STATEMENT = 'total = compute(order["lines"], rates, retries=3, note="it\'s due")'


@each_row(
    "statement",
    [
        "total=compute( order [ 'lines' ],rates , retries = 3,note='it\\'s due' )",
        "total = compute(\n  order['lines'],\n  rates,\n  retries=3,\n  note='it\\'s due',\n    )",
        STATEMENT + "  # seen in May",
        'total = (compute)((order["lines"]), rates, retries=3, note="""it\'s due""")',
        'total = compute(order["lines"], rates, # old\n     retries=0x3, note="it\'s " "due")',
        'total = \\\n        compute(order["lines"], rates, retries=3, note="it\'s due")',
        "pass; " + STATEMENT,
        STATEMENT + "; pass",
        "if order: " + STATEMENT,
        "with open('/dev/null'):\n        " + STATEMENT,
        "log = []\n\n    # new\n    log.append(1)\n    " + STATEMENT,
    ],
)
def test_formatting_and_lines_around_it_do_not_change_a_statement(
    tmp_path: Path, statement: str
) -> None:
    expected = form(tmp_path, SOURCE)
    assert expected
    assert STATEMENT in SOURCE
    assert form(tmp_path, SOURCE.replace(STATEMENT, statement), name="edited") == expected


@each_row(
    "change",
    [("retries=3", "retries=4"), ('"], rates,', '"], dict(rates),'), ("total =", "total +=")],
)
def test_another_statement_is_another_one(tmp_path: Path, change: tuple[str, str]) -> None:
    source = SOURCE.replace("    total =", "    total = 0\n    total =")
    assert form(tmp_path, source.replace(*change), name="edited") != form(tmp_path, source)


def test_a_function_that_moved_into_another_file_or_below_others_stays_itself(
    tmp_path: Path,
) -> None:
    moved = "import os\n\n\ndef before():\n    pass\n\n" + SOURCE
    prints = {
        classify(load(tmp_path / name, source), handler="pay").fingerprint
        for name, source in [("a.py", SOURCE), ("b.py", moved), ("c.py", "\n\n#\n" + SOURCE)]
    }
    assert len(prints) == 1


def fails(file: Path, source: str, changed: str | None) -> str:
    """Return the form of the statement of `f` if the file is changed between import and failure."""
    linecache.checkcache()
    file.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if changed is not None:
        file.write_text(changed, "utf-8")
    with pytest.raises(ZeroDivisionError) as caught:
        module.f()
    return statement_at(place_in(caught.value, "f"))


@each_row(
    "changed",
    [
        "def g():\n    other()\n",
        "import os\ndef f():\n    return 1 / 0\n",
        "class A:\n    pass\n",
        "def f(:\n    1 / 0\n",
        "",
        "\0",
        "x = " + "(" * 5000,
        "def f():\n    1 / 0\n" * 20_000,
    ],
)
def test_a_file_that_changed_after_it_was_loaded_has_no_source(
    tmp_path: Path, changed: str
) -> None:
    source = "def f():\n    1 / 0\n"
    assert fails(tmp_path / "same.py", source, None)
    assert not fails(tmp_path / "jobs.py", source, changed)
