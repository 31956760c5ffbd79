"""Nothing secret is ever asked for on a command line, and no line we show needs quoting (F110)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from redrive.cli._command import Command
from redrive.cli._root import root
from shopkit import Shop
from tablekit import each_row

ROOT = Path(__file__).resolve().parents[2]
SECRET = re.compile(r"pass|secret|token|credential|payload|api.?key|auth", re.IGNORECASE)

# JSON in quotes in a shell: the first apostrophe in the data ends the quotes.
QUOTED_JSON = re.compile(r"""(echo|printf|-d|--data\S*|--payload)[ =]*['"]?[{\[]""")


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(root)
    for name in root.list_commands(context):
        found = root.get_command(context, name)
        assert found is not None
        yield name, found
        if isinstance(found, click.Group):
            yield from found.commands.items()


def test_no_command_takes_a_payload_or_a_secret_as_an_argument() -> None:
    """F110: arguments are seen by everybody who may list processes, and kept by shells."""
    seen = 0
    for name, command in commands():
        for param in command.params:
            seen += 1
            if (param.metavar or "").startswith("FILE") or getattr(param, "is_flag", False):
                continue  # the name of a file, or only a word
            assert not SECRET.search(" ".join([param.name or "", *param.opts])), name
    assert seen > 40


def test_no_line_that_we_show_puts_data_into_a_shells_quotes() -> None:
    """F110: in the pages, and in the examples of every help."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        assert not QUOTED_JSON.search(page.read_text("utf-8")), page
    for name, command in commands():
        examples = command.examples if isinstance(command, Command) else ()
        assert not any(QUOTED_JSON.search(each) for each in examples), name


@each_row("line", ["echo '{\"a\":1}' >> f", "curl -d '{}' u", "x --payload={}"])
def test_the_check_finds(line: str) -> None:
    assert QUOTED_JSON.search(line)


@pytest.mark.parametrize(
    "text", ["$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "|touch pwned"]
)
def test_text_that_a_shell_would_run_is_only_text(shop: Shop, text: str) -> None:
    """F110: as a reason, a filter, a lane and a store's name."""
    assert shop.run("resolve", "G1", "--yes", "--reason", text).exit_code == 0
    assert text in shop.run("log").stdout
    shop.run("list", "--text", text)
    shop.run("pause", text)
    shop.run("status", f"--store=jsonl:{text}")
    assert not Path("pwned").exists()
