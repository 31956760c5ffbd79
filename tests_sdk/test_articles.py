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

import pytest

from modelkit import ARTICLE, CLAUDE, KEY, OPENAI, Desk, check, desk_of

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
