"""More stories: editing with two people, activity, alerts and the other language."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Desk, press
from playwright.sync_api import Page, expect
from test_accessibility import KINDS, judged
from test_stories import dead

BIG = 1970670598291982290
SECRET = "4242424242424242"


@pytest.fixture
def charge(shop: Desk, worker: None) -> str:
    """One charge with a secret and a number that JavaScript would round; it has died."""
    with shop.app() as app:
        handler = app.handler("billing.charge")(lambda order, amount=1, card_number="": None)
        handler.submit(order=BIG, amount=10.5, card_number=SECRET)
    return dead(shop, 1)[0].id


def preview(page: Page, old: str, new: str) -> None:
    page.fill("textarea", page.input_value("textarea").replace(old, new))
    page.get_by_role("button", name="Show what changes").click()
    expect(page.locator(".diff")).to_contain_text(new)


def test_10_an_edit_keeps_the_secret_and_the_number_and_the_second_sees_both_texts(
    shop: Desk, charge: str
) -> None:
    page = shop.visit(path=f"/jobs/{charge}")
    press(page, "e")
    expect(page.locator("h1")).to_contain_text("Edit the payload of billing.charge")
    assert str(BIG) in page.input_value("textarea")
    assert SECRET not in page.content()
    other = shop.visit("root", path=f"/jobs/{charge}/edit")
    preview(page, "10.5", "12.75")
    preview(other, "10.5", "99")
    page.fill("#reason", "the price was wrong")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("The payload is saved")
    with shop.app() as app:
        stored = app.store.get(charge)
    assert stored is not None
    assert f'"order":{BIG}' in stored.payload
    assert '"amount":12.75' in stored.payload
    assert SECRET in stored.payload
    shop.expect(409)
    other.get_by_role("button", name="Save and retry").click()
    expect(other.get_by_role("alert")).to_contain_text("mira saved another text")
    expect(other.locator(".json")).to_contain_text("12.75")
    assert '"amount": 99' in other.input_value("textarea")
    other.get_by_role("button", name="Show what changes").click()
    expect(other.locator(".diff .del")).to_contain_text("12.75")
    other.get_by_role("button", name="Save and retry").click()
    expect(other.locator(".toast")).to_contain_text("the job is due now")
    page.goto(f"{shop.url}/activity?target={charge}")
    expect(page.locator(".trail")).to_contain_text("the price was wrong")
    expect(page.locator(".trail li")).to_have_count(3)  # two edits and the retry


def test_an_edit_and_the_language_work_without_javascript(shop: Desk, charge: str) -> None:
    page = shop.visit(path=f"/jobs/{charge}", java_script_enabled=False)
    page.get_by_role("link", name="Edit…").click()
    preview(page, "10.5", "11")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("The payload is saved")
    page.get_by_role("button", name="日本語").click()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    expect(page).to_have_url(f"{shop.url}/jobs/{charge}")
    page.get_by_role("link", name="操作履歴").click()
    expect(page.locator("h1")).to_have_text("操作履歴")


def test_a_form_that_is_too_large_is_a_page(shop: Desk, charge: str) -> None:
    page = shop.visit(path=f"/jobs/{charge}/edit")
    page.fill("textarea", "x" * 3_000_000)
    shop.expect(413)
    page.get_by_role("button", name="Show what changes").click()
    expect(page.locator("h1")).to_have_text("The form is too large")


def test_a_plan_that_takes_long_says_so_until_it_is_there(shop: Desk, charge: str) -> None:
    page = shop.visit(path="/jobs?q=state:dead")
    page.locator("main form[data-rows]").dispatch_event("submit", {"bubbles": True})
    expect(page.locator(".beat")).to_contain_text("many jobs can take some seconds")
    page.locator(".pick button[name=one]").first.click()
    expect(page.locator("h1")).to_contain_text("1 job")
    page.go_back()
    expect(page.locator("h1")).to_contain_text("Jobs")
    expect(page.locator(".beat")).not_to_contain_text("seconds")


def test_activity_is_filtered_and_exported(night: Desk, tmp_path: Path) -> None:
    page = night.visit("wall")
    page.keyboard.type("ga")
    expect(page.locator("h1")).to_have_text("Activity")
    page.select_option("select[name=verb]", "note")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".trail li")).to_have_count(2)
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    file = tmp_path / "activity.jsonl"
    download.value.save_as(file)
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert [line["verb"] for line in lines] == ["note", "note"]
    assert download.value.suggested_filename == "redrive-activity.jsonl"


def test_a_channel_that_cannot_send_says_why(night: Desk) -> None:
    page = night.visit(path="/system")
    expect(page.locator("main")).to_contain_text("SLACK_URL is not set")
    night.expect(502)
    page.get_by_role("button", name="Send a test message by slack").click()
    expect(page.locator("main")).to_contain_text("SLACK_URL is not set")
    page.goto(f"{night.url}/activity?verb=test")
    expect(page.locator(".trail")).to_contain_text("slack")


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_fits_and_is_accessible_in_japanese(night: Desk, kind: str) -> None:
    page = night.visit(bypass_csp=True, locale="ja-JP", **KINDS[kind])
    with night.app() as app:
        job = app.desk.jobs.find(state="dead", limit=1).jobs[0].id
    found = []
    paths = ("/", "/groups", "/groups/G1", "/jobs", f"/jobs/{job}", f"/jobs/{job}/edit")
    for path in (*paths, "/runs", "/runs/R1", "/activity", "/system"):
        page.goto(night.url + path)
        expect(page.locator("html")).to_have_attribute("lang", "ja")
        found += judged(page, f"{path} {kind}")
    assert not found, json.dumps(found, indent=1, ensure_ascii=False)
