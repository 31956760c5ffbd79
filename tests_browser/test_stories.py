"""The stories of the console, as an operator lives them: a real browser, server, store and worker."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from conftest import TOKENS, Desk, press, process
from playwright.sync_api import Page, expect
from shop_program import CARDS, OUTAGE

from redrive.jobs.job import Job

FAR = 60_000
"""Milliseconds: a generous end for what a worker does."""


def submit(shop: Desk, number: int, *, first: int = 0) -> list[str]:
    """Store charges that a worker will try."""
    with shop.app() as app:
        handler = app.handler("billing.charge")(lambda order, amount=1, card_number="": None)
        return [handler.submit(order=order).id for order in range(first, first + number)]


def dead(shop: Desk, number: int) -> list[Job]:
    """Wait until so many have died."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with shop.app() as app:
            jobs = app.desk.jobs.find(state="dead", limit=1000).jobs
        if len(jobs) >= number:
            return jobs
        time.sleep(0.1)
    pytest.fail(f"{len(jobs)} of {number} died")


@pytest.fixture
def outage(shop: Desk, worker: None) -> Desk:
    """Twelve charges have died; then the provider is back."""
    submit(shop, 12)
    dead(shop, 12)
    (shop.folder / OUTAGE).unlink()
    return shop


def counts(shop: Desk) -> dict[str, int]:
    with shop.app() as app:
        found: dict[str, int] = {}
        for count in app.desk.jobs.counts():
            found[count.state.value] = found.get(count.state.value, 0) + count.jobs
        return found


def test_1_a_wrong_token_then_the_right_one_and_the_link_first_asked_for_opens(night: Desk) -> None:
    page = night.anyone()
    page.goto(f"{night.url}/groups?status=all")
    expect(page).to_have_url(re.compile("/sign-in"))
    page.fill("#token", "x" * 30)
    night.expect(401)
    page.click("button")
    expect(page.get_by_role("alert")).to_contain_text("no such token")
    page.fill("#token", TOKENS["mira"][1])
    page.press("#token", "Enter")
    expect(page).to_have_url(f"{night.url}/groups?status=all")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in"))
    page.goto(f"{night.url}/groups")
    expect(page).to_have_url(re.compile("/sign-in"))


def test_2_the_link_of_open_works_once_and_leaves_the_address(shop: Desk) -> None:
    words = ("--store", str(shop.store), "serve", "--open", "--port", "0", "--tokens", "tokens")
    with process(*words, folder=shop.folder, until=r"open (http\S+)") as (_, said):
        link = said.removeprefix("open ")
        page, other = shop.anyone(), shop.anyone()
        page.goto(link)
        expect(page).to_have_url(re.compile(r"/$"))
        expect(page.locator(".me")).to_contain_text("mira")
        shop.expect(401)
        other.goto(link)
        expect(other.get_by_role("alert")).to_contain_text("used already")


def test_3_from_the_overview_to_the_outcome(outage: Desk) -> None:
    page = outage.visit()
    expect(page.get_by_role("heading", level=1)).to_contain_text("12 dead letters")
    page.locator(".causes a.cut").first.click()
    expect(page.locator("h1")).to_contain_text("ConnectionError")
    expect(page.locator(".o-facts")).to_contain_text("refused the connection")
    page.get_by_role("button", name="Retry…").click()
    expect(page.locator("h1")).to_have_text("Retry 12 jobs")
    page.fill("#name", "provider outage")
    page.fill("#rate", "100/s")
    page.get_by_role("button", name="Start the run").click()
    expect(page).to_have_url(re.compile("/runs/R1$"))
    expect(page.locator(".st", has_text="done").first).to_be_visible(timeout=FAR)
    expect(page.locator(".outs")).to_contain_text("Succeeded12")
    assert counts(outage) == {"completed": 12}


def test_4_a_wrong_number_changes_nothing_and_keeps_the_form(night: Desk) -> None:
    page = night.visit(path="/jobs?q=handler:billing.pdf")
    page.get_by_role("button", name="Retry all that match…").click()
    expect(page.locator("h1")).to_contain_text("Retry")
    number = int(re.sub(r"\D", "", page.locator("h1").inner_text()))
    if number <= 100:  # then it needs no typing: a discard always does
        page = night.visit(path="/groups")
        page.locator("[data-row] a.cut").first.click()
        page.locator(".menu summary").click()
        page.get_by_role("button", name="Discard").click()
    page.fill("#reason", "kept while I was wrong")
    page.fill("#confirm", "1")
    night.expect(409)
    page.locator(".confirm button").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was changed")
    expect(page.locator("#reason")).to_have_value("kept while I was wrong")


def test_5_what_changed_since_the_plan_is_skipped_and_named(outage: Desk) -> None:
    page = outage.visit(path="/groups/G1")
    page.get_by_role("button", name="Resolve…").click()
    expect(page.locator("h1")).to_have_text("Resolve 12 jobs")
    jobs = dead(outage, 12)
    with outage.app() as app:
        app.desk.retry(jobs[0].id, jobs[1].id)
    page.get_by_role("button", name="Resolve 12 jobs").click()
    expect(page.locator(".head")).to_contain_text("Done: 10 of 12 jobs")
    expect(page.locator(".head")).to_contain_text("2 were skipped")


