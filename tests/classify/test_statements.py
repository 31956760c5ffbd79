"""The statement that failed: the same after edits that do not concern it, and never an error."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import textwrap
import warnings
import zipfile
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import pytest

from redrive.classify import classify, statements
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


# Each piece fails at the line marked with HERE; the form names that and nothing beside it.
@each_row(
    "source, wanted, unwanted",
    [
        ("if boom():  # HERE\n    after()\n", "If", "after"),
        ("if boom(): after()  # HERE\n", "If", "after"),
        ("if ready: boom()  # HERE\n", "boom", "ready"),
        ("ready; boom(); later  # HERE\n", "boom", "later"),
        ("while boom():  # HERE\n    after()\n", "While", "after"),
        ("for one in boom():  # HERE\n    after()\n", "For", "after"),
        ("with boom() as it:  # HERE\n    after()\n", "With", "after"),
        ("match boom():  # HERE\n    case 1:\n        after()\n", "Match", "after"),
        ("match 1:\n    case 1 if boom():  # HERE\n        after()\n", "match_case", "after"),
        ("match 1:\n    case 1:\n        boom()  # HERE\n", "Expr", "match_case"),
        ("try:\n    1 / 0\nexcept boom():  # HERE\n    after()\n", "ExceptHandler", "after"),
        ("try:\n    boom()  # HERE\nexcept KeyError:\n    after()\n", "Expr", "after"),
        ("try:\n    pass\nfinally:\n    boom()  # HERE\n", "Expr", "Try"),
        ("@boom()  # HERE\ndef f():\n    after()\n", "decorator_list", "after"),
        ("@ready\n@boom()  # HERE\ndef f():\n    after()\n", "decorator_list", "after"),
        ("def f(x=boom()): after()  # HERE\n", "FunctionDef", "after"),
        ("class A(boom()):  # HERE\n    after = 1\n", "ClassDef", "after"),
        ("class A:\n    x = boom()  # HERE\n    after = 1\n", "Assign", "after"),
        ("x = [\n    boom(n)  # HERE\n    for n in (1,)\n]\n", "ListComp", "after"),
        ("x = list(\n    boom(n)  # HERE\n    for n in (1,)\n)\n", "GeneratorExp", "after"),
        ("after = 1\nx = (lambda: boom())()  # HERE\n", "Lambda", "after"),
    ],
)
def test_the_form_is_that_of_the_innermost_statement_or_header(
    tmp_path: Path, source: str, wanted: str, unwanted: str
) -> None:
    head = "ready = lambda f: f\ndef boom(*_):\n    raise ValueError\n\n\n"
    error = load(tmp_path / "jobs.py", head + source)
    trace = error.__traceback__
    found = ""
    while trace is not None:  # the innermost frame that is not boom's own
        if trace.tb_frame.f_code.co_filename.endswith("jobs.py"):
            name = trace.tb_frame.f_code.co_name
            found = found if name == "boom" else statement_at(trace)
        trace = trace.tb_next
    assert wanted in found
    assert "boom" in found
    assert unwanted not in found


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


def test_a_file_of_a_megabyte_and_what_is_no_file_are_not_read(tmp_path: Path) -> None:
    large = "def f():\n    1 / 0\n" + "#" * 1_000_001
    assert not fails(tmp_path / "large.py", large, None)
    names: dict[str, Any] = {}
    exec(compile("def f():\n    1 / 0\n", "/dev/zero", "exec"), names)
    with pytest.raises(ZeroDivisionError) as caught:
        names["f"]()
    assert not statement_at(place_in(caught.value, "f"))


def test_the_source_may_be_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("zipped_jobs.py", "def f():\n    1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "app.zip"))
    module: ModuleType = importlib.import_module("zipped_jobs")
    with pytest.raises(ZeroDivisionError) as caught:
        module.f()
    assert statement_at(place_in(caught.value, "f"))


def test_a_file_is_parsed_once_and_a_repeated_failure_parses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    parse = statements.ast.parse
    monkeypatch.setattr(
        statements.ast, "parse", lambda source: parsed.append(source) or parse(source)
    )
    source = "def f(n):\n    if n:\n        1 / 0\n    raise ValueError\nf(1)\n"
    error = load(tmp_path / "jobs.py", source)
    place = place_in(error, "f")
    for _ in range(3):
        statement_at(place)
        statement_at(place_in(error, "<module>"))
    assert len(parsed) == 1


def test_unknown_escapes_in_the_source_warn_nobody(tmp_path: Path) -> None:
    statement = 'int("\\d+", {})'
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = load(tmp_path / "a.py", f"def f():\n    {statement}\nf()\n")
        raw = load(tmp_path / "b.py", f"def f():\n    {statement.replace('(', '(r', 1)}\nf()\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert statement_at(place_in(error, "f"))
        assert statement_at(place_in(error, "f")) == statement_at(place_in(raw, "f"))


def test_the_form_is_written_by_us_and_so_the_same_on_every_python(tmp_path: Path) -> None:
    source = "def charge(n=0):\n    x = [1, None, f'{n!r:>{3}} due'][n / 0:]\ncharge()\n"
    assert form(tmp_path, source) == (
        "('Assign', ('targets', (('Name', ('id', 'x')),)), ('value', ('Subscript', ('value', "
        "('List', ('elts', (('Constant', ('value', 1)), ('Constant',), ('JoinedStr', ('values', "
        "(('FormattedValue', ('value', ('Name', ('id', 'n'))), ('conversion', 114), "
        "('format_spec', ('JoinedStr', ('values', (('Constant', ('value', '>')), "
        "('FormattedValue', ('value', ('Constant', ('value', 3))), ('conversion', -1)))))))"
        ", ('Constant', ('value', ' due'))))))))), ('slice', ('Slice', ('lower', ('BinOp', "
        "('left', ('Name', ('id', 'n'))), ('op', ('Div',)), ('right', ('Constant', "
        "('value', 0))))))))))"
    )
