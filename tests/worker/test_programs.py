"""Programs by name, and the name of a program; what is imported is what a person typed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.errors import ProgramMissing, UsageError
from redrive.worker.programs import load_program, program_name
from tablekit import each_row

SHOP = "from redrive import Redrive\napp = Redrive('memory:')\nclass Holder:\n    inner = app\n"


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "prog_shop.py").write_text(SHOP)
    (tmp_path / "prog_face.py").write_text("import prog_shop\nfrom prog_shop import app as mine\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield
    for name in [name for name in sys.modules if name.startswith("prog_")]:
        del sys.modules[name]


def test_a_program_is_found_by_module_and_attribute() -> None:
    app = load_program("prog_shop:app", Redrive)
    assert load_program("prog_shop:Holder.inner", Redrive) is app
    assert load_program("prog_face:mine", Redrive) is app


@each_row("name", ["", "shop", "shop:", ":app", ":", "./prog_shop.py:app"])
def test_a_name_of_no_program_is_a_mistake_in_the_call(name: str) -> None:
    with pytest.raises(UsageError, match="write module:attribute") as caught:
        load_program(name, Redrive)
    assert not isinstance(caught.value, ProgramMissing)


@pytest.mark.parametrize(
    ("name", "words", "hint", "broken"),
    [
        ("prog_none:app", "no module 'prog_none'", "directory", False),
        ("prog_shop:other", "has no 'other'", "did you mean prog_shop:app?", False),
        ("prog_shop:Holder", "is of the type type, not a Redrive", "prog_shop:app?", False),
        ("prog_bad:app", "failed: NameError: name 'x' is not defined", "traceback", True),
        ("prog_shop.py:app", "no module 'prog_shop.py'", "write prog_shop, without .py", False),
    ],
)
def test_a_program_that_is_not_there_is_explained(
    tmp_path: Path, name: str, words: str, hint: str, broken: bool
) -> None:
    (tmp_path / "prog_bad.py").write_text("x\n")
    with pytest.raises(ProgramMissing) as caught:
        load_program(name, Redrive)
    assert words in str(caught.value)
    assert hint in caught.value.hint
    assert caught.value.broken is broken


def test_a_mistake_in_the_text_of_a_program_is_placed_in_it(tmp_path: Path) -> None:
    (tmp_path / "prog_torn.py").write_text("app = (\n")
    with pytest.raises(ProgramMissing, match=r"prog_torn.py, line 1\)$"):
        load_program("prog_torn:app", Redrive)


def test_an_app_is_spelled_by_the_module_that_made_it() -> None:
    app = load_program("prog_face:mine", Redrive)
    assert program_name(app) == "prog_shop:app"


SAY = "from redrive.worker.programs import program_name\nprint(program_name(app))\n"


@each_row(
    "file, words, expected",
    [
        ("package/jobs.py", ["-m", "package.jobs"], "package.jobs:app"),
        ("single.py", ["single.py"], "None"),
        ("imports.py", ["imports.py"], "made:app"),
    ],
)
def test_what_was_started_by_its_name_is_importable_a_script_is_not(
    tmp_path: Path, file: str, words: list[str], expected: str
) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "made.py").write_text(SHOP)
    (tmp_path / file).write_text(f"from made import app\n{SAY}" if "imp" in file else SHOP + SAY)
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{expected}\n"
