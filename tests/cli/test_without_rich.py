"""Every command works without rich, on a narrow terminal, in a pipe, and with nobody to read it (C1)."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ptykit import HIDE_RICH, on_terminal
from redrive.cli._root import root
from shopkit import Shop, name

ONE = name(1)
# A command without a line here fails every test below.
LINES = {
    "help": "help runs",
    "status": "status",
    "watch": "watch --times 1",
    "dlq": "dlq",
    "failed": "failed",
    "list": "list state:dead",
    "show": f"show {ONE}",
    "groups": "groups",
    "group": "group G1",
    "log": "log",
    "policy": "policy show WEBHOOKS",
    "check": "check --max-dead 9 --max-unserved 9",
    "explain": "explain 503",
    "runs": "runs",
    "run": "run R1",
    "retry": f"retry {ONE}",
    "resolve": f"resolve {ONE}",
    "discard": f"discard {ONE} --reason x",
    "reopen": f"reopen {name(4)}",
    "edit": f"edit {ONE} --payload new.json --yes",
    "pause": "pause mail",
    "resume": "resume pay.charge",
    "work": "work rich_program:app --once",
    "serve": "serve --help",  # it serves until it is stopped: see tests/web
    "demo": "demo --help",  # it takes ten seconds: see tests/contrib/test_demo.py
    "init": "init",
    "doctor": "doctor --store sound.db",
    "verify": "verify",
    "cleanup": "cleanup --dead 1h --yes",
    "purge": f"purge {ONE} --yes",
    "export": "export -o out.jsonl --force",
    "import": "import in.jsonl",
    "config": "config show",
    "completion": "completion bash",
    "alerts": "alerts list",
    "listeners": "listeners",
    "metrics": "metrics",
    "prometheus": "prometheus",
    "retry-candidates": "retry-candidates",
}
OURS = "bug in Redrive"
PROGRAM = 'from redrive import Redrive\napp = Redrive("redrive.db")\n'


@pytest.fixture(scope="module")
def prepared(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every command has something to do, to be copied."""
    folder = tmp_path_factory.mktemp("prepared") / "place"
    shutil.copytree(filled, folder)
    shop = Shop(folder, url=str(folder / "redrive.db"))
    (folder / "new.json").write_text('{"to":"bob"}')
    (folder / "rich_program.py").write_text(PROGRAM)
    with shop.app() as app:
        exported = app.desk.transfer.export_lines(app.desk.jobs.each())
        (folder / "in.jsonl").write_text("\n".join(exported) + "\n")
        app.desk.resolve(name(4))
        app.desk.lanes.pause("pay.charge")
        app.desk.runs.start(name(2), name(3))
    assert shop.run("init", "--store", str(folder / "sound.db")).exit_code == 0
    return folder


@pytest.fixture
def desk(empty: Shop, prepared: Path) -> Shop:
    """A shop in which every command has something to do."""
    shutil.copytree(prepared, empty.folder, dirs_exist_ok=True)
    return empty


every_command = pytest.mark.parametrize("command", root.list_commands(click.Context(root)))


@every_command
def test_a_terminal_without_rich(desk: Shop, command: str) -> None:
    shown = on_terminal(*shlex.split(LINES[command]), rich=False)
    assert shown.code == 0, shown.text
    assert shown.text
    assert OURS not in shown.text


@every_command
def test_a_terminal_of_forty_columns(desk: Shop, command: str) -> None:
    shown = on_terminal(*shlex.split(LINES[command]), width=40)
    assert shown.code == 0, shown.text
    assert OURS not in shown.text


@every_command
def test_a_pipe_needs_no_rich(desk: Shop, command: str) -> None:
    words = shlex.split(LINES[command])
    hidden = [sys.executable, "-c", HIDE_RICH, *words]
    done = subprocess.run(
        hidden, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout


@every_command
def test_a_closed_output_is_no_failure(desk: Shop, command: str) -> None:
    whole = f"exec {shlex.quote(sys.executable)} -m redrive {LINES[command]} >&-"
    done = subprocess.run(["sh", "-c", whole], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert OURS not in done.stderr
