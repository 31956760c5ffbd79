"""Every command works without rich, on a narrow terminal."""

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
    "help": "help retry",
    "status": "status",
    "dlq": "dlq",
    "failed": "failed",
    "list": "list state:dead",
    "show": f"show {ONE}",
    "groups": "groups",
    "group": "group G1",
    "log": "log",
    "explain": "explain SYNC",
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
    "purge": f"purge {ONE} --yes",
    "export": "export -o out.jsonl --force",
    "import": "import in.jsonl",
    "alerts": "alerts list",
    "metrics": "metrics",
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


@pytest.mark.parametrize("has_rich", [True, False], ids=["40 columns", "no rich"])
def test_every_command_where_a_terminal_is_drawn(
    empty: Shop, prepared: Path, monkeypatch: pytest.MonkeyPatch, has_rich: bool
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.syspath_prepend(str(prepared))
    if not has_rich:
        for module in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
            monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules, "redrive.cli.output.terminal", raising=False)
        monkeypatch.delattr("redrive.cli.output.terminal", raising=False)
    assert set(root.list_commands(click.Context(root))) == set(LINES)
    for command, line in LINES.items():
        place = empty.folder / command
        shutil.copytree(prepared, place)
        monkeypatch.chdir(place)
        done = empty.run(*shlex.split(line))
        assert done.exit_code == 0, (command, done.output)
        assert done.output
        assert OURS not in done.stderr
        assert has_rich or "\x1b" not in done.stdout


def test_a_real_terminal_without_rich(desk: Shop) -> None:
    for line in (f"show {ONE}", f"edit {ONE} --payload new.json --yes"):
        shown = on_terminal(*shlex.split(line), rich=False)
        assert shown.code == 0, shown.text
        assert b"\x1b" not in shown.raw
    hidden = [sys.executable, "-c", HIDE_RICH, "status"]
    done = subprocess.run(hidden, capture_output=True, text=True, check=False)
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)
