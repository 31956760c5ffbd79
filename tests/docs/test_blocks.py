"""Every Python block in the documents runs as printed; every command in them exists."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import walkkit
from redrive import config
from redrive.cli import _errors
from redrive.cli._root import root
from redrive.worker import supervisor
from tablekit import each_row

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# Pages whose commands run one after the other are walked as a whole, by test_walkthroughs.
WALKED = set(walkkit.pages())
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "json", "jsonl", "csv", "sql", "toml", "text"}


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return [body for found, body in BLOCK.findall(page.read_text("utf-8")) if found == language]


def commands() -> list[tuple[str, str]]:
    """Every command line shown to the reader, without its comment; tests/cli reads those of cli.md."""
    return [
        (page.name, line[2:].partition("#")[0].strip())
        for page in PAGES
        if page.name != "cli.md" and page not in WALKED
        for block in blocks(page, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python") and page not in WALKED],
    ids=lambda page: page.name,
)
def test_the_python_blocks_of_a_page_run_as_one_program(page: Path, tmp_path: Path) -> None:
    program = "\n\n".join(blocks(page, "python"))
    script = tmp_path / "page.py"
    script.write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_readme_passes_strict_type_checks(tmp_path: Path) -> None:
    [example] = blocks(ROOT / "README.md", "python")
    (tmp_path / "example.py").write_text(example)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    options = ["--pythonpath", sys.executable, "--warnings", "example.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pyright", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_example_keeps_the_call_and_says_so(tmp_path: Path) -> None:
    """The first thing a newcomer runs: 12 lines or so, and it tells what happened."""
    [example] = blocks(ROOT / "README.md", "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"stored as [0-9A-Z]{26}, 1/5\n", done.stdout)
    assert (tmp_path / "redrive.db").is_file()


@each_row("page, line", commands())
def test_every_command_shown_exists(page: str, line: str) -> None:
    words = shlex.split(line)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), page
        return
    assert words[0] == "redrive", line
    done = CliRunner().invoke(root, [words[1], "--help"])
    assert done.exit_code == 0, done.output


@each_row(
    "page, block",
    [(page.name, block) for page in PAGES for block in blocks(page, "toml")],
)
def test_every_toml_block_is_a_file_that_redrive_reads(
    page: str, block: str, tmp_path: Path
) -> None:
    (tmp_path / "redrive.toml").write_text(block, "utf-8")
    found = config.find(directory=tmp_path, environ={})
    assert found.unknown == (), page
    assert tomllib.loads(block).keys() <= {*config.KEYS, "redrive"}, page
    assert found.file == tmp_path / "redrive.toml", page


@each_row(
    "page, block",
    [(page.name, block) for page in PAGES for block in blocks(page, "json")],
)
def test_every_json_block_is_json(page: str, block: str) -> None:
    assert json.loads(block), page


def test_the_guide_names_every_exit_code() -> None:
    table = (ROOT / "docs" / "guide.md").read_text("utf-8").partition("### Exit codes")[2]
    found = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    own = {supervisor.LOST, supervisor.REPLACE}
    assert found == {*range(_errors.STOPPED + 1), *own, _errors.INTERRUPTED}


def test_every_block_names_a_language_that_is_checked() -> None:
    for page in PAGES:
        found = re.findall(r"^```(\S*)$", page.read_text("utf-8"), re.MULTILINE)
        assert {one for one in found if one} <= LANGUAGES, page
        assert len(found) % 2 == 0, page


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_japanese_readme_has_the_blocks_of_the_english_one() -> None:
    english, japanese = (
        BLOCK.findall((ROOT / name).read_text("utf-8")) for name in ("README.md", "README.ja.md")
    )
    assert english == japanese
