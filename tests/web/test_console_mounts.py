"""The console under a prefix of another program, which may decide who asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consolekit import Page, Visitor
from redrive import Redrive
from shopkit import name
from webkit import ACT, READ

ROOT = "/ops/redrive"
JOB = f"{ROOT}/jobs/{name(1)}"
PEOPLE = {"mira": "act", "wall": "read", "root": "reveal"}


def who(scope: Any) -> tuple[str, str] | None:
    """The host program knows people by a header."""
    name = dict(scope["headers"]).get(b"x-person", b"").decode()
    return (name, PEOPLE[name]) if name in PEOPLE else None


def hosted(app: Redrive, **settings: Any) -> Visitor:
    return Visitor(app, None, ROOT, **{"who": who, "tokens": (), **settings})


def addresses(page: Page) -> list[str]:
    names = ("href", "src", "action", "formaction", "hx-get")
    found = [attrs[name] for _, attrs in page.tags for name in names if name in attrs]
    return [address for address in found if not address.startswith("#")]


def test_every_address_has_the_prefix_and_works(app: Redrive) -> None:
    host = Visitor(app, None, ROOT)
    to = host.ask("GET", f"{ROOT}/jobs?q=state:dead").headers["location"]
    assert to == f"{ROOT}/sign-in?next=%2Fjobs%3Fq%3Dstate%3Adead"
    signed = host.sign_in(ACT, next="/jobs?q=state:dead")
    assert signed.headers["location"] == f"{ROOT}/jobs?q=state:dead"
    assert f"Path={ROOT};" in signed.headers["set-cookie"]
    seen = set[str]()
    for path in ("/", "/groups/G1", "/jobs", "/runs", "/activity", "/system"):
        page = host.page(ROOT + path)
        assert addresses(page)
        assert all(address.startswith(f"{ROOT}/") for address in addresses(page)), path
        seen |= {link for link in page.links() if "#" not in link}
    for link in seen:
        assert host.ask("GET", link).status_code == 200, link
    sent = host.send(f"{ROOT}/groups/G1/note", note="from below", back="/groups?status=all")
    assert sent.headers["location"] == f"{ROOT}/groups?status=all"
    assert app.desk.groups.get("G1").record.note == "from below"
    assert host.ask("GET", f"{ROOT}/api/v1/jobs").status_code == 401
    api = {"authorization": f"Bearer {READ}"}
    assert host.ask("GET", f"{ROOT}/api/v1/jobs", headers=api).status_code == 200


def test_the_host_program_decides_who_reads_acts_and_reveals(app: Redrive) -> None:
    host = hosted(app)
    mira, wall = {"x-person": "mira"}, {"x-person": "wall"}
    assert "mira" in host.ask("GET", ROOT + "/", headers=mira).text
    page = Page(host.ask("GET", JOB, headers=wall).text)
    assert page.posts() == [f"{ROOT}/language"]
    edit, word = f"{JOB}/edit", {"edits": "0", "payload": "{}"}
    assert host.ask("GET", edit, headers=wall).status_code == 403
    assert host.send(edit, headers=wall, csrf=host.csrf(mira), **word).status_code == 403
    assert host.send(edit, headers=mira, csrf="x", **word).status_code == 403
    assert host.send(f"{JOB}/reveal", headers=mira).status_code == 403
    note = f"{ROOT}/groups/G1/note"
    assert host.send(note, headers=mira, note="x").status_code == 303
    assert app.desk.log.actions()[0].actor == "mira"


def test_the_recipe_for_a_proxy_trusts_its_secret_alone(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROXY_SECRET", "s3cret")
    page = Path(__file__).parents[2] / "docs" / "howto" / "reverse-proxy.md"
    recipe: dict[str, Any] = {}
    exec(page.read_text().partition("```python\n")[2].partition("```")[0], recipe)
    host = hosted(app, who=recipe["who"])
    good = [("x-user", "mira@shop.example"), ("x-proxy-secret", "s3cret")]
    sent = host.send(f"{ROOT}/groups/G1/note", headers=good, note="x")
    assert (sent.status_code, app.desk.log.actions()[0].actor) == (303, "mira@shop.example")
    reader = [("x-user", "wall"), good[1]]
    assert host.ask("GET", ROOT + "/", headers=reader).status_code == 200
    assert host.ask("GET", f"{JOB}/edit", headers=reader).status_code == 403
    for bad in (
        good[:1],
        good[1:],
        [good[0], ("x-proxy-secret", "s3cre")],
        [good[0], ("x-proxy-secret", "")],
        [*good, ("x-user", "root")],
        [*good, good[1]],
    ):
        assert host.ask("GET", f"{ROOT}/groups", headers=bad).status_code == 303, bad
    monkeypatch.setitem(recipe, "SECRET", b"")
    assert host.ask("GET", f"{ROOT}/groups", headers=[good[0], bad[1]]).status_code == 303


def test_whom_the_host_program_does_not_know_is_led_to_its_sign_in(app: Redrive) -> None:
    host = hosted(app, sign_in="/accounts/login/")
    first = host.ask("GET", f"{ROOT}/groups?status=all")
    to = host.ask("GET", first.headers["location"]).headers["location"]
    assert to == f"/accounts/login/?next={ROOT}/groups%3Fstatus%3Dall"
    refresh = host.ask("GET", f"{ROOT}/groups", headers={"hx-request": "true"})
    assert refresh.status_code == 401
    plain = hosted(app, name="shop")
    page = plain.page(plain.ask("GET", f"{ROOT}/groups").headers["location"], 401)
    assert "not signed in to shop" in page.text
    assert "token" not in page.text.lower()


def test_neither_tokens_nor_odd_answers_pass_by_the_host_program(app: Redrive) -> None:
    host = Visitor(app, None, ROOT, who=who)
    host.sign_in(ACT)
    assert host.ask("GET", f"{ROOT}/groups").status_code == 303
    for headers in ({"x-person": "mira"}, {"authorization": "Bearer "}):
        assert hosted(app).ask("GET", f"{ROOT}/api/v1/jobs", headers=headers).status_code == 401
    for person in (("", "act"), ("mira", "admin"), ("mira", "")):
        answer = hosted(app, who=lambda _, person=person: person).ask("GET", f"{ROOT}/groups")
        assert (answer.status_code, "G1" in answer.text) == (500, False)
