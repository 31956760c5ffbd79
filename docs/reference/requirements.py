"""Write `requirements.md`: each requirement with the tests that prove it.

A test proves the ids in its docstring or its name (`test_r_hooks_3_…`). One that names none stands
under those of its class, else of its file; and a rig under those of its file.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = HERE / "requirements.md"
FOLDERS = ("tests", "tests_sdk", "tests_cloudtasks", "tests_frameworks")
HEAD = """# Requirements

Each promise of Redrive and the tests that prove it. Written by `make pages` from the docstrings of \
the tests; a test fails when a promise has none or this page is not current. The ids are the words \
by which tests, decisions and this page speak of the same thing: `git grep -n M7 tests`.
"""

USERS = "HOOKS|ARTICLES|SUMMARIES|SYNC|EVENTS"
NAMED = re.compile(r"\b(?:([MPETJBHACX])(\d+)(?:(?:-|–| to )\1(\d+))?)\b(?!-)")
SENTENCES = re.compile(rf"\bR-({USERS}) (\d\b(?:(?:, | and | to |-)\d\b)*)")
IN_A_NAME = re.compile(rf"^test_(?:r_({USERS.lower()})_(\d)|([mpetjbhacx]\d+))_")


@dataclass(frozen=True, slots=True)
class Test:
    """One test, or a whole file when its docstring speaks for it."""

    file: str
    name: str  # empty: the file


def promises() -> dict[str, dict[str, str]]:
    """Give each section's title with its promises by id.

    >>> promises()["The job and its states"]["M2"][:27]
    'A table of transitions says'
    """
    found: dict[str, dict[str, str]] = {}
    for letter, section in tomllib.loads((HERE / "promises.toml").read_text("utf-8")).items():
        title = section.pop("title")
        gap = " " if letter.startswith("R-") else ""
        found[title] = {f"{letter}{gap}{number}": text for number, text in section.items()}
    return found


def ids_in(text: str) -> set[str]:
    """Give every id that a text names.

    >>> sorted(ids_in("M7, P1-P3, B1 to B2; F45"))
    ['B1', 'B2', 'M7', 'P1', 'P2', 'P3']
    >>> sorted(ids_in("R-HOOKS 7 to 9, R-EVENTS 1, 2 and 4, R-SYNC: all"))
    ['R-EVENTS 1', 'R-EVENTS 2', 'R-EVENTS 4', 'R-HOOKS 7', 'R-HOOKS 8', 'R-HOOKS 9']
    """
    found = {
        f"{letter}{number}"
        for letter, first, last in NAMED.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }
    for user, said in SENTENCES.findall(text):
        for part in re.split(r", | and ", said):
            first, last = (re.split(r" to |-", part) * 2)[:2]
            found |= {f"R-{user} {number}" for number in range(int(first), int(last) + 1)}
    return found


def ids_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Give the ids that a test names itself."""
    found = ids_in(ast.get_docstring(node) or "")
    if said := IN_A_NAME.match(node.name):
        found.add(said[3].upper() if said[3] else f"R-{said[1].upper()} {said[2]}")
    return found


def proofs_in(path: Path) -> Iterator[tuple[str, Test]]:
    """Pair ids with the tests of one file."""
    tree = ast.parse(path.read_text("utf-8"))
    file = path.relative_to(ROOT).as_posix()
    silent = False
    for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        around = ids_in(ast.get_docstring(owner) or "") if owner is not tree else set[str]()
        for node in owner.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("test_"):
                found = ids_of(node) or around
                silent = silent or not found
                prefix = f"{owner.name}::" if isinstance(owner, ast.ClassDef) else ""
                yield from ((one, Test(file, prefix + node.name)) for one in found)
    if silent:
        yield from ((one, Test(file, "")) for one in ids_in(ast.get_docstring(tree) or ""))


def proofs() -> dict[str, list[Test]]:
    """Give the tests of each id, in the order of their files."""
    found = defaultdict[str, list[Test]](list)
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("test_*.py")):
        for one, test in proofs_in(path):
            found[one].append(test)
    for path in sorted((ROOT / "rigs").glob("*.py")):
        for one in ids_in(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""):
            found[one].append(Test(path.relative_to(ROOT).as_posix(), ""))
    return found


def lines_of(tests: list[Test]) -> Iterator[str]:
    """Give one line a file: its tests by name, or the file alone."""
    by_file = defaultdict[str, list[str]](list)
    for test in tests:
        by_file[test.file].append(test.name)
    for file, names in sorted(by_file.items()):
        named = ", ".join(f"`{name}`" for name in names if name)
        yield f"- [`{file}`](../../{file})" + (f": {named}" if named else "")


def page() -> str:
    """Give the whole page."""
    found = proofs()
    parts = [HEAD]
    for title, said in promises().items():
        parts.append(f"\n## {title}\n")
        for one, text in said.items():
            parts.append(f"\n**{one}.** {text}\n\n")
            parts += [f"{line}\n" for line in lines_of(found[one])]
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
