"""Screenshots of every page, to be looked at: python tests_browser/shots.py URL TOKEN FOLDER [page …]

Light, dark and 375 px wide; says what overflows or breaks the policy.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

KINDS = {"light": (1280, 900, "light"), "dark": (1280, 900, "dark"), "375": (375, 812, "light")}


def main(url: str, token: str, folder: Path, pages: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for kind, (width, height, scheme) in KINDS.items():
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=scheme,
                reduced_motion="reduce",
                has_touch=width < 400,
            )
            page = context.new_page()
            page.on(
                "console",
                lambda m: print("console:", m.text) if m.type in ("error", "warning") else None,
            )
            page.on("pageerror", lambda e: print("error:", e))
            page.goto(f"{url}/sign-in")
            page.fill("#token", token)
            page.click("button")
            for path in pages:
                page.goto(url + path)
                page.wait_for_timeout(400)
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                if wide > 0:
                    print(
                        path,
                        kind,
                        "overflows by",
                        wide,
                        page.evaluate(
                            "[...document.querySelectorAll('body *')].filter(e=>e.getBoundingClientRect().right>innerWidth+1)"
                            ".slice(0,5).map(e=>e.tagName+'.'+e.className)"
                        ),
                    )
                name = path.partition("?")[0].strip("/").replace("/", "-") or "overview"
                page.screenshot(path=folder / f"{name}-{kind}.png", full_page=True)
            context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
