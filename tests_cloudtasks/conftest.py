"""What the tests with Cloud Tasks' client share: the way to their kit, and a quiet, closed world."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path += [str(HERE), str(ROOT / "tests" / "kits")]  # at the end: they hide no installed module

for name in [*os.environ]:
    if name.lower().endswith("_proxy"):
        del os.environ[name]

from queuekit import SECRET, User, client_of, emulator  # noqa: E402 - found by the lines above


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNC_PROJECT", "shop")
    monkeypatch.setenv("SYNC_CALLBACK", "http://127.0.0.1:1/never")
    monkeypatch.setenv("SYNC_SECRET", SECRET)


@pytest.fixture
def google():
    with emulator() as address, client_of(address) as client:
        yield client


@pytest.fixture
def sync():
    spec = importlib.util.spec_from_file_location("example_sync", ROOT / "examples/sync.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def user(sync, google):
    return User(sync, google)
