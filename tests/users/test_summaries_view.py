"""R-SUMMARIES 7: `redrive init --view` shows a handler's jobs as a table, and takes no other's name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from kit import START, make_attempt, make_failure
from redrive import Job, Reason, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.cli.views import error_of
from redrive.errors import StoreReadOnly
from redrive.stores.postgres import PostgresStore
from summarykit import HANDLER, INIT, VIEW, Service, new_database
from tablekit import each_row

COLUMNS = [
    ("job_id", "text"),
    ("article_id", "text"),
    ("status", "text"),
    ("retry_count", "int8"),
    ("max_retries", "int8"),
    ("error_message", "text"),
    ("created_at", "timestamptz"),
    ("started_at", "timestamptz"),
    ("completed_at", "timestamptz"),
]


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START + seconds, UTC)


def run(*words: str) -> Result:
    return CliRunner().invoke(root, list(words), obj=Cli())


@pytest.fixture
def empty() -> Iterator[str]:
    """A database with nothing in it."""
    with new_database() as url:
        yield url


def test_r_summaries_7_the_columns_are_those_of_the_table(service: Service) -> None:
    query = """SELECT attname::text AS name, typname::text AS type FROM pg_attribute
        JOIN pg_type ON pg_type.oid = atttypid WHERE attrelid = %s::regclass ORDER BY attnum"""
    found = [(row["name"], row["type"]) for row in service.sql(query, VIEW)]
    assert found == COLUMNS


def test_r_summaries_7_a_nul_in_one_job_does_not_stop_the_view(service: Service) -> None:
    failure = make_failure("timeout", type="TimeoutError", message="a\0b")
    ended = {
        "spent": {"timeout": 2},
        "failure": failure,
        "updated": START + 9,
        "finished": START + 9,
    }
    service.keep("j1", "a1", state=State.DEAD, reason=Reason.EXHAUSTED, **ended)
    query = f"SELECT retry_count, error_message FROM {VIEW}"
    assert [tuple(row.values()) for row in service.sql(query)] == [(2, "TimeoutError: a\ufffdb")]
    service.sql(f"UPDATE {VIEW} SET status = 'pending' WHERE job_id = 'j1'")
    job = service.app.store.get("j1")
    assert job is not None
    assert job.state is State.PENDING


def test_r_summaries_7_each_state_has_its_line(service: Service) -> None:
    failure = make_failure("timeout", type="TimeoutError", message="")
    tried = {"attempts": 3, "spent": {"timeout": 2, "transient": 1}, "failure": failure}
    ended = {**tried, "updated": START + 9, "finished": START + 9}
    waiting = service.keep("j1", "a1", created=START + 1)
    running = service.keep("j2", "a2", created=START + 2)
    dead = service.keep("j3", "a3", state=State.DEAD, reason=Reason.EXHAUSTED, **ended)
    service.keep("j4", "a4", state=State.RESOLVED, reason=Reason.RESOLVED, **ended)
    service.keep("j5", "a5", state=State.COMPLETED, finished=START + 9, updated=START + 9)
    (claim,) = service.app.store.claim(
        [HANDLER], limit=1, holder="w", lease_for=60, only=[running.id]
    )
    rows = {row["job_id"]: list(row.values())[1:] for row in service.sql(f"SELECT * FROM {VIEW}")}
    began = datetime.fromtimestamp(claim.job.updated, UTC)
    assert rows == {
        waiting.id: ["a1", "pending", 0, 3, None, at(1), None, None],
        running.id: ["a2", "running", 0, 3, None, at(2), began, None],
        dead.id: ["a3", "dead_letter", 3, 3, "TimeoutError", at(0), None, at(9)],
        "j4": ["a4", "completed", 3, 3, "TimeoutError", at(0), None, at(9)],
        "j5": ["a5", "completed", 0, 3, None, at(0), None, at(9)],
    }


def test_r_summaries_7_it_started_when_the_last_attempt_did(service: Service) -> None:
    job = Job(id="", handler="", lane="", payload="", created=0, due=0, since=0, updated=0)
    history = tuple(make_attempt(job, ordinal=n, started=START + n) for n in (1, 2, 3))
    service.keep("j1", history=history)
    assert service.row("a1")["started_at"] == at(3)


@pytest.mark.parametrize(
    ("kind", "message"), [("ValueError", "no: sense"), ("", "only words"), ("Bare", ""), ("", "")]
)
def test_r_summaries_7_the_error_reads_as_on_the_command_line(
    service: Service, kind: str, message: str
) -> None:
    failure = make_failure(type=kind, message=message, why="because 'so'")
    service.keep("j1", failure=failure)
    document = {"error": {"type": kind, "message": message, "why": failure.why}}
    assert service.row("a1")["error_message"] == error_of(document)


def test_r_summaries_7_dead_letters_are_read_newest_first(service: Service) -> None:
    for n in (2, 3, 1):
        service.keep_dead(f"j{n}", f"a{n}", created=START + n)
    service.keep("j4", "a4")
    query = f"SELECT * FROM {VIEW} WHERE status = 'dead_letter' ORDER BY created_at DESC"
    assert [row["article_id"] for row in service.sql(query)] == ["a3", "a2", "a1"]


def test_r_summaries_7_only_the_handlers_own_jobs_are_in_it(service: Service) -> None:
    service.keep("j1", "a1", handler="other")
    service.keep("j2", "a2")
    service.keep("j3", payload='{"path":"x"}')
    service.keep("j4", payload='{"article_id":10.10,"text":"Ünï \\u00e9 \\" \\\\"}')
    found = service.sql(f"SELECT article_id FROM {VIEW} ORDER BY job_id")
    assert [row["article_id"] for row in found] == ["a2", None, "10.10"]


def test_r_summaries_7_the_view_is_made_with_the_store(empty: str) -> None:
    made = run(*INIT, "--store", empty, "--json")
    assert made.exit_code == 0, made.output
    data = json.loads(made.stdout)["data"]
    assert data["created"] is True
    assert data["view"] == {"name": VIEW, "handler": HANDLER}
    again = run(*INIT, "--store", empty)
    assert again.exit_code == 0
    assert f"the view {VIEW} shows the jobs of {HANDLER} (none yet)" in again.stdout


def test_r_summaries_7_another_handler_is_refused_and_said(service: Service) -> None:
    service.keep("j1")
    result = service.run(*INIT[:-1], "other")
    assert result.exit_code == 2
    assert f"{VIEW} shows the jobs of {HANDLER}" in result.stderr
    assert f"DROP VIEW {VIEW}" in result.stderr
    assert service.row("a1")["job_id"] == "j1"


@each_row(
    "kind, place, rest, words",
    [
        ("TABLE", "redrive.q", "(x int)", "redrive.q is a table already"),
        ("TABLE", "public.q", "(x int)", "public.q is a table already"),
        ("TABLE", "q", "(x int) PARTITION BY HASH (x)", "public.q is a table already"),
        ("VIEW", "redrive.q", "AS SELECT 1 AS x", "redrive.q is a view already"),
        ("MATERIALIZED VIEW", "redrive.q", "AS SELECT 1 AS x", "q is a materialized view already"),
        ("SEQUENCE", "redrive.q", "", "redrive.q is a sequence already"),
        ("TYPE", "redrive.q", "AS (x int)", "redrive.q is a type already"),
    ],
)
def test_r_summaries_7_a_name_that_is_taken_is_refused(
    service: Service, kind: str, place: str, rest: str, words: str
) -> None:
    service.sql(f"CREATE {kind} {place} {rest}")
    result = service.run("init", "--view", "q", "--handler", HANDLER)
    service.sql(f"DROP {kind} {place}")
    assert result.exit_code == 2
    assert words in result.stderr
    assert service.run("init", "--view", "q", "--handler", HANDLER).exit_code == 0
    service.sql("DROP VIEW redrive.q")


@pytest.mark.parametrize(
    "name", ["it's", "$$; DROP TABLE articles; $$", "\\'", "{view} %s", "é\n", "注文.作成"]
)
def test_r_summaries_7_no_text_becomes_sql(empty: str, name: str) -> None:
    """Whatever the caller let through, it is a value."""
    store = PostgresStore(empty)
    assert store.make_view("q", name) == store.make_view("q", name)
    with psycopg.connect(empty) as operator:
        rows = operator.execute("SELECT obj_description('redrive.q'::regclass)").fetchall()
    assert rows == [(f"Redrive: the jobs of {name}; columns none",)]
    store.close()


def columns_of(url: str, view: str) -> list[str]:
    query = "SELECT attname::text FROM pg_attribute WHERE attrelid = %s::regclass ORDER BY attnum"
    with psycopg.connect(url) as operator:
        return [row[0] for row in operator.execute(query, [view])]


def test_r_summaries_7_in_public_its_bare_name_is_enough(service: Service) -> None:
    service.keep_dead("j1", payload='{"article_id":"a1","by":{"name":"ada"},"n":10.10}')
    words = ("init", "--view", "public.queue_here", "--handler", HANDLER)
    chosen = ("article_id=payload.article_id", "author=payload.by.name", "payload")
    service.sql("CREATE VIEW queue_here AS SELECT 1 AS x")
    assert "public.queue_here is a view already" in service.run(*words).stderr
    service.sql("DROP VIEW queue_here")
    made = service.run(*words, *(word for column in chosen for word in ("--column", column)))
    assert made.exit_code == 0, made.output
    assert "the view public.queue_here shows the jobs" in made.stdout
    try:
        query = "SELECT author, payload, payload ->> 'n' AS n FROM queue_here"
        rows = service.sql(f"{query} WHERE article_id = 'a1' AND status = 'dead_letter'")
        payload = {"article_id": "a1", "by": {"name": "ada"}, "n": 10.10}
        assert rows == [{"author": "ada", "payload": payload, "n": "10.10"}]
        service.sql("UPDATE queue_here SET status = 'pending' WHERE article_id = 'a1'")
        assert service.app.get("j1").state is State.PENDING
        with pytest.raises(psycopg.Error, match="only takes SET status"):
            service.sql("UPDATE queue_here SET payload = '{}'")
        again = service.run(*words)
        assert again.exit_code == 0, again.output
        assert columns_of(service.url, "queue_here")[:4] == [
            *("job_id", "article_id", "author", "payload"),
        ]
        other = service.run(*words, "--column", "payload")
        assert other.exit_code == 2
        assert "public.queue_here has other columns (article_id=payload.article_id" in other.stderr
        assert "DROP VIEW public.queue_here" in other.stderr
        beside = service.run("init", "--view", "queue_here", "--handler", HANDLER)
        assert "redrive.queue_here shows the jobs" in beside.stdout, beside.output
        service.sql("DROP VIEW redrive.queue_here")
    finally:
        service.sql("DROP VIEW queue_here")


def test_r_summaries_7_without_column_nothing_of_the_payload_is_shown(empty: str) -> None:
    assert run("init", "--view", "q", "--handler", "mail", "--store", empty).exit_code == 0
    own = [name for name, _ in COLUMNS if name != "article_id"]
    assert columns_of(empty, "redrive.q") == own


@each_row(
    "column, words",
    [
        ("article_id", "a column is written NAME=payload.FIELD"),
        ("a=created", "a column is written NAME=payload.FIELD"),
        ("A=payload.a", "a column is written NAME=payload.FIELD"),
        ("a=payload.", "a column is written NAME=payload.FIELD"),
        ("status=payload.status", "has a column status already"),
    ],
)
def test_r_summaries_7_a_column_that_cannot_be_is_refused(
    service: Service, column: str, words: str
) -> None:
    result = service.run("init", "--view", "q", "--handler", HANDLER, "--column", column)
    assert result.exit_code == 2
    assert words in result.stderr
    twice = ("--column", "a=payload.a", "--column", "a=payload.b")
    result = service.run("init", "--view", "q", "--handler", HANDLER, *twice)
    assert "has a column a already" in result.stderr


@each_row("url", ["x.db", "sqlite:x.db", "jsonl:x.jsonl", "memory:"])
def test_r_summaries_7_other_stores_have_no_views_and_none_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*INIT, "--store", url)
    assert result.exit_code == 2
    assert "--view needs a store in PostgreSQL" in result.stderr
    assert list(tmp_path.iterdir()) == []


@each_row("words", [["--view", "q"], ["--handler", HANDLER]])
def test_r_summaries_7_view_and_handler_go_together(service: Service, words: list[str]) -> None:
    result = service.run("init", *words)
    assert result.exit_code == 2
    assert "go together" in result.stderr


def test_r_summaries_7_a_store_for_reading_makes_none(service: Service) -> None:
    store = PostgresStore(service.url, read_only=True)
    with pytest.raises(StoreReadOnly):
        store.make_view("q", HANDLER)
    store.close()
