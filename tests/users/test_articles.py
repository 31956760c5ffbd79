"""R-ARTICLES: articles summarised by two providers. Each test names the sentence it walks.

The clients here are small stand-ins that raise what the servers said; the same servers are asked
through the real clients by `make test-sdk`.
"""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from modelkit import ARTICLE, CLAUDE, OPENAI, Desk, Model, Reply, check, desk_of
from tablekit import each_row
from workkit import until

FAILING = [name for name in OPENAI if name != "ok"]
SOON = 0.25


class Refused(Exception):
    """What clients raise: the status, the body and the headers of the answer."""

    def __init__(self, error: urllib.error.HTTPError) -> None:
        self.status_code, self.headers = error.code, dict(error.headers)
        self.body = json.loads(error.read())
        super().__init__(f"Error code: {error.code} - {self.body}")


def events(model: Model, article: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Ask, and give what is streamed; an error inside of it is raised."""
    body = json.dumps({"content": article["content"]}).encode()
    request = urllib.request.Request(model.url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SOON) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])
    except urllib.error.HTTPError as error:
        with error:
            raise Refused(error) from None


def openai(module: ModuleType) -> Callable[[Model], Callable[[dict[str, Any]], str]]:
    def ask(model: Model, article: dict[str, Any]) -> str:
        choices = [chunk["choices"][0] for chunk in events(model, article)]
        parts = [choice["delta"]["content"] for choice in choices]
        done: str = module.whole(parts, any(choice["finish_reason"] for choice in choices))
        return done

    return lambda model: lambda article: ask(model, article)


def claude(module: ModuleType) -> Callable[[Model], Callable[[dict[str, Any]], str]]:
    def ask(model: Model, article: dict[str, Any]) -> str:
        parts, kinds = list[str](), set[str]()
        for event in events(model, article):
            kinds.add(event["type"])
            if event["type"] == "error":
                raise ConnectionError(event["error"]["type"])
            if event["type"] == "content_block_delta":
                parts.append(event["delta"]["text"])
        done: str = module.whole(parts, "message_stop" in kinds)
        return done

    return lambda model: lambda article: ask(model, article)


@pytest.fixture
def articles(
    load_example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "ARTICLES_STORE"):
        monkeypatch.delenv(name, raising=False)
    return load_example("articles")


@pytest.fixture
def desk(articles: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Desk]:
    caplog.set_level(logging.INFO)
    store = tmp_path / "data/retry_queue.jsonl"
    with desk_of(articles, store, openai=openai(articles), claude=claude(articles)) as made:
        yield made


def fail(desk: Desk, *articles: dict[str, Any]) -> None:
    desk.say("overloaded", "overloaded")
    assert not desk.run(*articles)


def test_r_articles_the_store_is_made_at_open_and_loaded_at_start(
    desk: Desk, tmp_path: Path
) -> None:
    store = tmp_path / "data/retry_queue.jsonl"
    fail(desk, ARTICLE)
    assert len(desk.jobs()) == 1
    desk.app.close()
    desk.open(store, clock=desk.clock)
    (job,) = desk.jobs(state="pending")
    assert json.loads(job.payload)["article"] == ARTICLE
    assert '"article.summarize"' in store.read_text("utf-8")


def test_r_articles_without_a_word_the_queue_is_in_the_directory_data(
    run_example: Callable[..., Any], tmp_path: Path
) -> None:
    ended = run_example("articles.py")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert (tmp_path / "home/data/retry_queue.jsonl").is_file()


@pytest.mark.parametrize("why", FAILING)
def test_r_articles_1_what_openai_cannot_do_claude_does(
    desk: Desk, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A limit, a quota, half a stream or no answer at all."""
    check(desk, why, "ok", lambda: caplog.text)
    assert desk.asked == (1, 1)


@pytest.mark.parametrize("why", [name for name in CLAUDE if name != "ok"])
def test_r_articles_1_any_error_of_claude_leads_to_openai(
    desk: Desk, tmp_path: Path, why: str
) -> None:
    desk.open(tmp_path / "claude-first.jsonl", prefer="claude")
    desk.say("ok", why)
    assert desk.run(ARTICLE)
    assert [one["provider"] for one in desk.published] == ["openai"]
    assert desk.asked == (1, 1)


def test_r_articles_1_while_openai_cools_down_claude_is_first_and_openai_second(
    desk: Desk,
) -> None:
    desk.say("overloaded", "ok")
    assert desk.run(ARTICLE)
    desk.say("ok", "overloaded")
    assert desk.run({**ARTICLE, "id": "a2"})
    assert [one["provider"] for one in desk.published] == ["claude", "openai"]
    assert desk.asked == (2, 2)


def test_r_articles_1_a_fallback_that_succeeds_logs_the_provider(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.say("insufficient_quota", "ok")
    assert desk.run(ARTICLE)
    told = [one.getMessage() for one in caplog.records if "claude answered" in one.getMessage()]
    assert len(told) == 1
    assert "after openai: quota, code insufficient_quota in response body" in told[0]
    assert desk.jobs() == []


@pytest.mark.parametrize("why", FAILING)
def test_r_articles_2_both_fail_and_the_article_is_queued(
    desk: Desk, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is lost when both are down."""
    check(desk, why, why, lambda: caplog.text)


def test_r_articles_2_it_is_queued_with_reason_time_and_retry_count(desk: Desk) -> None:
    desk.say("insufficient_quota", "spend limit")
    assert not desk.run(ARTICLE)
    (job,) = desk.jobs()
    assert json.loads(job.payload) == {"article": ARTICLE}
    assert job.failure is not None
    for part in ("openai: quota", "insufficient_quota", "claude: quota", "enforced_spend_limit"):
        assert part in job.failure.message
    assert (job.attempts - 1, job.first_failed) == (0, desk.clock.now())


def test_r_articles_2_an_article_that_is_queued_is_not_queued_twice(desk: Desk) -> None:
    fail(desk, ARTICLE)
    fail(desk, ARTICLE)
    assert len(desk.jobs()) == 1
    assert desk.asked == (1, 1)


def test_an_edited_article_under_a_natural_key_does_not_end_the_run(
    desk: Desk,
    articles: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its key stands for the text that is queued: that is its own error, and no other article's."""
    monkeypatch.setattr(articles, "key_of", lambda article: f"article:{article['id']}")
    fail(desk, ARTICLE)
    desk.clock.advance(301)
    desk.say("overloaded", "overloaded")
    edited, other = {**ARTICLE, "content": "another text"}, {**ARTICLE, "id": "a2"}
    assert not desk.run(edited, other)
    assert {job.key for job in desk.jobs()} == {f"article:{ARTICLE['id']}", "article:a2"}
    (error,) = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert f"article {ARTICLE['id']} was not accepted" in error
    assert desk.jobs(key=f"article:{ARTICLE['id']}")[0].id in error


def test_r_articles_3_five_minutes_doubling_five_retries_then_a_warning(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    fail(desk, ARTICLE)
    waits: list[float] = []
    while (job := desk.jobs()[0]).state == "pending":
        waits.append(job.due - desk.clock.now())
        desk.clock.advance(waits[-1] - 0.01)
        assert desk.app.run_due().taken == 0
        desk.clock.advance(0.02)
        assert desk.app.run_due().failed == 1
    assert waits == pytest.approx([300, 600, 1200, 2400, 4800], abs=0.05)
    assert (job.state, job.reason, job.attempts) == ("dead", "exhausted", 6)
    assert desk.asked == (6, 6), "each retry asked both: no cooldown outlasts the schedule"
    (warning,) = [one for one in caplog.records if "dead_letter" in one.getMessage()]
    assert warning.levelname == "WARNING"


def test_r_articles_3_a_wait_longer_than_the_schedule_is_a_floor(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both say twenty minutes, so the first retry comes then."""
    for model, replies in ((desk.openai, OPENAI), (desk.claude, CLAUDE)):
        limited = replies["429 without Retry-After"]._replace(headers={"retry-after": "1200"})
        monkeypatch.setattr(model, "replies", {**replies, "long": limited})
    desk.say("long", "long")
    assert not desk.run(ARTICLE)
    assert desk.jobs()[0].due - desk.clock.now() == 1200
    assert {note.expires_in for note in desk.app.store.notes("pause:")} == {300}


def test_r_articles_4_a_success_leaves_the_queue_at_once(desk: Desk) -> None:
    fail(desk, ARTICLE, {**ARTICLE, "id": "a2"})
    desk.say("ok", "ok")
    desk.clock.advance(301)
    assert desk.run()
    assert {count.state for count in desk.app.desk.jobs.counts()} == {"completed"}
    assert len(desk.jobs()) == 2


def test_r_articles_5_the_log_says_how_many_and_how_it_went(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    fail(desk, *({**ARTICLE, "id": str(number)} for number in range(3)))
    caplog.clear()
    desk.say("ok", "overloaded")
    desk.clock.advance(301)
    desk.run()
    said = [one.getMessage() for one in caplog.records]
    assert said[0] == "pass begins: 3 queued"
    assert "pass ended: 3 taken, 3 succeeded, 0 failed, 0 died, 0 returned, 0 purged" in said
    assert said[-1] == "the queue is empty"


def test_r_articles_6_a_manual_retry_takes_every_article_whatever_its_wait(desk: Desk) -> None:
    fail(desk, ARTICLE, {**ARTICLE, "id": "a2"})
    assert desk.asked == (1, 1), "the second found both in cooldown, which costs it nothing"
    assert not desk.run(now=True)
    assert desk.asked == (3, 3)
    waits = {job.attempts: job.due - desk.clock.now() for job in desk.jobs()}
    assert waits == {1: 300, 2: 600}
    desk.say("ok", "ok")
    assert desk.run(now=True)
    assert [job.state for job in desk.jobs()] == ["completed", "completed"]


def test_an_answer_that_comes_too_late_is_not_taken(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first provider is silent for too long, the second answers; one summary comes of it."""
    late = OPENAI["ok"]._replace(ends="late")
    monkeypatch.setattr(desk.openai, "replies", {**OPENAI, "late": late})
    desk.say("late", "ok")
    job = desk.summarize.submit(ARTICLE)
    assert desk.app.run_due().succeeded == 1
    desk.openai.closing.set()
    until(lambda: desk.openai.late)
    assert [one["provider"] for one in desk.published] == ["claude"]
    assert [one.provider for one in desk.app.get(job.id).history] == ["claude"]


def one_is_bad(model: Model, ends: str) -> None:
    """Have a provider fail on one article alone, whatever else it is asked."""
    plain = model.answer

    def answer(request: Any) -> None:
        body = request.rfile.peek()
        model.reply = ends if b"POISON" in body else "ok"
        plain(request)

    model.answer = answer  # type: ignore[method-assign]


@pytest.mark.parametrize("how", ["hang", "500"])
def test_r_articles_one_bad_article_dies_alone_and_those_behind_it_are_summarised(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Both providers fail on it, by a timeout or a 500, which says nothing about other articles."""
    for model, replies in ((desk.openai, OPENAI), (desk.claude, CLAUDE)):
        monkeypatch.setattr(model, "replies", {**replies, "500": Reply("transient", 500, {})})
        one_is_bad(model, how)
    bad = desk.summarize.submit({**ARTICLE, "content": "POISON"})
    for name in ("g1", "g2", "g3"):
        desk.summarize.submit({**ARTICLE, "id": name})
    first = desk.app.run_due()
    assert (first.succeeded, first.failed, first.returned) == (3, 1, 0)
    assert [one["id"] for one in desk.published] == ["g1", "g2", "g3"]
    waits: list[float] = []
    while (job := desk.app.get(bad.id)).state == "pending":
        waits.append(job.due - desk.clock.now())
        desk.clock.advance(waits[-1] + 0.01)
        desk.app.run_due()
    assert waits == pytest.approx([300, 600, 1200, 2400, 4800], abs=0.05)
    assert (job.reason, job.attempts) == ("exhausted", 6)
    assert sum(one["content"] == "POISON" for one in desk.openai.asked) == 6


def test_r_articles_providers_that_recover_do_every_article_a_person_retries(desk: Desk) -> None:
    fail(desk, *({**ARTICLE, "id": f"a{n}"} for n in range(3)))
    desk.say("ok", "ok")
    for pause in desk.app.desk.lanes.pauses():
        desk.app.desk.lanes.resume(pause.lane)
    desk.app.desk.runs.start(state="pending")
    assert desk.app.run_due().succeeded == 3


@each_row("name", ["articles", "sync"])
def test_without_its_library_an_example_says_so_and_spends_nothing(
    run_example: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    """The clients of the providers are not installed here."""
    task = {"userId": "u", "sessionId": "s", "tableName": "t"}
    given = tmp_path / "given.jsonl"
    given.write_text(json.dumps(ARTICLE if name == "articles" else task), "utf-8")
    ended = run_example(f"{name}.py", str(given), SYNC_STORE=str(tmp_path / "sync.db"))
    assert ended.returncode == 1, ended.stderr
    assert "cannot run here" in ended.stderr
    assert "No module named" in ended.stderr
    again = run_example(f"{name}.py", SYNC_STORE=str(tmp_path / "sync.db"))
    assert again.returncode == 1, "what is queued is no better off"
