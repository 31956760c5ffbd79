"""Quickstart, how-to pages, runbook and the users' pages are walked from top to bottom, as printed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import walkkit
from pgkit import empty_database
from tablekit import each_row
from walkkit import BLOCK, Walk, can_walk, check, needs

PAGES = walkkit.pages()


@pytest.fixture
def reader(tmp_path: Path) -> Walk:
    return Walk(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: "/".join(page.parts[-3:]))
def test_the_page_does_what_it_says(page: Path, reader: Walk) -> None:
    if not can_walk(page):
        pytest.skip(f"`make test-frameworks` or `make test-sdk` walks it: {needs(page)}")
    if "postgresql:///shop" in page.read_text("utf-8"):
        reader.environ |= empty_database("shop")
    reader.as_processes = page.name == "quickstart.md"  # the first pages of a newcomer
    done = reader.page(page)
    assert done > 0 or page.name == "README.md"


@each_row("page", PAGES)
def test_every_python_block_is_python(page: Path) -> None:
    for language, body in BLOCK.findall(page.read_text("utf-8")):
        if language == "python":
            ast.parse(body)


def test_a_page_that_lies_is_found(reader: Walk, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for lie in (
        "```python\nassert False\n```\n",
        "```console\n$ redrive nothing\n```\n",
        "```console\n$ redrive --version\nredrive 99\n```\n",
        "```console\n$ redrive --version  # exit 6\n```\n",
    ):
        page.write_text(lie, "utf-8")
        with pytest.raises(AssertionError):
            reader.page(page)
    page.write_text("```console\n$ redrive --version\nredrive …\n```\n", "utf-8")
    assert reader.page(page) == 1


def test_dots_stand_for_anything_and_nothing_else_does() -> None:
    check("x", "a … c", "a\tb\tb\tc")
    check("x", "", "whatever")
    with pytest.raises(AssertionError):
        check("x", "a c", "a b c")
