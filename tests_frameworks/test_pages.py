"""The how-to pages whose programs need a framework are walked from top to bottom, as printed."""

import pytest

import pgkit
import walkkit

PAGES = [page for page in walkkit.pages() if walkkit.needs(page) and walkkit.can_walk(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_does_what_it_says(page, tmp_path):
    reader = walkkit.Walk(tmp_path)
    if ":///shop" in page.read_text("utf-8"):
        reader.environ |= pgkit.empty_database("shop")
    assert reader.page(page) > 0


def test_the_pages_of_the_frameworks_are_among_them():
    names = {"django", "fastapi", "fastapi-sqlalchemy", "flask", "sqlalchemy"}
    assert {page.stem for page in PAGES} >= names
