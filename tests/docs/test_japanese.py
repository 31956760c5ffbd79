"""The Japanese pages say what the English ones say, as far as a test can tell: blocks, tables, links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from walkkit import BLOCK

ROOT = Path(__file__).resolve().parents[2]
USERS = ("README", "hooks", "articles", "summaries", "sync", "events")
PAIRS = [(ROOT / "README.md", ROOT / "README.ja.md")] + [
    (ROOT / f"docs/users/{name}.md", ROOT / f"docs/ja/users/{name}.md") for name in USERS
]


def shape(page: Path) -> tuple[object, ...]:
    """Give what must not differ: the blocks, the rows of the tables, and the numbers in their code."""
    text = page.read_text("utf-8")
    prose = BLOCK.sub("", text)
    rows = [line for line in prose.splitlines() if line.startswith("|")]
    code = sorted(re.findall(r"`([^`]+)`", "\n".join(rows)))
    return BLOCK.findall(text), len(rows), code


@pytest.mark.parametrize(("english", "japanese"), PAIRS, ids=lambda page: page.name)
def test_the_two_have_the_same_blocks_and_tables(english: Path, japanese: Path) -> None:
    assert shape(japanese) == shape(english)


@pytest.mark.parametrize(("english", "japanese"), PAIRS, ids=lambda page: page.name)
def test_it_is_japanese_and_leads_to_the_other(english: Path, japanese: Path) -> None:
    text = japanese.read_text("utf-8")
    assert len(re.findall(r"[ぁ-んァ-ヶ]", text)) > 100
    links = re.findall(r"\[English\]\(([^)]+)\)", text)
    assert [(japanese.parent / link).resolve() for link in links] == [english]
