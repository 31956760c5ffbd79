"""What is released: it builds, holds what it should, and works where nothing else is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

import redrive

ROOT = Path(__file__).resolve().parents[2]
NAME = f"redrive-{redrive.__version__}"

# One worker runs them all: they share what is built.
pytestmark = pytest.mark.xdist_group("built")


def run(*words: str | Path, **options: object) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return str(done.stdout)


CLONE = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git says what belongs there")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both, from a copy of what git knows, without fetching anything."""
    folder = tmp_path_factory.mktemp("release")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, and the libraries it asks for, into an environment that is empty."""
    home = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(home, with_pip=True)
    wheel = dist / f"{NAME}-py3-none-any.whl"
    pip = (home / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-index", "--no-deps", wheel)
    [libraries] = (home / "lib").glob("python*/site-packages")
    for name in needed("redrive"):
        copy(name, libraries)
    run(*pip, "check")
    return home


def needed(name: str) -> set[str]:
    """Name what a distribution needs without its extras, and what that needs in turn."""
    direct = {
        re.split(r"[^\w.-]", one)[0].lower()
        for one in metadata.requires(name) or []
        if "extra ==" not in one and "python_version" not in one and "platform" not in one
    }
    return direct.union(*(needed(one) for one in direct))


def copy(name: str, libraries: Path) -> None:
    """Take a library over from the tests' own environment: no test reaches a registry."""
    for file in metadata.files(name) or []:
        if ".." not in file.parts and file.suffix != ".pyc":
            target = libraries / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)


def test_it_needs_two_libraries_and_what_these_need() -> None:
    assert needed("redrive") == {"click", "rich", "markdown-it-py", "mdurl", "pygments"}


@CLONE
def test_the_wheel_has_all_of_the_package_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as archive:
        names = set(archive.namelist())
    tracked = run("git", "ls-files", "src/redrive", cwd=ROOT).split()
    assert {name.removeprefix("src/") for name in tracked} <= names
    assert {name.split("/")[0] for name in names} == {"redrive", f"{NAME}.dist-info"}
    assert {Path(name).suffix for name in names if name.startswith("redrive/")} <= {
        *(".css", ".html", ".js", ".json", ".LICENSE", ".svg", ".toml"),  # the console
        ".md",
        ".py",
        ".sql",
        ".typed",
    }


@CLONE
def test_the_source_archive_has_what_its_tests_read(dist: Path) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = set(run("git", "ls-files", cwd=ROOT).splitlines())
    left_out = {name for name in tracked if name not in names}
    assert {name.split("/")[0] for name in left_out} <= {".ci", ".editorconfig", ".gitignore"}


def test_what_is_installed_works(installed: Path, tmp_path: Path) -> None:
    """From nothing to a dead letter, with no more than the wheel and its two libraries."""
    (tmp_path / "shop.py").write_text(
        "from redrive import GiveUp, Redrive\n"
        "app = Redrive('shop.db')\n"
        "@app.handler('bill')\n"
        "def bill(order: int) -> None:\n"
        "    raise GiveUp('no such order')\n"
        "if __name__ == '__main__':\n"
        "    bill.submit(7)\n",
        "utf-8",
    )
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    here = SimpleNamespace(cwd=tmp_path, env=clean)
    redrive_command = installed / "bin" / "redrive"
    assert run(redrive_command, "--version", **vars(here)) == f"redrive {redrive.__version__}\n"
    run(installed / "bin" / "python", "-W", "error", "shop.py", **vars(here))
    passed = subprocess.run(
        [redrive_command, "work", "shop:app", "--once"],
        **vars(here),
        capture_output=True,
        text=True,
        check=False,
    )
    assert passed.returncode == 6, passed.stderr
    assert "no such order" in run(redrive_command, "dlq", "--store", "shop.db", **vars(here))
    assert "47 jobs completed" in run(redrive_command, "demo", **vars(here))
