"""docs/faults.md is honest: each row names tests that exist and that name the row in turn."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "faults.md").read_text("utf-8")

NUMBERS = re.compile(r"\bF(\d+)(?:(?:-|–| to )F(\d+))?\b")
NAMED = re.compile(r"`([a-z_/]+\.py)::([A-Za-z0-9_:]+)`")


def ids_in(text: str) -> set[str]:
    """Give every id that a text names; F69-F72 names four.

    >>> sorted(ids_in("T6, F1, F69-F71"))
    ['F1', 'F69', 'F70', 'F71']
    """
    return {
        f"F{number}"
        for first, last in NUMBERS.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


# Every row that this version has to answer for.
REQUIRED = ids_in("F1-F33, F35, F51-F57, F60, F67-F81, F85-F87, F91-F105, F109-F111")
EVERY = ids_in("F1-F119")


@dataclass(frozen=True)
class Row:
    """One line of a table: its ids, and the tests it names or the reason for having none."""

    ids: frozenset[str]
    cells: tuple[str, ...]

    @property
    def tests(self) -> list[tuple[str, str]]:
        return NAMED.findall(self.cells[-1])

    @property
    def is_proved(self) -> bool:
        return len(self.cells) == 4


def rows_of(page: str) -> list[Row]:
    found: list[Row] = []
    for line in page.splitlines():
        if re.match(r"\| *F\d", line):
            cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
            found.append(Row(frozenset(ids_in(cells[0])), cells))
    return found


ROWS = rows_of(PAGE)
PROVED = [row for row in ROWS if row.is_proved]
POSTPONED = [row for row in ROWS if not row.is_proved]


@cache
def parsed(file: str) -> ast.Module | None:
    path = TESTS / file
    return ast.parse(path.read_text("utf-8")) if path.is_file() else None


@cache
def said_by_file(file: str) -> frozenset[str]:
    """Give the ids in a file's docstring and comments, which speak for all of its tests."""
    text = (TESTS / file).read_text("utf-8")
    tree = parsed(file)
    comments = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    said = [*comments, (ast.get_docstring(tree) or "") if tree else ""]
    return frozenset(ids_in("\n".join(said)))


def definition(file: str, name: str) -> list[ast.FunctionDef | ast.ClassDef]:
    """Give a test and the class around it; nothing if there is no such test."""
    tree = parsed(file)
    if tree is None:
        return []
    *classes, function = name.split("::")
    body, found = tree.body, list[ast.FunctionDef | ast.ClassDef]()
    for wanted in [*classes, function]:
        kind = ast.FunctionDef if wanted == function else ast.ClassDef
        node = next((n for n in body if isinstance(n, kind) and n.name == wanted), None)
        if node is None or (wanted == function and not function.startswith("test_")):
            return []
        found.append(node)
        body = node.body
    return found


def ids_said_by(file: str, name: str) -> set[str]:
    said = "\n".join(ast.get_docstring(node) or "" for node in definition(file, name))
    return ids_in(said) | said_by_file(file)


def test_every_fault_has_one_row_and_no_more() -> None:
    listed = [one for row in ROWS for one in row.ids]
    assert sorted(one for one in set(listed) if listed.count(one) > 1) == []
    assert EVERY - set(listed) == set()
    assert set(listed) - EVERY == set()


def test_what_this_version_must_prove_is_proved() -> None:
    """F55 needs two clocks, and so a server."""
    assert REQUIRED - {one for row in PROVED for one in row.ids} == set()


def test_every_row_is_filled_in() -> None:
    for row in PROVED:
        assert len(row.ids) == 1, row.cells[0]
        assert row.tests, row.cells[0]
        assert all(row.cells), row.cells[0]
        assert NAMED.sub("", row.cells[-1]).replace(",", "").strip() == "", row.cells[-1]
    for row in POSTPONED:
        assert len(row.cells) == 2, row.cells
        assert row.cells[1], row.cells[0]


NAMINGS = [(one, file, name) for row in PROVED for one in row.ids for file, name in row.tests]


def test_every_test_that_is_named_exists_and_names_the_fault() -> None:
    for one, file, name in NAMINGS:
        assert definition(file, name), f"{file} has no {name}"
        assert one in ids_said_by(file, name), f"neither {name} nor a comment of {file} names {one}"


def test_the_checks_find_what_they_are_for() -> None:
    this = "docs/test_faults.py"
    assert definition(this, "test_every_row_is_filled_in")
    assert definition("app/test_bad_input.py", "TestPlaces::test_a_link_is_refused")
    for nothing in ("test_nothing", "rows_of", "Row::test_x", "Row"):
        assert not definition(this, nothing)
    assert not definition("docs/test_nowhere.py", "test_x")
    assert ids_said_by(this, "test_what_this_version_must_prove_is_proved") >= {"F55"}
    assert "F999" not in ids_said_by(this, "test_every_row_is_filled_in")
    (row,) = rows_of("| id | why |\n|---|---|\n| F26–F28, F55 | later |\n")
    assert (row.ids, row.is_proved) == ({"F26", "F27", "F28", "F55"}, False)
