"""Pages and pictures that are made from the code are as the code is (P8, M2)."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from redrive.job import TRANSITIONS, State

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


def test_a_transition_that_is_not_drawn_is_an_error() -> None:
    made = runpy.run_path(str(REFERENCE / "states.py"))
    arrows = made["ARROWS"]
    assert len(arrows) == sum(len(targets) for targets in TRANSITIONS.values())
    arrows.pop((State.DEAD, State.PENDING))
    with pytest.raises(SystemExit, match="draw anew"):
        made["svg"]()
