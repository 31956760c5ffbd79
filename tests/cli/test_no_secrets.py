"""Nothing secret is ever asked for on a command line, and no line we show needs quoting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from redrive.cli._root import root
from shopkit import Shop

ROOT = Path(__file__).resolve().parents[2]
SECRET = re.compile(r"pass|secret|token|credential|payload|api.?key|auth", re.IGNORECASE)


def commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(root)
    for name in root.list_commands(context):
        found = root.get_command(context, name)
        assert found is not None
        yield name, found
        if isinstance(found, click.Group):
            yield from found.commands.items()


def test_no_command_takes_a_payload_or_a_secret_as_an_argument() -> None:
    """Arguments are seen by everybody who may list processes, and kept by shells."""
    seen = 0
    for name, command in commands():
        for param in command.params:
            seen += 1
            if (param.metavar or "").startswith("FILE") or getattr(param, "is_flag", False):
                continue  # the name of a file, or only a word
            assert not SECRET.search(" ".join([param.name or "", *param.opts])), name
    assert seen > 40


@pytest.mark.parametrize(
    "text", ["$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "|touch pwned"]
)
def test_text_that_a_shell_would_run_is_only_text(shop: Shop, text: str) -> None:
    """As a reason, a filter, a lane and a store's name."""
    assert shop.run("resolve", "G1", "--yes", "--reason", text).exit_code == 0
    assert text in shop.run("log").stdout
    shop.run("list", f'"{text}"')
    shop.run("pause", text)
    shop.run("status", f"--store=jsonl:{text}")
    assert not Path("pwned").exists()
