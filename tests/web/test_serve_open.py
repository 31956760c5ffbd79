"""`redrive serve --open`: one command from the terminal to a page that is signed in."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from redrive import Redrive
from redrive.cli import _opening
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.web import tokens


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("REDRIVE_STORE", "DISPLAY", "WAYLAND_DISPLAY", *tokens.VARIABLES):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def opened(*words: str) -> Iterator[tuple[str, str]]:
    """Start it in a place without a screen; gives where it serves and the link that it prints."""
    command = [sys.executable, "-m", "redrive", "serve", "--port", "0", "--open", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ.copy())
    assert process.stderr is not None
    said = ""
    try:
        for line in process.stderr:
            said += line
            if found := re.search(r"open (\S+)", line):
                url = re.search(r"serving on (\S+)", said)
                assert url is not None
                yield url[1], found[1]
                break
        else:
            pytest.fail(said)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_a_fresh_directory_becomes_a_signed_in_page(place: Path) -> None:
    with opened("--yes") as (url, link), httpx.Client(follow_redirects=True) as browser:
        assert link.startswith(f"{url}/sign-in?once=")
        page = browser.get(link)
        assert (page.status_code, page.url) == (200, f"{url}/")
        assert "No dead letters" in page.text
        assert httpx.get(link).status_code == 401  # the link works once
    assert (place / "redrive.db").exists()
    file = place / "config" / "redrive" / "tokens"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_terminal_nothing_is_created_unasked(place: Path) -> None:
    result = CliRunner().invoke(root, ["serve", "--open", "--port", "0"], obj=Cli())
    assert result.exit_code == 2
    assert "there is no terminal to ask on" in result.output
    assert not (place / "redrive.db").exists()
    Redrive("redrive.db").close()
    with Redrive("redrive.db") as app:
        app.store.now()
    result = CliRunner().invoke(root, ["serve", "--open", "--port", "0"], obj=Cli())
    assert result.exit_code == 2
    assert not (place / "config").exists()


def test_others_must_not_reach_the_page() -> None:
    words = ["serve", "--open", "--host", "0.0.0.0", "--behind-proxy", "--yes"]
    result = CliRunner().invoke(root, words, obj=Cli())
    assert result.exit_code == 2
    assert "loopback" in result.output


def test_the_browser_gets_a_file_that_only_its_owner_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    seen: list[tuple[str, int, str]] = []

    def browser(address: str) -> bool:
        path = Path(address.removeprefix("file://"))
        seen.append((address, stat.S_IMODE(path.stat().st_mode), path.read_text("utf-8")))
        return True

    monkeypatch.setattr("webbrowser.open", browser)
    with Redrive("memory:") as app:
        from redrive.web import asgi  # noqa: PLC0415

        site = asgi(app, tokens=[tokens.made("mira", "act", "t" * 30)])
        with _opening.page(Cli(), site, "http://127.0.0.1:9200"):
            ((address, mode, text),) = seen
            assert mode == 0o600
            assert "once" not in address
            assert "http://127.0.0.1:9200/sign-in?once=" in text
        assert not Path(address.removeprefix("file://")).exists()


def test_without_tokens_the_page_itself_is_opened() -> None:
    with Redrive("redrive.db") as app:
        app.store.now()
    with opened("--no-auth") as (url, link):
        assert link == f"{url}/"
        assert httpx.get(link).status_code == 200
