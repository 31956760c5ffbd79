"""Pages and pictures that are made from the code are as the code is."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree as ET

import yaml

from redrive.jobs.job import State
from tablekit import each_row

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"


def test_the_printed_waits_are_those_of_the_presets() -> None:
    made = runpy.run_path(str(REFERENCE / "delays.py"))
    assert (ROOT / "docs" / "policies.md").read_text("utf-8") == made["page"](), "run: make pages"


def test_the_states_are_drawn_as_the_table_has_them() -> None:
    made = runpy.run_path(str(REFERENCE / "states.py"))
    written = (ROOT / "docs" / "images" / "states.svg").read_text("utf-8")
    assert written == made["svg"](), "run: make pages"
    drawn = {text.text for text in ET.fromstring(written).iter("{http://www.w3.org/2000/svg}text")}
    assert {state.value for state in State} <= drawn


def pages_in(nav: list[object]) -> list[str]:
    """Give every page that the site's navigation names, section by section."""
    found: list[str] = []
    for one in nav:
        match one:
            case str():
                found.append(one)
            case dict():
                found += [page for section in one.values() for page in pages_in(section)]
            case _:
                raise AssertionError(one)
    return found


def test_the_site_shows_every_page() -> None:
    """Decisions are reached from their own list."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    named = pages_in(site["nav"])
    assert sorted(named) == sorted(set(named))
    docs = ROOT / "docs"
    there = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    above = {"index.md", "ja/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    shown = {page for page in there if not page.startswith("adr/0")} | above
    assert set(named) == shown


@each_row("name", ["commands", "api", "python"])
def test_the_references_that_the_site_prints_can_be_made(name: str) -> None:
    page = runpy.run_path(str(REFERENCE / f"{name}.py"))["page"]()
    assert page.count("### ") > 15
