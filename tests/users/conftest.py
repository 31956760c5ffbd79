"""What the reference users share: their scripts as modules, and the way to run them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from eventkit import Setting
from hookkit import TOKEN, HookApi, User, hook_api
from summarykit import Service, service_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def environment(**more: str) -> dict[str, str]:
    """What a script needs and nothing of the developer's: no proxy, no token, no colours."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "PYTHONWARNINGS": "error", "PYTHONUTF8": "1", **more}


def start(name: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env=environment(**more),
        cwd=more["HOME"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def run_example(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script of `examples/` in a home of its own, without a terminal."""
    home = tmp_path / "home"
    home.mkdir()

    def run(name: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        process = start(name, *arguments, **{"HOME": str(home), "TMPDIR": str(tmp_path), **more})
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that posts hooks, as a module; its token is set."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HOOKS_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANICCA_AGENT_TOKEN", TOKEN)
    return load("hooks")


@pytest.fixture
def load_example() -> Callable[[str], ModuleType]:
    """Give a script of `examples/` as a module."""
    return load


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    for stream in made.open:
        stream.close()


@pytest.fixture
def api() -> Iterator[HookApi]:
    with hook_api() as running:
        yield running


@pytest.fixture
def make_user(hooks: ModuleType, api: HookApi, tmp_path: Path) -> Iterator[Callable[[float], User]]:
    made: list[User] = []

    def make(chance: float = 0.5) -> User:
        made.append(User(hooks, tmp_path / f"hooks-{len(made)}.jsonl", api, chance))
        return made[-1]

    yield make
    for user in made:
        user.app.close()


@pytest.fixture
def user(make_user: Callable[[], User]) -> User:
    return make_user()


@pytest.fixture
def service() -> Iterator[Service]:
    """The summarising service on a real server, its view made."""
    with service_of(load("summaries")) as made:
        yield made
