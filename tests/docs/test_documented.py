"""Whatever a program or a person can name stands on a page: names, options, events, settings (C2)."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

import redrive
from redrive import config
from redrive.app import Redrive
from redrive.desk.groups import Groups
from redrive.desk.jobs import Jobs
from redrive.desk.lanes import Lanes
from redrive.desk.log import Log
from redrive.desk.runs import Runs
from redrive.desk.transfer.lines import Transfer
from redrive.events import Kind
from redrive.handler import Handler

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDE = (DOCS / "guide.md").read_text("utf-8")
EVERYTHING = "\n".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
MADE = runpy.run_path(str(DOCS / "reference" / "python.py"))


def test_the_python_reference_is_current() -> None:
    assert (DOCS / "reference" / "python.md").read_text("utf-8") == MADE["page"](), (
        "run: make pages"
    )


def test_the_python_reference_does_not_look_through_wrappers() -> None:
    """Whether `inspect` does depends on the version of Python: 3.13 does, 3.11 does not."""

    class Wrapper:
        __wrapped__ = staticmethod(lambda number: number)

    assert MADE["signature"](Wrapper) == MADE["signature"](Handler) == "(…)"


def test_the_python_reference_has_every_public_name() -> None:
    listed = " ".join(MADE["SECTIONS"].values()).split()
    assert sorted(listed) == sorted(redrive.__all__)


def test_the_api_card_lists_exactly_the_public_names() -> None:
    card = (DOCS / "reference" / "card.md").read_text("utf-8")
    table = card.partition("## The names of `redrive`")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(redrive.__all__)


@pytest.mark.parametrize(
    ("kind", "heading"),
    [(Jobs, "desk.jobs"), (Groups, "desk.groups"), (Runs, "desk.runs"), (Lanes, "desk.lanes"),
     (Log, "desk.log"), (Transfer, "desk.transfer")],
)  # fmt: skip
def test_the_api_card_lists_the_members_of_the_parts(kind: type, heading: str) -> None:
    card = (DOCS / "reference" / "card.md").read_text("utf-8")
    (row,) = re.findall(rf"\| `{heading}` \| (.*) \|", card)
    assert set(re.findall(r"`(\w+)`", row)) == {n for n in dir(kind) if not n.startswith("_")}


def test_the_api_card_lists_the_members_of_redrive() -> None:
    card = (DOCS / "reference" / "card.md").read_text("utf-8")
    table = card.partition("## `Redrive` by use")[2].partition("\n\n`app.desk`")[0]
    public = {name for name in dir(redrive.Redrive) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", table)) - {"Redrive"} == public | {"alerts", "desk"}


def test_the_api_card_says_where_the_other_names_are() -> None:
    card = (DOCS / "reference" / "card.md").read_text("utf-8")
    for home in redrive._ELSEWHERE:
        assert f"| `{home}` |" in card


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_event_is_in_the_guide(kind: str) -> None:
    assert f"`{kind}`" in GUIDE.partition("## Events")[2].partition("## Async")[0]


@pytest.mark.parametrize("verb", [Redrive.handler, Handler.options], ids=lambda verb: verb.__name__)
def test_every_option_of_a_handler_is_in_the_guide(verb: object) -> None:
    for name in inspect.signature(verb).parameters:  # type: ignore[arg-type]
        if name not in {"self", "name"}:
            assert re.search(rf"`{name}=", GUIDE), name


@pytest.mark.parametrize("name", [*config.KEYS])
def test_every_key_of_the_settings_is_in_an_example(name: str) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", EVERYTHING, re.MULTILINE | re.DOTALL)
    assert any(re.search(rf"^(\[?){name}\b", block, re.MULTILINE) for block in blocks)


def test_every_variable_of_the_environment_is_named() -> None:
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    for name in set(re.findall(r"\bREDRIVE_[A-Z_]+", source)):
        assert name in EVERYTHING, name
