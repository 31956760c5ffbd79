"""Whoever can write to a store can choose a registered handler and its JSON, and nothing more."""

from __future__ import annotations

import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kit import make_job
from redrive import Redrive, State
from redrive.jobs.ids import new_id
from redrive.worker.sweep import sweep
from tablekit import each_row

# What a pickle that calls os.system looks like, in the oldest, printable form.
PICKLE = "cos\nsystem\n(S'touch pwned'\ntR."


@pytest.fixture
def calls(app: Redrive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of the one registered handler; whatever runs besides would leave a file."""
    monkeypatch.chdir(tmp_path)
    made: list[Any] = []

    @app.handler("mail")
    def mail(to: Any, **rest: Any) -> None:
        made.append((to, rest))

    return made


def put(app: Redrive, payload: str, handler: str = "mail") -> str:
    """Write a job as an intruder would: past every check of the front."""
    (job,) = app.store.add([make_job(new_id(), handler=handler, payload=payload)])
    return job.id


def is_plain(value: object) -> bool:
    """Whether a value is what JSON can hold, of exactly those types."""
    if type(value) is dict:
        return all(type(key) is str and is_plain(each) for key, each in value.items())
    if type(value) is list:
        return all(is_plain(each) for each in value)
    return type(value) in {str, int, float, bool, type(None)}


@each_row(
    "name",
    [
        "os.system",
        "os:system",
        "builtins.eval",
        "this",
        "antigravity:main",
        "__import__('os').system('touch pwned')",
        "mail.__globals__",
        "mail;touch pwned",
        "../mail",
        "MAIL",
        "*",
        "",
    ],
)
def test_a_stored_name_is_looked_up_among_the_registered_and_never_imported(
    app: Redrive, calls: list[Any], tmp_path: Path, name: str
) -> None:
    modules = set(sys.modules)
    job_id = put(app, '{"to":"touch pwned","command":"touch pwned"}', handler=name)
    assert app.run_due(ignore_backoff=True).taken == 0
    sweep(app.submitter.runtime())
    assert app.get(job_id).state is State.PENDING
    assert calls == []
    assert {"this", "antigravity"}.isdisjoint(set(sys.modules) - modules)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "payload",
    [
        '{"to":{"__class__":"os.system","args":["touch pwned"]}}',
        '{"to":{"py/object":"os.system"},"py/reduce":[{"py/function":"os.system"},["touch pwned"]]}',
        '{"to":"!!python/object/apply:os.system [touch pwned]"}',
        '{"to":"$(touch pwned)`touch pwned`","__globals__":{"x":1}}',
        '{"to":"cos\\nsystem\\n(S\'touch pwned\'\\ntR.","__builtins__":null}',
        '{"to":"{0.__class__.__init__.__globals__}","%s":"%(to)s"}',
    ],
)
def test_a_payload_reaches_its_handler_as_plain_values_whatever_it_says(
    app: Redrive, calls: list[Any], tmp_path: Path, payload: str
) -> None:
    put(app, payload)
    assert app.run_due().succeeded == 1
    ((to, rest),) = calls
    assert is_plain(to)
    assert is_plain(rest)
    assert not (tmp_path / "pwned").exists()


def test_a_payload_of_the_wrong_shape_fails_and_calls_nobody(
    app: Redrive, calls: list[Any]
) -> None:
    """Also one that is nested deeper than anything we would have stored."""
    payloads = ["[]", "null", "7", '"text"', '["touch pwned"]', "{}", '{"self":1}']
    bad = [put(app, payload) for payload in (*payloads, '{"to":' * 90 + "1" + "}" * 90)]
    good = app.store.add([make_job(new_id(), payload='{"to":"ada"}')])[0].id
    assert app.run_due().taken == len(bad) + 1
    for job_id in bad:
        failure = app.get(job_id).failure
        assert failure is not None
        assert failure.category == "unknown"
    assert app.get(good).state is State.COMPLETED
    assert calls == [("ada", {})]


@each_row("text", [PICKLE, "not JSON", "", "[" * 100_000, '{"to":NaN}', "\x80\x04"])
def test_text_in_the_database_that_is_no_json_is_never_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Written to the table by hand; the other jobs go on."""
    monkeypatch.chdir(tmp_path)
    ran: list[object] = []
    with Redrive("jobs.db") as app:

        @app.handler("mail")
        def mail(to: str) -> None:
            ran.append(to)

        bad, good = mail.submit("bad"), mail.submit("good")
        shell = sqlite3.connect("jobs.db")
        with shell:
            shell.execute("UPDATE payloads SET payload = ? WHERE n = 1", (text,))
        shell.close()
        app.run_due()
        failure = app.get(bad.id).failure
        assert failure is not None
        assert failure.category == "unknown"
        assert app.get(good.id).state is State.COMPLETED
    assert ran == ["good"]
    assert not (tmp_path / "pwned").exists()


@dataclass
class Line:
    sku: str


def test_the_class_of_an_argument_comes_from_the_code_never_from_the_store(app: Redrive) -> None:
    seen: list[object] = []

    @app.handler("order")
    def order(line: Line) -> None:
        seen.append(line)

    put(app, '{"line":{"sku":"a","__class__":"os.system"}}', handler="order")
    app.store.add([make_job(new_id(), handler="order", payload='{"line":{"sku":"b"}}')])
    app.run_due()
    assert {type(line) for line in seen} == {Line}
    assert Line("b") in seen