def test_6_a_run_is_paused_resumed_and_cancelled(outage: Desk) -> None:
    page = outage.visit(path="/groups/G1")
    page.get_by_role("button", name="Retry…").click()
    page.fill("#canary", "0")
    page.fill("#rate", "2/m")
    page.uncheck("input[name=ramp]")
    page.get_by_role("button", name="Start the run").click()
    page.get_by_role("button", name="Pause run").click()
    expect(page.locator(".head .st")).to_have_text("paused")
    page.get_by_role("button", name="Resume run").click()
    expect(page.locator(".head .st")).to_have_text("live")
    page.locator("summary", has_text="Cancel run…").click()
    page.fill("#why-cancel", "enough")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".head .st")).to_have_text("cancelled", timeout=FAR)
    assert counts(outage)["dead"] >= 1


def test_7_the_stop_rule_hits_and_the_failed_are_a_click_away(outage: Desk) -> None:
    (outage.folder / CARDS).touch()
    page = outage.visit(path="/groups/G1")
    page.get_by_role("button", name="Retry…").click()
    page.fill("#canary", "4")
    page.fill("#rate", "100/s")
    page.fill("#stop", "1")
    page.get_by_role("button", name="Start the run").click()
    expect(page.locator(".attend")).to_contain_text("failed again", timeout=FAR)
    expect(page.locator(".causes")).to_contain_text("the card has expired")
    page.locator(".attend a").click()
    expect(page.locator("tbody tr").first).to_contain_text("ValueError")


def test_8_three_ticked_rows_are_a_plan_of_exactly_three(night: Desk) -> None:
    page = night.visit(path="/jobs?q=handler:billing.pdf+state:dead")
    for box in page.locator("tbody input[type=checkbox]").all()[:3]:
        box.check()
    expect(page.locator("[data-count]")).to_have_text("3 ticked")
    page.get_by_role("button", name="Plan a retry of the ticked…").click()
    expect(page.locator("h1")).to_contain_text("3 job")
    page.go_back()
    expect(page.locator("main input[type=search]")).to_have_value("handler:billing.pdf state:dead")


def test_9_all_that_match_is_more_than_a_page(night: Desk) -> None:
    page = night.visit(path="/jobs?q=lane:billing.charge+state:dead")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Retry all that match…").click()
    with night.app() as app:
        total = sum(1 for _ in app.desk.jobs.ids("lane:billing.charge state:dead"))
    expect(page.locator(".sum b").first).to_have_text(f"{total:,}")


def test_11_a_discard_needs_a_reason_and_can_be_undone(outage: Desk) -> None:
    job = dead(outage, 12)[0].id
    page = outage.visit(path=f"/jobs/{job}")
    page.locator(".menu summary").click()
    outage.expect(400)
    page.get_by_role("button", name="Discard the job").click()
    expect(page.get_by_role("alert")).to_contain_text("reason")
    page.fill("#why-discard", "a test order")
    page.get_by_role("button", name="Discard the job").click()
    expect(page.locator(".head .st")).to_have_text("resolved")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".head .st")).to_have_text("dead")


def test_12_a_lane_is_paused_and_everybody_agrees(outage: Desk) -> None:
    page = outage.visit(path="/system")
    page.get_by_role("link", name="Pause lane billing.charge").click()
    page.fill("#why-pause", "let the provider breathe")
    page.get_by_role("button", name="Pause the lane").click()
    expect(page.locator(".lanes")).to_contain_text("let the provider breathe")
    page.goto(f"{outage.url}/")
    expect(page.locator(".o-aside")).to_contain_text("billing.charge")
    with outage.app() as app:
        assert [pause.by for pause in app.desk.lanes.pauses()] == ["mira"]
    page.goto(f"{outage.url}/system")
    page.get_by_role("button", name="Resume lane billing.charge").click()
    expect(page.locator(".lanes")).not_to_contain_text("paused")


def test_13_a_reader_sees_no_button_and_is_refused(night: Desk) -> None:
    page = night.visit("wall")
    for path in ("/", "/groups", "/groups/G1", "/jobs", "/runs/R1", "/system"):
        page.goto(night.url + path)
        expect(page.locator("main button:not([data-copy], [role=search] button)")).to_have_count(0)
    night.expect(403)
    status = page.evaluate(
        "(u) => fetch(u + '/runs/R1/pause', {method: 'POST', body: new URLSearchParams()}).then(r => r.status)",
        night.url,
    )
    assert status == 403


