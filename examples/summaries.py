"""Summarise articles in a service that keeps its jobs in its own PostgreSQL database.

An article and its job are stored in one transaction: there is never one without the other. A pass runs
what is due. A summary that fails, or takes too long, is tried three times without a wait; then it is a
dead letter, which delays nobody any more and is for people to look at:

    $ export SUMMARIES_DATABASE=postgresql://user@host/database
    $ redrive init --store "$SUMMARIES_DATABASE" \
          --view public.summarize_job_queue --handler article.summarize \
          --column article_id=payload.article_id
    $ python examples/summaries.py first.txt second.txt
    $ psql "$SUMMARIES_DATABASE" -c "SELECT * FROM summarize_job_queue"

Each file is an article. It makes the tables that it needs: `articles`, and Redrive's in a schema of
their own. Needs `redrive[postgres]`.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg

from redrive import GiveUp, Handler, Job, Redrive
from redrive.policies import presets

DATABASE = "postgresql:///summaries"
SECONDS = 30.0
"""How long one summary may take."""

TABLE = """
CREATE TABLE IF NOT EXISTS articles (id text PRIMARY KEY, body text NOT NULL, summary text)
"""

Model = Callable[[str], Awaitable[str]]
Summarize = Handler[[str], Any]


async def first_sentence(text: str) -> str:
    """Stand in for the model that a real service would ask here."""
    sentence, stop, _ = text.strip().partition(".")
    if not stop:
        raise ValueError("there is no sentence in it")
    return sentence + stop


def connect(
    database: str, model: Model = first_sentence, *, seconds: float = SECONDS, **options: Any
) -> tuple[Redrive, Summarize]:
    """Give the queue in a database and the handler that summarises the articles in it."""
    app = Redrive(database, policy=presets.BATCH, **options)

    # Async, so that its time limit can stop it; no transaction stays open while the model thinks.
    @app.handler("article.summarize", timeout=seconds)
    async def summarize(article_id: str) -> None:
        query = "SELECT body FROM articles WHERE id = %s"
        async with await psycopg.AsyncConnection.connect(database) as db:
            found = await (await db.execute(query, [article_id])).fetchone()
        if found is None:
            raise GiveUp("the article is gone")
        summary = await model(found[0])
        change = "UPDATE articles SET summary = %s WHERE id = %s"
        async with await psycopg.AsyncConnection.connect(database) as db:
            await db.execute(change, [summary, article_id])

    return app, summarize


# Made here, so that `redrive work examples.summaries:app --once` finds it; opened on first use.
app, summarize = connect(os.environ.get("SUMMARIES_DATABASE", DATABASE))


def accept(db: psycopg.Connection[Any], summarize: Summarize, article_id: str, body: str) -> Job:
    """Keep an article, new or changed, together with the job to summarise it, or neither."""
    change = (
        "INSERT INTO articles VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET body = excluded.body"
    )
    with db.transaction():
        db.execute(change, [article_id, body])
        return summarize.options(within=db).submit(article_id)


def work(app: Redrive) -> None:
    """Pass over what is due until nothing is: every job ends completed or as a dead letter."""
    while app.run_due().taken:
        pass


def main(files: list[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    with app, psycopg.connect(os.environ.get("SUMMARIES_DATABASE", DATABASE)) as db:
        db.execute(TABLE)
        db.commit()
        for file in map(Path, files):
            accept(db, summarize, file.name, file.read_text("utf-8"))
        work(app)
        for name, summary in db.execute("SELECT id, summary FROM articles ORDER BY id"):
            print(f"{name}: {summary or '(none)'}")
        return 1 if app.desk.jobs.find(state="dead", limit=1).jobs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
