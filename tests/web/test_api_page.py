"""docs/api.md stands as the table of routes says."""

from pathlib import Path

from redrive.web.api_page import page

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m redrive.web.api_page > docs/api.md"
