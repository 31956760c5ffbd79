"""Summarise articles with two AI providers, and keep the articles that neither can do now.

OpenAI is asked first and Claude when that fails, or the other way round. If both fail, the article is
queued in a file: it is tried again after 5, 10, 20, 40 and 80 minutes, and then given up with a
warning, for people to look at:

    $ pip install openai anthropic
    $ export OPENAI_API_KEY=… ANTHROPIC_API_KEY=…
    $ python examples/articles.py new-articles.jsonl
    {"id": "a1", "summary": "…", "provider": "claude"}
    $ redrive status --store jsonl:data/retry_queue.jsonl
    $ python examples/articles.py --now          # try every queued article, whatever its wait

Articles are JSON objects, one a line, with `id`, `title` and `content` at least. Run it from cron: each
run first tries again what is due. ARTICLES_PREFER=claude asks Claude first.
"""

from __future__ import annotations

import fileinput
import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from redrive import Category, Handler, Redrive, fallback
from redrive.errors import UsageError
from redrive.policies import presets

log = logging.getLogger("articles")
STORE = "jsonl:data/retry_queue.jsonl"
SECONDS = 60.0
"""How long a provider may be silent."""

Article = dict[str, Any]
Ask = Callable[[Article], str]
Summarize = Handler[[Article], None]


def prompt(article: Article) -> str:
    return f"Summarise in three sentences:\n\n{article['title']}\n\n{article['content']}"


# The clients' own retries are off: two layers that retry multiply, and hold up the other provider.
def ask_openai(article: Article) -> str:
    import openai  # noqa: PLC0415 - only who asks it needs it

    parts, is_whole = list[str](), False
    with openai.OpenAI(max_retries=0, timeout=SECONDS) as client:
        for chunk in client.chat.completions.create(
            model=os.environ.get("OPENAI_MODEL", "gpt-5-mini"),
            messages=[{"role": "user", "content": prompt(article)}],
            stream=True,
        ):
            for choice in chunk.choices:
                parts.append(choice.delta.content or "")
                is_whole = is_whole or choice.finish_reason is not None
    return whole(parts, is_whole)


def ask_claude(article: Article) -> str:
    import anthropic  # noqa: PLC0415 - only who asks it needs it

    parts, is_whole = list[str](), False
    with anthropic.Anthropic(max_retries=0, timeout=SECONDS) as client:
        for event in client.messages.create(
            model=os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-4-5"),
            max_tokens=1000,
            messages=[{"role": "user", "content": prompt(article)}],
            stream=True,
        ):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                parts.append(event.delta.text)
            is_whole = is_whole or event.type == "message_stop"
    return whole(parts, is_whole)


def whole(parts: list[str], is_whole: bool) -> str:
    """Take an answer only to its end: half a summary is none."""
    if not is_whole:
        raise ConnectionError("the stream ended before the answer did")
    return "".join(parts)


def show(summary: dict[str, str]) -> None:
    print(json.dumps(summary, ensure_ascii=False), flush=True)


def connect(
    store: str,
    *,
    openai: Ask = ask_openai,
    claude: Ask = ask_claude,
    prefer: str = "openai",
    publish: Callable[[dict[str, str]], object] = show,
    **options: Any,
) -> tuple[Redrive, Summarize]:
    """Give the queue of articles and the way to summarise one."""
    app = Redrive(store, policy=presets.LLM, **options)
    providers = {"openai": openai, "claude": claude}
    ordered = {prefer: providers[prefer], **providers}
    # Whatever the error, the other one may do it. At most five minutes, so that the first retry of
    # an article finds both of them ready.
    ask = fallback(on=Category, longest="5m", **ordered)

    @app.handler("article.summarize")
    def summarize(article: Article) -> None:
        answer = ask(article)
        publish({"id": article["id"], "summary": answer.value, "provider": answer.winner})

    return app, summarize


# Made here, so that `redrive work examples.articles:app --once` finds it; opened on first use.
app, summarize = connect(
    os.environ.get("ARTICLES_STORE", STORE), prefer=os.environ.get("ARTICLES_PREFER", "openai")
)


def key_of(article: Article) -> str:
    """Name an article as it is now: one that is queued already is not queued twice.

    With `article:<id>` instead, an edited article is a KeyConflict while its earlier text is kept.
    """
    text = json.dumps(article, sort_keys=True)
    return f"article:{hashlib.sha256(text.encode()).hexdigest()}"


def take(summarize: Summarize, article: Article) -> bool:
    """Summarise one article; one that Redrive refuses is logged and does not end the run."""
    try:
        return summarize.options(key=key_of(article)).try_now(article).done
    except UsageError as error:
        log.error("article %s was not accepted: %s", article.get("id"), error)  # noqa: TRY400
        return False


def run(
    app: Redrive, summarize: Summarize, articles: Iterable[Article], *, now: bool = False
) -> bool:
    """Try what is due (with `now` all that is queued), then what is new; says whether all is done."""
    passed = app.run_due(ignore_backoff=now)
    taken = [take(summarize, one) for one in articles]
    return passed.failed == passed.returned == 0 and all(taken)


def read(files: list[str]) -> list[Article]:
    """Read every article before the first is sent: a line that is no JSON stops the run in time."""
    if not files:
        return []
    with fileinput.input(files, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    logging.getLogger("redrive").setLevel(logging.INFO)
    articles = read([one for one in arguments if one != "--now"])
    with app:
        return 0 if run(app, summarize, articles, now="--now" in arguments) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
