"""A console in Japanese has no English sentence but those that people and programs wrote."""

from __future__ import annotations

import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import redrive.desk
from consolekit import BASE, Visitor
from redrive import Redrive
from redrive.contrib.demo.sample import fill
from redrive.desk import sentences
from redrive.desk.sentences import Sentence
from redrive.web.console.texts import FOLDER, texts

JA = {"accept-language": "ja"}
_WORDS = re.compile(r"[A-Za-z]{2,}(?:[,;:.]? [A-Za-z]{2,})+")
_ALLOWED = re.compile(
    r"redrive [a-z]+(?: LANE| module:app| [\w.:-]+)?|JSON Lines|httpx, httpcore|nothing known about \w+"
)
_DATA = {"code", "pre", "time", "script", "kbd", "q", "textarea", "option"}
_VOID = {"meta", "link", "input", "br", "hr", "path", "rect", "circle", "line"}
_FOREIGN = {"mono", "id", "exc", "at", "end", "said", "err", "who"}
"""Classes of what a program or a person wrote."""


STORED = {"is part of R1, which has not ended", "is already resolved"}
"""Reasons that are stored as text, which is English."""


class Visible(HTMLParser):
    """The texts of a page that the console itself wrote."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.found += [known[n] for n in ("placeholder", "aria-label") if n in known]
        if tag not in _VOID:
            foreign = bool(_FOREIGN & set(known.get("class", "").split()))
            named = "data-open" in known or known.get("lang") == "en" or tag in _DATA
            self._open.append((tag, foreign or named))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(foreign for _, foreign in self._open):
            self.found.append(data)


def english(html: str, data: list[str]) -> list[str]:
    """Return the English of a page that is neither data nor a command."""
    ours = re.compile("|".join(re.escape(text) for text in data))
    shown = (_ALLOWED.sub("", ours.sub("", text)) for text in Visible(html).found)
    return [words for text in shown for words in _WORDS.findall(text)]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("night") / "night.db"
    fill(path)
    with Redrive(path, actor="ada") as app:
        yield app


def data_of(app: Redrive) -> list[str]:
    """Return what programs and people wrote, the longest first."""
    groups = app.desk.groups.find(limit=50)
    runs = app.desk.runs.recent()
    found = {run.name or run.asked for run in runs} | {p.reason for p in app.desk.lanes.pauses()}
    night_jobs = app.desk.jobs.find(limit=500).jobs
    failures = [job.failure for job in night_jobs]
    found |= {failure.message for failure in failures if failure}
    found |= {run.why for run in runs} | {job.detail for job in night_jobs} | STORED
    for group in groups:
        found |= {group.title, group.title.partition(": ")[2], group.title[:80], group.record.note}
    return sorted((text for text in found if text), key=len, reverse=True)


def test_no_page_has_an_english_sentence(night: Redrive) -> None:
    visitor = Visitor(night)
    jobs = [page.jobs[0].id for s in ("dead", "pending", "completed", "resolved")
            if (page := night.desk.jobs.find(f"state:{s}", limit=1)).jobs]  # fmt: skip
    plans = [f"/plans?verb={verb}&q={q}" for verb, q in
             (("retry", "state:dead"), ("retry", "G1"), ("resolve", "G1 G2"), ("reopen", "state:resolved"))]  # fmt: skip
    groups = [f"/groups/{group.name}" for group in night.desk.groups.find(limit=20)]
    pages = ["/", "/groups?status=all", "/jobs", "/runs", "/runs/R1", "/activity", "/system"]
    errors = ["/runs/R9", "/groups/G99", "/jobs/01M7K24WZ04JNX87RYXVSPDSEZ", "/nope"]
    jobs = [f"/jobs/{job}" for job in jobs] + [f"/jobs/{jobs[0]}/edit"]
    data = data_of(night)
    for path in [*pages, "/sign-in", *groups, *jobs, *plans, *errors]:
        html = visitor.open(path, headers=JA).text
        assert 'lang="ja"' in html
        assert not english(html, data), path


def test_a_refusal_has_a_japanese_heading_and_an_english_reason(night: Redrive) -> None:
    visitor = Visitor(night)
    word = visitor.csrf()
    job = night.desk.jobs.find("state:dead", limit=1).jobs[0].id
    for path, fields, heading in (
        ("/actions", {"one": f"discard {job}"}, ""),
        (f"/jobs/{job}/edit", {"payload": "{", "edits": "0"}, ""),
        ("/actions", {"one": f"reopen {job}"}, "ほかの変更と競合しました"),
        ("/runs/R1/rate", {"rate": "fast"}, "入力を読み取れません"),
    ):
        data, headers = {"csrf": word, **fields}, {**JA, "origin": BASE}
        answer = visitor.ask("POST", path, data=data, headers=headers)
        assert answer.status_code in {400, 409}
        assert ('lang="en">' in answer.text, heading in answer.text) == (True, True), path
        assert not english(answer.text, data_of(night)), path
    answer = visitor.ask("POST", "/plans", data={"csrf": word, "verb": "retry"}, headers=headers)
    assert "行を1つ以上選択してください" in answer.text


def test_every_sentence_of_the_desk_is_in_the_catalogue() -> None:
    known = tomllib.loads((FOLDER / "ja.toml").read_text("utf-8"))
    said = {key.removeprefix("said."): text for key, text in known.items() if key[:5] == "said."}
    english = sentences.texts()
    assert said.keys() == english.keys()
    for code, text in english.items():
        values = set(re.findall(r"{(\w+)}", str(text)))
        assert set(re.findall(r"{(\w+)}", said[code])) == values, code
    source = "".join(
        file.read_text("utf-8") for file in Path(redrive.desk.__path__[0]).glob("*.py")
    )
    assert not [code for code in english if f'"{code}"' not in source]


def test_values_of_a_sentence_are_written_as_the_language_does() -> None:
    ja, en = texts("ja"), texts("en")
    grows = Sentence("grows", group="G7", died=1200, ago=5400.0, title="A {title}")
    assert ja.said(grows) == (
        "G7 が増えています。10分間で1,200件がデッドレターになりました（1時間30分前から）：A {title}"
    )
    assert en.said(grows) == ("G7 grows: 1,200 died in 10 minutes, it began 1h30m ago: A {title}")
    assert ja.said("1,200 of 3,000 failed again") == "1,200 of 3,000 failed again"
