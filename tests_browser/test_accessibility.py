"""WCAG 2.2 AA by axe, no overflow, no violation of the policy: every page, light, dark and narrow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import Desk, press, served
from playwright.sync_api import Browser, Page, expect

from redrive import Redrive

AXE = Path(sys.prefix) / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
KINDS = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "narrow": {
        "viewport": {"width": 375, "height": 812},
        "color_scheme": "light",
        "has_touch": True,
    },
}
PATHS = (
    "/",
    "/groups",
    "/groups?status=resolved",
    "/groups/G1",
    "/jobs",
    "/jobs?q=state:dead",
    "/jobs?q=handler:nobody",
    "/runs",
    "/runs/R1",
    "/system",
    "/system?pause=billing.charge",
    "/activity",
    "/activity?actor=nobody",
    "/nowhere",
)


def judged(page: Page, where: str) -> list[str]:
    """What axe finds, and what is wider than the window."""
    page.wait_for_load_state("networkidle")
    found = []
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if wide > 0:
        found.append(f"{where} is {wide} px too wide")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    result = page.evaluate("(rules) => axe.run({runOnly: rules})", RULES)
    for violation in result["violations"]:
        node = violation["nodes"][0]
        found.append(
            f"{where}: {violation['id']}: {node['html'][:160]} | {node['failureSummary'][:300]}"
        )
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_is_accessible(night: Desk, kind: str) -> None:
    page = night.visit(bypass_csp=True, **KINDS[kind])
    with night.app() as app:
        job = app.desk.jobs.find(state="dead", limit=1).jobs[0].id
    found = []
    night.expect(404)
    for path in (*PATHS, f"/jobs/{job}", f"/jobs/{job}/edit"):
        page.goto(night.url + path)
        found += judged(page, f"{path} {kind}")
    page.goto(f"{night.url}/jobs/{job}/edit")
    page.fill("textarea", page.input_value("textarea").replace('"EUR"', '"USD"'))
    page.get_by_role("button", name="Show what changes").click()
    expect(page.locator(".diff")).to_be_visible()
    found += judged(page, f"what an edit changes {kind}")
    page.goto(f"{night.url}/groups/G1")
    page.locator("[data-retry]").click()
    expect(page.locator(".confirm")).to_be_visible()
    found += judged(page, f"/plans {kind}")
    page.goto(f"{night.url}/groups/G1")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Discard").click()
    expect(page.locator(".confirm")).to_be_visible()
    found += judged(page, f"/plans to discard {kind}")
    page.goto(f"{night.url}/groups/G1")
    page.locator(".menu summary").click()
    found += judged(page, f"/groups/G1 with its menu {kind}")
    press(page, "Escape", "?")
    expect(page.locator("dialog[open]")).to_be_visible()
    found += judged(page, f"keys {kind}")
    stranger = night.anyone(bypass_csp=True, **KINDS[kind])
    stranger.goto(f"{night.url}/sign-in")
    found += judged(stranger, f"/sign-in {kind}")
    assert not found, json.dumps(found, indent=1, ensure_ascii=False)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_store_is_accessible(browser: Browser, tmp_path: Path, kind: str) -> None:
    with Redrive(tmp_path / "empty.db") as app:
        app.store.now()
    found = []
    with served(browser, tmp_path, tmp_path / "empty.db") as desk:
        page = desk.visit(bypass_csp=True, **KINDS[kind])
        for path in ("/", "/groups", "/jobs", "/runs", "/activity", "/system"):
            page.goto(desk.url + path)
            found += judged(page, f"{path} {kind}, empty")
    assert not found, json.dumps(found, indent=1, ensure_ascii=False)


CANARY = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def test_no_canary_runs(browser: Browser, tmp_path: Path) -> None:
    """Markup of strangers in every field that they can fill: no dialog, no report, text on the page."""
    store = tmp_path / "canary.db"
    with Redrive(store, release=CANARY) as app:
        handler = app.handler("mail.send", attempts=1)(_raise)
        for _ in range(3):
            handler.submit(to=CANARY)
        app.run_due()
        app.desk.groups.mark("G1", note=CANARY, reason=CANARY, actor=CANARY)
        app.desk.lanes.pause("other", reason=CANARY, actor=CANARY)
        app.desk.runs.start("G1", name=CANARY, reason=CANARY, actor=CANARY)
        job = app.desk.jobs.find(limit=1).jobs[0].id
    with served(browser, tmp_path, store) as desk:
        page = desk.visit()
        shown = 0
        for path in (
            "/",
            "/groups",
            "/groups/G1",
            "/jobs",
            f"/jobs/{job}",
            "/runs",
            "/runs/R1",
            "/activity",
            f"/jobs/{job}/edit",
            "/system",
        ):
            page.goto(desk.url + path)
            page.wait_for_load_state("networkidle")
            shown += CANARY[:28] in page.locator("body").inner_text()
            assert page.locator("main img, main script").count() == 0
        assert shown >= 8
        page.goto(f"{desk.url}/jobs/{job}/edit")
        page.fill("textarea", page.input_value("textarea").replace("alert(1)", "alert(3)"))
        page.fill("#reason", CANARY)
        page.get_by_role("button", name="Show what changes").click()
        expect(page.locator(".diff")).to_contain_text("<img src=x onerror=alert(3)>")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.locator(".json").first).to_contain_text("alert(3)")


def _raise(to: str) -> None:
    raise ValueError(to)
