"""The how-to page beside Celery is walked from top to bottom, as printed, with the real library."""

from pathlib import Path

import walkkit


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    (page,) = [page for page in walkkit.pages() if "celery" in walkkit.needs(page)]
    assert walkkit.Walk(tmp_path).page(page) > 0
