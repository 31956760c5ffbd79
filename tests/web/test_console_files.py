"""The files of the console: vendored scripts, sizes, texts, templates."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tomllib
from pathlib import Path

from consolekit import Visitor
from redrive import Redrive
from redrive.web.console.render import FOLDER as TEMPLATES
from redrive.web.console.render import STATIC, assets
from redrive.web.console.requests import FORMS
from redrive.web.console.texts import FOLDER as TEXTS
from redrive.web.console.texts import language_of, texts
from tablekit import each_row

PAGES = sorted(TEMPLATES.rglob("*.html"))
_KEY = re.compile(r'\bt\(\s*"([^"]+)"(\s*[~)]|\s*,| if)')
_CHOSEN = re.compile(r'"([a-z_]+\.[a-z_]+)" (?:if|else)|else "([a-z_]+\.[a-z_]+)"')


def test_vendored_files_are_those_of_the_registry() -> None:
    vendor = json.loads((STATIC / "VENDOR.json").read_text("utf-8"))
    assert {"htmx.js", "idiomorph.js", "htmx.LICENSE", "idiomorph.LICENSE"} == vendor.keys()
    for name, entry in vendor.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == entry["sha256"], name


def test_our_own_files_are_small() -> None:
    assert len((STATIC / "console.js").read_bytes()) <= 8_000
    assert len((STATIC / "console.css").read_bytes()) <= 45_000


def test_the_first_visit_is_at_most_70_kb_over_the_wire(app: Redrive) -> None:
    visitor = Visitor(app)
    page = visitor.page("/")
    scripts = [s["src"] for s in page.all("script")]
    files = [*scripts, *(link["href"] for link in page.all("link"))]
    sizes = [int(visitor.ask("GET", file).headers["content-length"]) for file in files]
    assert sum(sizes) + len(page.html.encode()) < 70_000
    assert len(page.html.encode()) < 20_000  # what a refresh is


def test_files_are_kept_for_good_under_a_name_of_their_content(app: Redrive) -> None:
    stranger = Visitor(app, None)  # the sign-in needs them, too
    for asset in assets().values():
        plain = stranger.ask("GET", f"/-/{asset.name}", headers={"accept-encoding": "identity"})
        assert "immutable" in plain.headers["cache-control"]
        assert plain.content == asset.plain
        assert gzip.decompress(asset.packed) == asset.plain
        assert plain.headers["x-content-type-options"] == "nosniff"
    assert stranger.ask("GET", "/-/console.css").status_code == 404
    assert stranger.ask("GET", "/-/..%2fsite.py").status_code != 200


def test_the_script_uses_nothing_that_the_policy_forbids() -> None:
    script = (STATIC / "console.js").read_text("utf-8")
    assert not re.search(r"\beval\(|new Function|innerHTML|document\.write|\.style\b", script)


@each_row("page", PAGES)
def test_a_template_has_nothing_inline_and_no_bare_text(page: Path) -> None:
    source = page.read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|hx-on|hx-vals=.js|javascript:", source)
    assert "|safe" not in re.sub(r'"<(strong|code)[^|]*\)?\|safe', "", source)
    shown = re.sub(
        r"<[^>]*>", " ", re.sub(r"{%.*?%}|{{.*?}}", " ", source, flags=re.DOTALL), flags=re.DOTALL
    )
    words = set(re.findall(r"[A-Za-z]{3,}", shown)) - {"Redrive", "UTC", "nbsp"}
    assert not words, f"put these into texts/en.toml: {sorted(words)}"


def known_keys() -> dict[str, str | list[str]]:
    return tomllib.loads((TEXTS / "en.toml").read_text("utf-8"))


def used_keys() -> tuple[set[str], set[str]]:
    """The keys that templates and modules name, and the beginnings of those that they put together."""
    whole, begun = set[str](), set[str]()
    folder = TEMPLATES.parent
    for file in [*PAGES, *folder.glob("*.py")]:
        source = file.read_text("utf-8")
        for key, rest in _KEY.findall(source) + re.findall(r'texts\("([^"]+)"(\))?', source):
            (begun if rest.strip().startswith("~") else whole).add(key)
        whole |= {key for pair in _CHOSEN.findall(source) for key in pair if key}
        begun |= set(re.findall(r'f"([a-z_]+\.){', source))
        whole |= set(re.findall(r'"(sign_in\.(?!html)[a-z]+)"', source))
    return whole, begun


def test_every_text_that_is_used_is_there_and_none_is_left_over() -> None:
    whole, begun = used_keys()
    known = known_keys().keys()
    assert whole - {key for key in whole if key.endswith(".")} <= known | {"keys."}, sorted(
        whole - known
    )
    unused = {key for key in known if key not in whole and not key.startswith(tuple(begun))}
    assert unused <= {"ago", "in"}, sorted(unused)
    assert {f"notice.{form.notice}" for form in FORMS.values() if form.notice} <= known


def test_every_language_has_the_same_keys_and_values() -> None:
    english = known_keys()
    for file in TEXTS.glob("*.toml"):
        other = tomllib.loads(file.read_text("utf-8"))
        more = {key for key in other if key.startswith("said.")}
        assert other.keys() - more == english.keys() - more, file.name
        for key, text in english.items():
            if key in more:
                continue
            values = set(re.findall(r"{\w+}", str(text)))
            assert set(re.findall(r"{\w+}", str(other[key]))) == values, (file.name, key)


def test_the_language_is_that_of_the_browser_if_there_is_one() -> None:
    assert language_of("") == "en"
    assert language_of("xx, en-GB;q=0.8") == "en"
    assert texts("en")("jobs", n=1) == "1 job"
    assert texts("en")("jobs", n=1234) == "1,234 jobs"
    assert texts("en")("badge.driven", run="<b>") == "&lt;b&gt; retries it"


@each_row(
    "seconds, shown",
    [
        (0, "0 s"),
        (0.4, "< 1 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (7200, "2 h"),
        (90061, "1 d 1 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, shown: str) -> None:
    assert texts("en").span(seconds).replace("&lt;", "<") == shown
