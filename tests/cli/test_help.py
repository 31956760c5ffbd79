"""Every command has three examples that can be typed, and stands in docs/cli.md as it is."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from redrive.cli._cli import Cli
from redrive.cli._command import Command
from redrive.cli._root import EXAMPLES, root
from tablekit import each_row

ROOT = Path(__file__).resolve().parents[2]
TOP = click.Context(root, info_name="redrive")
NAMES = root.list_commands(TOP)


def command(name: str) -> Command:
    found = root.get_command(TOP, name)
    assert isinstance(found, Command)
    return found


def calls(line: str) -> list[list[str]]:
    """Give the words of each `redrive` in a line of a shell, without what the shell takes."""
    words = shlex.split(line, comments=True)
    found: list[list[str]] = []
    while "redrive" in words:
        words = words[words.index("redrive") + 1 :]
        end = next((at for at, word in enumerate(words) if word in {"|", "<", ">", ">>"}), None)
        found.append(words[:end])
    return found


def parse(words: list[str]) -> str:
    """Read a command as it would be read, and give its name; nothing is run."""
    top = root.make_context("redrive", list(words), obj=Cli())
    rest = [*top._protected_args, *top.args]
    name, found, more = root.resolve_command(top, rest)
    assert name is not None
    assert found is not None
    found.make_context(name, more, parent=top)
    return name


@each_row("name", NAMES)
def test_three_examples_of_each_command_can_be_typed(name: str) -> None:
    examples = command(name).examples
    assert len(examples) >= 3
    for example in examples:
        found = [parse(words) for words in calls(example)]
        assert found, example
        assert name in found, example


def test_the_examples_of_redrive_itself_can_be_typed() -> None:
    assert all(parse(words) for line in EXAMPLES for words in calls(line))


@each_row("name", NAMES)
def test_what_a_command_says_of_itself_is_whole(name: str) -> None:
    found = command(name)
    assert (found.help or "").strip().partition("\n")[0].endswith((".", ":", ";"))
    for param in found.params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.opts
