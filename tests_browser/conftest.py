"""What the browser tests share: Debian's Chromium, a real server, a real store and a real worker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE)]

from shop_program import OUTAGE

from redrive import Redrive
from redrive.contrib.demo.sample import fill

TOKENS = {
    "mira": ("act", "act-" + "a" * 30),
    "wall": ("read", "read-" + "r" * 30),
    "root": ("reveal", "reveal-" + "v" * 30),
}
WIDE = {
    "warehouse.synchronise-inventory-levels-with-the-regional-centre": "a_long_word_" * 20,
    "mail.he": "הכתובת אינה תקינה: דוד@דוגמה.ישראל",
}
expect.set_options(timeout=30_000)
MISSING = (
    "the browser tests need Chromium: apt-get update && apt-get install -y chromium fonts-noto-cjk"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, MISSING
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Desk:
    """A server on a store, and people who look at it."""

    def __init__(self, browser: Browser, folder: Path, store: Path) -> None:
        self.browser, self.folder, self.store = browser, folder, store
        self.url = ""
        self.problems: list[str] = []
        self.expected: set[int] = set()
        self._contexts: list[BrowserContext] = []

    def app(self) -> Redrive:
        return Redrive(self.store, actor="test")

    def anyone(self, **settings: object) -> Page:
        """A browser of its own, in which nobody has signed in; what it complains about is kept."""
        context = self.browser.new_context(reduced_motion="reduce", **settings)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on(
            "console", lambda m: m.type in ("error", "warning") and self.problems.append(m.text)
        )
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        return page

    def visit(self, name: str = "mira", path: str = "/", **settings: object) -> Page:
        """Sign in by the form."""
        page = self.anyone(**settings)
        page.goto(f"{self.url}/sign-in?next={path.replace('&', '%26')}")
        page.fill("#token", TOKENS[name][1])
        page.click("button")
        page.wait_for_url(lambda url: "/sign-in" not in url)
        return page

    def expect(self, *statuses: int) -> None:
        """The browser will report that the server answers so; when it does is not certain."""
        self.expected.update(statuses)

    def close(self) -> None:
        """Close every browser; a problem that nobody expected fails."""
        for context in self._contexts:
            context.close()
        code = "|".join(map(str, self.expected)) or "none"
        expected = re.compile(rf"a status of ({code}) |Response Status Error Code ({code}) ")
        left = [text for text in self.problems if not expected.search(text)]
        assert not left, left


def press(page: Page, *keys: str) -> None:
    """Press keys when the page's scripts have run: before, nobody listens."""
    page.wait_for_load_state("load")
    for key in keys:
        page.keyboard.press(key)


@contextmanager
def process(*words: str, folder: Path, until: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a command, and go on when it has said something; ends it."""
    log = folder / f"{words[-1].replace(os.sep, '-')}-{len(words)}.log"
    with log.open("w") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "redrive", *words], cwd=folder, stderr=out, text=True
        )
    try:
        end = time.monotonic() + 60
        while not (found := re.search(until, log.read_text())):
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < end, f"{words} said nothing of {until}"
            time.sleep(0.05)
        yield child, found[0]
    finally:
        child.terminate()
        child.wait(timeout=30)


@contextmanager
def served(browser: Browser, folder: Path, store: Path, *words: str) -> Iterator[Desk]:
    """Serve a store."""
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{n} {right} {text}\n" for n, (right, text) in TOKENS.items()))
    tokens.chmod(0o600)
    desk = Desk(browser, folder, store)
    options = ("--store", str(store), "serve", "--port", "0", "--tokens", str(tokens), *words)
    with process(*options, folder=folder, until=r"http://\S+") as (_, url):
        desk.url = url
        yield desk
        desk.close()


@pytest.fixture(scope="session")
def night(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The sample, with long and right-to-left texts, only to be looked at."""
    folder = tmp_path_factory.mktemp("night")
    fill(folder / "night.db")
    with Redrive(folder / "night.db") as app:
        for handler, error in WIDE.items():
            with app.capture(handler, {"currency": "EUR"}, reraise=False):
                raise ValueError(error)
    (folder / "redrive.toml").write_text('[alerts.channels.slack]\nurl_env = "SLACK_URL"\n')
    with served(browser, folder, folder / "night.db") as desk:
        yield desk


@pytest.fixture
def shop(browser: Browser, tmp_path: Path) -> Iterator[Desk]:
    """A shop whose charges die while its file OUTAGE is there, served; `worker` works for it."""
    shutil.copy(HERE / "shop_program.py", tmp_path)
    (tmp_path / OUTAGE).touch()
    with Redrive(tmp_path / "shop.db") as app:
        app.store.now()
    with served(browser, tmp_path, tmp_path / "shop.db") as desk:
        yield desk


@pytest.fixture
def worker(shop: Desk) -> Iterator[None]:
    with process("work", "shop_program:app", folder=shop.folder, until="worker begins"):
        yield