def test_14_the_main_story_by_keyboard_alone(outage: Desk) -> None:
    page = outage.visit()
    page.keyboard.type("gg")
    expect(page.locator("h1")).to_have_text("Groups")
    press(page, "j", "Enter")
    expect(page.locator("h1")).to_contain_text("ConnectionError")
    press(page, "r")
    expect(page.locator("h1")).to_have_text("Retry 12 jobs")
    page.focus("#rate")
    press(page, "Control+a")
    page.keyboard.type("100/s")
    press(page, "Enter")
    expect(page.locator(".st", has_text="done").first).to_be_visible(timeout=FAR)
    assert counts(outage) == {"completed": 12}


REFRESH = """() => new Promise((done) => {
    document.addEventListener("htmx:afterSettle", () => done(), {once: true});
    htmx.trigger("#live", "refresh");
})"""
"""Refresh the page, and wait until they are on the page: before, another refresh may get lost."""


def requests_in(page: Page, milliseconds: int) -> int:
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.wait_for_timeout(milliseconds)
    return len(seen)


def test_15_ticks_and_open_parts_survive_refreshes_and_hold_them(night: Desk) -> None:
    page = night.visit(path="/groups")
    page.wait_for_load_state("load")  # the scripts have run
    box = page.locator("[data-row] input").first
    box.check()
    for _ in range(10):  # as many refreshes, whatever holds them back
        page.evaluate(REFRESH)
    expect(box).to_be_checked()
    expect(page.locator("#pulse")).to_contain_text("Held while you choose")
    assert requests_in(page, 6000) == 0
    box.uncheck()
    expect(page.locator("#pulse")).to_contain_text("Live")
    page.get_by_role("button", name="Pause").click()
    assert requests_in(page, 6000) == 0
    page.goto(f"{night.url}/runs/R1")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => true}); document.dispatchEvent(new Event('visibilitychange'))"
    )
    assert requests_in(page, 3000) == 0


def test_16_the_server_is_killed_during_a_run_and_the_page_recovers(outage: Desk) -> None:
    """The page keeps its numbers and says that they are old; the run goes on; so does the page."""
    words = ("--store", str(outage.store), "serve", "--tokens", "tokens", "--port")
    with process(*words, "0", folder=outage.folder, until=r"http://\S+") as (server, url):
        first, outage.url = outage.url, url
        page = outage.visit(path="/groups/G1")
        page.get_by_role("button", name="Retry…").click()
        page.fill("#rate", "2/s")
        page.uncheck("input[name=ramp]")
        page.get_by_role("button", name="Start the run").click()
        expect(page.locator("#pulse")).to_contain_text("Live", timeout=FAR)
        server.kill()
        server.wait()
        expect(page.locator("#pulse")).to_contain_text("No answer since", timeout=FAR)
        expect(page.locator("h1")).to_contain_text("R1")
        end = time.monotonic() + 60
        while counts(outage) != {"completed": 12}:  # the worker carries it out
            assert time.monotonic() < end, counts(outage)
            time.sleep(0.2)
    port = url.rpartition(":")[2]
    with process(*words, port, folder=outage.folder, until=r"http://\S+"):
        expect(page.locator(".st", has_text="done").first).to_be_visible(timeout=FAR)
        expect(page.locator(".outs")).to_contain_text("Succeeded12")
        page.close()
    outage.url = first
    outage.problems.clear()  # the browser reports the requests that failed


def test_a_session_that_ended_stops_refreshing_and_leads_to_the_sign_in(night: Desk) -> None:
    page = night.visit(path="/groups?sort=jobs")
    other = page.context.new_page()
    other.goto(night.url)
    night.expect(401)
    other.get_by_role("button", name="Sign out").click()
    page.bring_to_front()
    link = page.locator("#pulse a")
    expect(link).to_have_text("Sign in", timeout=FAR)
    link.click()
    page.fill("#token", TOKENS["mira"][1])
    page.click("button")
    expect(page).to_have_url(f"{night.url}/groups?sort=jobs")


def test_everything_can_be_read_and_a_plan_confirmed_without_javascript(outage: Desk) -> None:
    page = outage.visit(java_script_enabled=False)
    expect(page.locator("h1")).to_contain_text("12 dead letters")
    page.goto(f"{outage.url}/groups/G1")
    expect(page.locator(".o-facts")).to_contain_text("refused the connection")
    page.get_by_role("button", name="Resolve…").click()
    page.get_by_role("button", name="Resolve 12 jobs").click()
    expect(page.locator(".head")).to_contain_text("Done: 12 of 12 jobs")
    for path in ("/jobs", "/runs", "/system"):
        page.goto(outage.url + path)
        expect(page.locator("h1")).to_be_visible()


def test_copying_is_exact(night: Desk) -> None:
    page = night.visit(path="/jobs?q=state:dead", permissions=["clipboard-read", "clipboard-write"])
    page.locator("tbody a.id").first.click()
    page.get_by_role("button", name="Copy the id").click()
    job = page.locator("#job-id").inner_text()
    assert Path(page.url).name == job
    end = time.monotonic() + 30
    while (copied := page.evaluate("navigator.clipboard.readText()")) != job:
        assert time.monotonic() < end, copied
        time.sleep(0.05)
