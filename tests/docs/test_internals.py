"""The map of the code names only what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "redrive"
PAGE = (ROOT / "docs" / "internals.md").read_text("utf-8")
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
PATHS = [one for one in QUOTED if re.fullmatch(r"[\w./]+(\.py|\.sql|/)", one)]
NAMES = [
    one
    for one in QUOTED
    if re.fullmatch(r"[A-Za-z_]+(\.[A-Za-z_]+)?(\(.*\))?", one) and one not in PATHS
]
SOURCE = "\n".join(path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py")))
WORDS = {"LISTEN", "M", "F", "None"}


def test_the_page_names_many_places() -> None:
    assert len(PATHS) > 60
    assert len(NAMES) > 30


def test_every_path_exists() -> None:
    places = (PACKAGE, ROOT)
    assert [one for one in PATHS if not any((place / one).exists() for place in places)] == []


def test_every_name_is_defined() -> None:
    pattern = r"\b(?:def|class) (\w+)|self\.(\w+) =|^    (\w+): |^(\w+)\b.*="
    defined = {one for found in re.findall(pattern, SOURCE, re.MULTILINE) for one in found}
    classes = set(re.findall(r"\bclass (\w+)", SOURCE))
    for name in NAMES:
        *owner, last = name.partition("(")[0].replace(".", " ").split()
        assert last in defined | WORDS, name
        assert set(owner) <= classes or last in WORDS, name


def test_a_new_field_of_jobs_touches_at_most_nine_files() -> None:
    """The page lists the files to change for a new column; no other one writes such a column."""
    (recipe,) = re.findall(r"\*\*Adding a field to jobs\*\*(.*)\. Raise the version", PAGE)
    listed = {path for path in PATHS if f"`{path}`" in recipe}
    assert len(listed) <= 9
    readers = {  # they search by this column, shift it, or read stores of version 1
        *("stores/sqlite/searching.py", "stores/postgres/search.py", "stores/sqlite/upgrade.py"),
        *("stores/sql/postgres/schema/filled.sql", "stores/sql/postgres/views/queue.sql"),
        *("jobs/records.py", "stores/jsonl/upgrade.py"),
        *("stores/index/entries.py", "stores/index/search.py"),
    }
    folders = (PACKAGE / "jobs", PACKAGE / "stores")
    naming = {
        str(path.relative_to(PACKAGE))
        for folder in folders
        for path in folder.rglob("*.*")
        if path.suffix in {".py", ".sql"} and "first_failed" in path.read_text("utf-8")
    }
    assert naming - readers == listed
