"""R-ARTICLES through the real clients of OpenAI and Anthropic, against servers that play the two.

Every combination of what the two can do ends as B1 to B5 say: the other one answers, or the article is
queued; the winner stands in the log and on the attempt. The clients' own retries are off.
"""

from __future__ import annotations

import importlib.util
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import anthropic
import openai
import pytest

from modelkit import ARTICLE, CLAUDE, KEY, OPENAI, Desk, check, desk_of
from redrive import fallback
from redrive.in_place import client_retries as patience

EXAMPLE = Path(__file__).resolve().parents[1] / "examples/articles.py"
COMMON = [
    "ok",
    "429 with Retry-After",
    "429 without Retry-After",
    "insufficient_quota",
    "spend limit",
    "overloaded",
    "401",
    "400",
    "broken stream",
    "hang",
]
RARE = [(name, "ok") for name in OPENAI if name not in COMMON] + [
    (other, name)
    for name in CLAUDE
    if name not in COMMON
    for other in ("400", "stream that ends early")
]


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Desk]:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(patience, "_warned", set())
    with desk_of(load(), tmp_path / "queue.jsonl") as made:
        made.module.SECONDS = 0.3
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", made.openai.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", made.claude.url)
        yield made


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_articles", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("first", "second"), [*itertools.product(COMMON, COMMON), *RARE])
def test_every_combination_of_the_two_ends_as_it_should(
    desk: Desk, first: str, second: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    check(desk, first, second, lambda: caplog.text)
    assert desk.asked == (1, 0 if first == "ok" else 1), "one try each, none by the clients"
    assert "retries by itself" not in caplog.text
    assert KEY not in (tmp_path / "queue.jsonl").read_text("utf-8")


@pytest.mark.parametrize("why", ["400", "401", "overloaded", "broken stream"])
def test_any_error_of_claude_leads_to_openai(desk: Desk, why: str, tmp_path: Path) -> None:
    desk.open(tmp_path / "claude-first.jsonl", prefer="claude")
    desk.say("ok", why)
    assert desk.run(ARTICLE)
    assert [one["provider"] for one in desk.published] == ["openai"]


def test_hints_of_both_reach_the_cool_downs(desk: Desk) -> None:
    desk.say("429 with Retry-After", "429 with Retry-After")
    assert not desk.run(ARTICLE)
    left = {note.name: note.expires_in for note in desk.app.store.notes("pause:")}
    assert left == {"pause:provider:openai": 20, "pause:provider:claude": 35}


def test_a_client_that_retries_by_itself_is_warned_of_before_and_after(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Seen on the client where it can be, else by the requests that it repeated."""
    eager = anthropic.Anthropic(base_url=desk.claude.url, api_key="x", max_retries=1)
    desk.say("overloaded", "overloaded")

    def ask_openai() -> object:
        client = openai.OpenAI(base_url=desk.openai.url, api_key="x", max_retries=1)
        return client.post("/x", body={}, cast_to=object)

    def ask_claude() -> object:
        return eager.post("/x", body={}, cast_to=object)

    with pytest.raises(ExceptionGroup):
        fallback(openai=ask_openai, claude=ask_claude)()
    said = [one.getMessage() for one in caplog.records if "retries by itself" in one.getMessage()]
    assert [one.partition(";")[0] for one in said] == [
        "the client of provider claude retries by itself (max_retries=1)",
        "the client of provider openai retries by itself (1 × just now)",
    ]
    eager.close()
