"""docs/api.md stands as the table of routes says."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_current() -> None:
    page = runpy.run_path(str(DOCS / "reference" / "api.py"))["page"]
    assert (DOCS / "api.md").read_text("utf-8") == page(), "run: make pages"
