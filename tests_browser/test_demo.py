"""`redrive demo --web`: sample data to play with, and nothing left of it afterwards."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from conftest import press, process
from playwright.sync_api import Browser, expect


def test_the_sample_is_played_with(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    before = set(tmp_path.iterdir())
    with process("demo", "--web", folder=tmp_path, until=r"open (http\S+)") as (child, said):
        page = browser.new_page()
        page.set_default_timeout(30_000)
        page.goto(said.removeprefix("open "))
        expect(page.locator("h1")).to_contain_text("dead letters")
        expect(page.locator(".where")).to_contain_text("sample data")
        page.goto(page.url.rstrip("/") + "/runs/R1")  # the worker carries it out
        done = page.locator(".outs dd").first
        expect(done).not_to_have_text(re.compile(r"^\s*0\s*$"), timeout=60_000)
        page.goto(page.url.replace("/runs/R1", "/jobs?q=handler:billing.pdf+state:dead"))
        page.locator("a.id").first.click()
        expect(page.locator("#job-id")).to_be_visible()
        press(page, "e")
        page.fill("textarea", page.input_value("textarea").replace("{", '{"vat_id": "DE1",', 1))
        page.get_by_role("button", name="Show what changes").click()
        page.get_by_role("button", name="Save and retry").click()
        expect(page.locator(".toast")).to_contain_text("the job is due now")
        for _ in range(60):
            page.reload()
            if page.locator(".head .st").inner_text() == "completed":
                break
            page.wait_for_timeout(500)
        expect(page.locator(".head .st")).to_have_text("completed")
        page.close()
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0
    left = {path for path in set(tmp_path.iterdir()) - before if path.suffix != ".log"}
    assert not left
