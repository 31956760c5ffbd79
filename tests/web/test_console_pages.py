"""The pages of the console: what they show, to whom, and that nothing in them can run or leak."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from consolekit import REVEAL, Page, Visitor
from kit import make_failure
from redrive import Redrive
from redrive.desk import search
from redrive.desk.shared_facts import shared_facts
from redrive.jobs.job import Action
from redrive.web.console import pages
from redrive.web.console.shown import coloured
from redrive.web.console.site import PAGES
from redrive.web.shared import Shared
from shopkit import TIMEOUT, dead_letter, name
from webkit import ACT, READ

ADDRESSES = (
    "/",
    "/groups",
    "/groups/G1",
    "/jobs",
    f"/jobs/{name(1)}",
    "/runs",
    "/activity",
    "/system",
)


PLAN = "/plans?verb=retry&q=state:dead"


def every_address(visitor: Visitor) -> list[str]:
    """Every page that all may see, with a run that is not over."""
    app = visitor.app
    app.desk.runs.start("G1", canary=1, stop_on="5%", name="outage", actor="mira")
    return [*ADDRESSES, "/runs/R1", "/sign-in"]


def test_every_page_is_shown_and_has_nothing_inline(app: Redrive) -> None:
    addresses = every_address(Visitor(app, REVEAL))
    assert {page.path.partition("{")[0] for page in PAGES} <= {
        re.sub(r"(?<=/)(G1|R1|0[0-9A-Z]+|[\w-]{20,}).*", "", address).partition("?")[0]
        for address in addresses
    }
    for token in (READ, ACT, REVEAL):
        visitor = Visitor(app, token)
        for address in addresses + [PLAN] * (token != READ):
            answer = visitor.open(address)
            assert answer.status_code == 200, (address, answer.text)
            page = Page(answer.text)
            policy = answer.headers["content-security-policy"]
            assert "script-src 'self'; style-src 'self'" in policy
            assert answer.headers["cache-control"] == "no-store"
            assert len(page.all("h1")) == 1, address
            for tag, attrs in page.tags:
                assert tag != "style", address
                assert "style" not in attrs, (address, tag)
                assert not [attr for attr in attrs if attr.startswith(("on", "hx-on"))], address
                assert tag != "script" or "src" in attrs
                assert not attrs.get("href", "").startswith(("http", "//", "javascript"))


def test_the_overview_counts_what_the_desk_counts(app: Redrive) -> None:
    page = Visitor(app).page("/")
    assert "4 dead letters, of 3 groups" in page.text
    assert "/groups/G1" in page.links()
    assert re.search("lane pay.charge[^<]*</span> <a[^>]*/system", page.html)
    assert "INCIDENT 2 jobs pending in the lane pay.charge" in page.text
    assert "Changed in the last hour" not in page.text


def test_an_empty_store_says_what_would_be_here(tmp_path: object) -> None:
    with Redrive("memory:") as app:
        visitor = Visitor(app)
        assert "No dead letters" in visitor.page("/").text
        assert "redrive demo" in visitor.page("/").text
        assert "No jobs yet" in visitor.page("/jobs").text
        assert "No run yet" in visitor.page("/runs").text
        assert "No group here" in visitor.page("/groups").text


def test_groups_are_filtered_found_and_sorted_by_the_address(app: Redrive) -> None:
    def names(query: str) -> list[str]:
        return re.findall(r'<li id="(G\d+)"', Visitor(app).page(f"/groups?{query}").html)

    assert names("sort=jobs") == ["G1", "G2", "G3"]
    app.desk.groups.mark("G3", resolved=True, reason="mended", actor="mira")
    assert "G3" not in names("")
    assert names("status=resolved") == ["G3"]
    title = app.desk.groups.get("G1").title
    assert names(urlencode({"q": title[:30].upper(), "sort": "jobs"})) == ["G1"]
    none = Visitor(app).page("/groups?q=<b>no+such").html
    assert "has “&lt;b&gt;no such”" in none
    assert "sort=jobs&amp;q=" in none  # the other tabs keep it
    assert Visitor(app).page("/groups?sort=odd", 400).all("h1")


def test_many_lanes_without_a_worker_are_one_sentence(app: Redrive) -> None:
    for number in range(30):
        app.submit(f"lane{number}.send", {})
    for path in ("/", "/system"):
        page = Visitor(app).page(path)
        assert "No worker serves 3" in page.text, path
        assert page.html.count("No worker serves") == 1


def test_the_group_says_why_since_when_and_what_is_shared(app: Redrive) -> None:
    app.desk.groups.mark("G1", note="the provider knows", actor="kenji")
    page = Visitor(app).page("/groups/G1")
    for text in ("ConnectionError", "mail.send", "the provider knows", "kenji", "payload.to"):
        assert text in page.text, text
    assert "mail.py:7" in page.text.replace(" ", "")


def test_jobs_are_found_and_paged_by_the_address(app: Redrive) -> None:
    visitor = Visitor(app)
    first = visitor.page("/jobs?q=state:dead&limit=3")
    assert len(re.findall(" data-row>", first.html)) == 3
    older = next(link for link in first.links() if "cursor=" in link)
    assert "q=state%3Adead" in older
    assert len(re.findall(" data-row>", visitor.page(older).html)) == 1
    assert name(3) in visitor.page("/jobs?q=tag:vip").html
    assert "Nothing matches" in visitor.page("/jobs?q=handler:nobody").text
    assert "nonsense" in visitor.page("/jobs?q=nonsense:x", 400).text
    app.submit("mail.send", {"to": "ada"}, delay=600)
    assert "in 10 min" in visitor.page("/jobs?q=state:pending").text


def test_a_job_shows_its_exact_numbers_and_leads_to_all_of_its_action(app: Redrive) -> None:
    payload = '{"id":1970670598291982290,"amount":10.10,"password":"hunter22"}'
    app.store.add([dead_letter(60, payload=payload)])
    visitor = Visitor(app)
    page = visitor.page(f"/jobs/{name(60)}")
    for text in ("1970670598291982290", "10.10", name(60)):
        assert text in page.text
    assert "hunter22" not in page.html
    exact = [time.get("datetime") for time in visitor.page(f"/jobs/{name(1)}").all("time")]
    assert "2025-06-15T15:07:40.000Z" in exact
    app.desk.resolve("G1", reason="done")
    link = "/jobs?q=action%3AA1"
    for address in (f"/jobs/{name(1)}", "/activity"):
        assert any(one.endswith(link) for one in visitor.page(address).links()), address
    assert name(2) in visitor.page(link).html


def test_a_page_that_is_not_there_is_a_page(app: Redrive) -> None:
    visitor = Visitor(app)
    for address in ("/nowhere", "/jobs/01ZZZZZZ", "/groups/G99", "/runs/R99"):
        page = visitor.page(address, 404)
        assert page.all("nav"), address


def test_a_reader_sees_no_button_that_changes_anything(app: Redrive) -> None:
    reader = Visitor(app, READ)
    for address in every_address(reader):
        page = reader.page(address)
        assert set(page.posts()) <= {"/sign-out", "/sign-in", "/language"}, address
        buttons = [b for b in page.all("button") if "data-copy" not in b and "data-live" not in b]
        names = {b.get("name") for b in buttons if "form" in b or "name" in b}
        assert names <= {"language"}, address
        boxes = [box for box in page.all("input") if box.get("type") == "checkbox"]
        assert not [box for box in boxes if box.get("id") != "keys-off"], address


def test_what_is_read_once_for_all_is_shown_to_each_by_right_and_language(app: Redrive) -> None:
    app.desk.runs.start("G1", actor="mira")
    actor, reader = Visitor(app, ACT), Visitor(app, READ)
    reader.site = actor.site
    for page in ("/", "/runs/R1", "/groups/G1", "/groups", "/system"):
        for language in ("ja", "en"):
            for visitor in (actor, reader):
                html = visitor.ask("GET", page, headers={"accept-language": language}).text
                main = html.partition('id="live"')[2].partition("</main>")[0]
                assert bool(re.search("[ぁ-ヺ]", main)) is (language == "ja"), page
                acts = page != "/" and visitor is actor
                assert ("csrf" in main) is acts, page


def test_a_page_is_read_once_while_it_is_fresh(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor, asked = Visitor(app), list[str]()
    read = app.desk.groups.find
    monkeypatch.setattr(app.desk.groups, "find", lambda **kw: asked.append("find") or read(**kw))
    monkeypatch.setattr(
        pages, "shared_facts", lambda *of: asked.append("facts") or shared_facts(*of)
    )
    for address in ("/", "/", "/groups", "/groups/G1", "/groups/G1", "/groups"):
        visitor.page(address)
    assert asked == ["find", "facts"]
    visitor.send("/groups/G1/note", note="a change shows at once", back="/groups/G1")
    assert "a change shows at once" in visitor.page("/groups").text


def test_a_page_refreshes_as_long_as_something_moves(app: Redrive) -> None:
    app.desk.runs.start("G1", actor="mira")
    visitor, again = Visitor(app), {"hx-request": "true"}
    for address, every in (("/runs/R1", "2.0"), ("/", "2.0"), ("/groups", "5.0"), ("/jobs", "")):
        html = visitor.page(address).html
        assert re.findall(r'id="live" data-every="([^"]*)"', html) == ([every] if every else [])
        assert f'hx-get="{address}"' in html or not every
        assert 'id="nav"' in visitor.ask("GET", address, headers=again).text
    app.desk.runs.cancel("R1", actor="mira")
    assert 'data-every="0"' not in Visitor(app).page("/runs/R1").html
    gone = visitor.ask("GET", "/runs/R7", headers=again)
    assert (gone.status_code, gone.text) == (404, "")


def test_an_answer_is_asked_for_once_and_not_kept_past_a_change() -> None:
    shared, asked, gate = Shared(), list[int](), threading.Barrier(20)

    def ask() -> int:
        asked.append(1)
        if len(asked) == 1:
            shared.clear()  # something is changed while this is read
        return len(asked)

    def read(_: int) -> int:
        gate.wait()
        return shared.get("key", 60, ask)

    assert [shared.get("key", 60, ask) for _ in range(3)] == [1, 2, 2]
    assert [shared.get("brief", lambda _: -1.0, ask) for _ in range(2)] == [3, 4]
    shared.clear()
    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(read, range(20))) == [5] * 20
    for key in range(2000):  # such as groups that there are not
        with pytest.raises(ZeroDivisionError):
            shared.get(key, 60, lambda: 1 / 0)
    assert len(vars(shared)["_entries"]) <= 500


def test_a_payload_of_quotes_is_coloured_in_one_look() -> None:
    """A text that is cut within a string was read anew from each of its quotes."""
    cut = '{"note": "' + '\\"' * 25_000
    assert str(coloured(cut)).count("<span") == 2


CANARY = "<img src=x onerror=alert(1)>\"'<script>alert(2)</script>"


def test_markup_of_strangers_is_text_everywhere(app: Redrive) -> None:
    """XSS canaries in every field that a program or a person can fill."""
    failure = make_failure(
        "unknown",
        cause="xss",
        type=CANARY,
        message=CANARY,
        title=CANARY,
        traceback=f'Traceback (most recent call last):\n  File "{CANARY}", line 7, in {CANARY}\n    {CANARY}\n{CANARY}\n',
    )
    job = dead_letter(70, failure, key=CANARY, tags=(CANARY,), release=CANARY)
    job = replace(
        job, handler=CANARY, lane=CANARY, detail=CANARY, payload=json.dumps({CANARY: CANARY})
    )
    app.store.add([job])
    group = f"G{app.get(name(70)).group}"
    app.desk.groups.mark(group, note=CANARY, reason=CANARY, actor=CANARY)
    app.desk.runs.start(group, name=CANARY, reason=CANARY, actor=CANARY)
    visitor = Visitor(app, name=CANARY, environment=CANARY)
    pages = ["/", "/groups", f"/groups/{group}", "/jobs", f"/jobs/{name(70)}", "/runs"]
    shown = ""
    pages += ["/activity", f"/activity?actor={CANARY}&target={CANARY}", f"/jobs/{name(70)}/edit"]
    for address in [*pages, "/runs/R1", "/system", PLAN, f"/jobs?q={CANARY}"]:
        html = visitor.open(address).text
        assert "<img src=x" not in html, address
        assert "<script>" not in html, address
        page = Page(html)
        assert not [attrs for _, attrs in page.tags if "onerror" in attrs], address
        shown += page.text
    assert shown.count("<img src=x onerror=alert(1)>") > 20


def test_a_search_says_how_far_it_looked(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCHED", 2)
    assert "2 of 7 jobs were searched" in Visitor(app).page("/jobs?q=error:*nowhere*").text


SECRETS = ("sk-live-4242424242424242abcd", "hunter2222")


def test_a_secret_is_on_no_page(app: Redrive) -> None:
    text = f"refused for password={SECRETS[1]} and {SECRETS[0]}"
    failure = replace(TIMEOUT, message=text, traceback=f"{TIMEOUT.traceback}{text}\n", title=text)
    payload = json.dumps({"password": SECRETS[1], "note": text})
    app.store.add([dead_letter(80, failure, payload=payload, key=SECRETS[0], tags=(SECRETS[0],))])
    app.desk.groups.mark("G1", note=text, reason=text, actor="mira")
    app.desk.lanes.pause("mail.send", reason=text)
    of_job = [f"/jobs/{name(80)}", f"/jobs/{name(80)}/edit", f"/jobs?q={name(80)}"]
    addresses = [*every_address(Visitor(app)), *of_job, PLAN]
    for visitor in (Visitor(app, token) for token in (READ, ACT, REVEAL)):
        for address in addresses:
            html = visitor.open(address).text
            assert not [secret for secret in SECRETS if secret in html], address


def test_revealing_needs_the_right_and_is_recorded(app: Redrive) -> None:
    path = f"/jobs/{name(1)}/reveal"
    assert Visitor(app).send(path).status_code == 403
    root = Visitor(app, REVEAL)
    assert "hunter22" not in root.page(f"/jobs/{name(1)}").html
    answer = root.send(path)
    assert answer.status_code == 200
    assert "hunter22" in answer.text
    action = app.desk.log.actions()[0]
    assert (action.actor, action.verb, action.target) == ("root", "reveal", name(1))


def test_the_system_page_says_how_long_jobs_are_kept(app: Redrive) -> None:
    text = Visitor(app).ask("GET", "/system").text
    assert "How long jobs are kept" in text
    assert "Completed 1 d · Resolved 1 d · Dead for ever" in text
    assert "No dead job is removed; the oldest is from" in text
    with Redrive(app.store.url) as other:
        assert "redrive serve module:app" in Visitor(other).ask("GET", "/system").text


def test_every_page_says_which_system_it_is(app: Redrive) -> None:
    visitor = Visitor(app, name="billing", environment="production")
    for address in (*ADDRESSES, "/nowhere"):
        html = visitor.ask("GET", address).text
        assert ">billing<" in html, address
        assert ">production<" in html, address
    assert "Sign in to billing" in Visitor(app, None, name="billing").page("/sign-in").text
    assert "as mira on billing" in visitor.plan("discard", "state:dead").text


def test_the_steps_of_a_run_begin_with_who_asked_for_it(app: Redrive) -> None:
    run = app.desk.runs.start("G1", reason="it is back", actor="mira")
    for number in range(30):
        app.desk.log.record(Action(actor="w", verb="release", target=run.id, done=number))
    page = Visitor(app).page("/runs/R1")
    assert f" release · {sum(range(30))} jobs" in page.text
    assert page.text.count(" release ") == 1
    assert "mira retry" in page.text
    assert "it is back" in page.text


def test_a_run_that_was_ended_early_is_not_shown_as_complete(app: Redrive) -> None:
    app.desk.runs.start("G1", actor="mira")
    app.desk.runs.cancel("R1", actor="mira")
    assert re.search(r" 0 % 0 of \d ended", Visitor(app).page("/runs/R1").text)


def test_an_error_ends_as_its_language_does(app: Redrive) -> None:
    visitor = Visitor(app)
    assert "lists the pages." in visitor.page("/nowhere", 404).text
    japanese = visitor.ask("GET", "/nowhere", headers={"accept-language": "ja"}).text
    assert "選んでください</p>" in japanese


def test_frames_of_libraries_are_shown_where_there_are_no_others(app: Redrive) -> None:
    file = "/venv/lib/python3.12/site-packages/httpx/_client.py"
    trace = f'Traceback (most recent call last):\n  File "{file}", line 7, in post\nOSError: no\n'
    ours = trace.replace("OSError", '  File "/srv/shop.py", line 7, in pay\nOSError')
    for number, text in ((71, trace), (72, ours)):
        app.store.add([dead_letter(number, replace(TIMEOUT, traceback=text))])
    shown = [Visitor(app).page(f"/jobs/{name(number)}").html for number in (71, 72)]
    assert ["<details open><summary>1 frame in httpx" in html for html in shown] == [True, False]
