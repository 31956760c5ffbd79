"""The pictures of the console's tour: `make tour` plays `redrive demo --web` and looks at it.

    .venv-browser/bin/python docs/images/tour.py [FOLDER]

Look at them before you commit them; nothing compares them by pixel.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).resolve().parent
WIDE = {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "locale": "ja-JP"}


def started(log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the demo; returns it and the link that signs in."""
    words = [sys.executable, "-m", "redrive", "demo", "--web"]
    with log.open("w") as out:
        child = subprocess.Popen(words, stderr=out, env={"PATH": "", "HOME": tempfile.gettempdir()})
    end = time.monotonic() + 120
    while not (found := re.search(r"open (http\S+)", log.read_text())):
        assert child.poll() is None, log.read_text()
        assert time.monotonic() < end, "the demo did not start"
        time.sleep(0.2)
    return child, found[1]


def pictures(page: Page, url: str, folder: Path) -> None:
    """Walk the operator's way and take a picture of each step."""

    def take(name: str) -> None:
        page.wait_for_load_state("networkidle")
        page.mouse.move(0, 0)
        page.screenshot(path=folder / f"console-{name}.png")

    take("overview")
    page.goto(f"{url}/groups?sort=jobs")
    take("groups")
    stripe = page.locator("[data-row]", has_text="ConnectionError")
    stripe.locator("a.cut").first.click()
    take("group")
    page.goto(f"{url}/runs/R1")
    page.locator(".percent", has_text=re.compile(r"^[1-9]\d")).wait_for(timeout=120_000)
    take("run")
    page.goto(f"{url}/jobs?q=handler:billing.pdf+state:dead")
    page.locator("a.id").last.click()
    take("job")
    page.click("[data-edit]")
    page.fill(
        "textarea", page.input_value("textarea").replace("{", '{\n  "vat_id": "DE136695976",', 1)
    )
    page.fill("#reason", "the customer sent the number")
    page.click("button[value=preview]")
    take("edit")
    page.goto(f"{url}/groups?sort=jobs")
    page.locator("[data-row]", has_text="KeyError").first.locator("button").click()
    take("plan")


def taken(browser: Browser, link: str, folder: Path) -> None:
    """Take all pictures: seven on a desk, one on a phone in the dark, in Japanese."""
    context = browser.new_context(reduced_motion="reduce", device_scale_factor=1, **WIDE)
    page = context.new_page()
    page.goto(link)
    url = page.url.rstrip("/")
    pictures(page, url, folder)
    settings: dict[str, Any] = {**PHONE, "storage_state": context.storage_state()}
    phone = browser.new_context(reduced_motion="reduce", **settings).new_page()
    phone.goto(url)
    phone.wait_for_load_state("networkidle")
    phone.screenshot(path=folder / "console-phone.png")


def main(folder: Path) -> None:
    """Play the demo, take the pictures, and end it."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as play:
        child, link = started(Path(place) / "log")
        try:
            path = shutil.which("chromium")
            browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
            taken(browser, link, folder)
            browser.close()
        finally:
            child.terminate()
            child.wait(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
