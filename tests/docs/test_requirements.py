"""docs/reference/requirements.md: every promise has a test that names it, and the page is current."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def script() -> ModuleType:
    path = ROOT / "docs" / "reference" / "requirements.py"
    spec = importlib.util.spec_from_file_location("requirements", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


REQUIREMENTS = script()
PROMISES = [one for said in REQUIREMENTS.promises().values() for one in said]


def test_every_promise_has_a_test_that_names_it() -> None:
    proofs = REQUIREMENTS.proofs()
    assert [one for one in PROMISES if not proofs[one]] == []


def test_no_promise_is_missing() -> None:
    """The ids are a public list: a promise is not dropped by forgetting its line."""
    sizes = {"M": 9, "P": 8, "E": 4, "T": 7, "J": 11, "B": 5, "H": 6, "A": 6, "C": 4, "X": 7}
    users = {"HOOKS": 9, "ARTICLES": 7, "SUMMARIES": 8, "SYNC": 6, "EVENTS": 5}
    wanted = [f"{letter}{n}" for letter, last in sizes.items() for n in range(1, last + 1)]
    wanted += [f"R-{user} {n}" for user, last in users.items() for n in range(1, last + 1)]
    assert wanted == PROMISES


def test_the_page_is_current() -> None:
    assert REQUIREMENTS.PAGE.read_text("utf-8") == REQUIREMENTS.page(), "run: make pages"


def test_a_test_speaks_for_itself_and_else_its_class_and_its_file_do(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(
        '"""All of it (T6, R-HOOKS 7 to 8)."""\n'
        'def test_one():\n    """M1-M2: so it is; see F3."""\n'
        "def test_r_sync_4_two(): ...\n"
        "def test_b3_three(): ...\n"
        'class TestFour:\n    """J9."""\n    def test_five(self): ...\n'
        "def test_silent(): ...\n"
        'def no_test():\n    """X1."""\n',
        "utf-8",
    )
    REQUIREMENTS.ROOT, kept = tmp_path, REQUIREMENTS.ROOT
    try:
        found = sorted((one, test.name) for one, test in REQUIREMENTS.proofs_in(file))
    finally:
        REQUIREMENTS.ROOT = kept
    assert found == [
        ("B3", "test_b3_three"),
        ("J9", "TestFour::test_five"),
        ("M1", "test_one"),
        ("M2", "test_one"),
        ("R-HOOKS 7", ""),
        ("R-HOOKS 8", ""),
        ("R-SYNC 4", "test_r_sync_4_two"),
        ("T6", ""),
    ]


def test_what_is_not_promised_is_said_on_the_first_page() -> None:
    """J11."""
    [said] = [
        line
        for line in (ROOT / "README.md").read_text("utf-8").splitlines()
        if line.startswith("Not promised:")
    ]
    for words in (
        "returns is not stored",
        "no cron",
        "no priorities",
        "Tested on Linux",
        "Windows",
    ):
        assert words in said


ELSEWHERE = """
import importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "fcntl" else real(name, *more)
for name in ("fcntl", "resource", "termios", "tty", "pty"):
    sys.modules[name] = None
import redrive
from redrive.errors import UsageError
app = redrive.Redrive("memory:")
greet = app.handler("greet")(lambda: None)
greet.submit()
assert app.run_due().succeeded == 1
for url in ("redrive.db", "jsonl:redrive.jsonl"):
    try:
        redrive.Redrive(url).desk.jobs.counts()
    except UsageError as error:
        print(error)
"""


def test_where_there_are_no_file_locks_it_can_be_imported_and_says_what_cannot_be_done(
    tmp_path: Path,
) -> None:
    """J11: as on Windows, whose Python has no such modules."""
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    assert [line.partition(" store needs")[0] for line in said] == ["a sqlite:", "a jsonl:"]
    assert all("postgresql://" in line for line in said)
    assert list(tmp_path.iterdir()) == []
