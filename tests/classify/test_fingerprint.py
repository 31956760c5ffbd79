"""Grouping: one cause, one fingerprint; another cause, another fingerprint."""

from __future__ import annotations

import asyncio
import json
import linecache
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import redrive.classify.fingerprint
from redrive.classify import classify
from redrive.classify.fingerprint import Cause, of_text
from redrive.classify.message_text import normalise, without_ids
from redrive.jobs.job import Category
from redrive.payloads.masking import error_text
from redrive.policies.policy import when
from tablekit import each_row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ApiError(Exception):
    pass


class Grouped(Exception):
    redrive_group = "my group"


def cause_of(error: BaseException, *, secrets: Sequence[str] = (), **options: Any) -> Cause:
    return redrive.classify.fingerprint.cause_of(error, error_text(error, secrets), **options)


def caught(call: Callable[..., object], *args: object) -> BaseException:
    try:
        call(*args)
    except BaseException as error:  # noqa: BLE001 - groups and interrupts are under test too
        return error
    pytest.fail("it was supposed to fail")


def run(source: str, name: str = "/srv/app/jobs.py", **names: object) -> BaseException:
    """Run source as if it stood in that file, and return what it raised."""
    if not Path(name).exists():
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    error = caught(exec, compile(source, name, "exec"), {"__name__": "jobs", **names})
    assert error.__traceback__
    return error.with_traceback(error.__traceback__.tb_next)


def charge(order: int, kind: int) -> None:
    host = f"api{order % 7}.eu.example.com"
    if kind == 0:
        raise ApiError(f"order {order}: {host}:443 refused at {uuid.UUID(int=order)}")
    if kind == 1:
        raise ApiError(f"order {order}: {host}:443 refused at {uuid.UUID(int=order)}")
    json.loads("{" + str(order))


# Grouping order: a key, then the application's statement and type, then the message.
def test_ten_thousand_failures_of_three_causes_give_three_groups() -> None:
    causes = {cause_of(caught(charge, n, n % 3)).fingerprint for n in range(10_000)}
    assert len(causes) == 3


def test_a_fingerprint_names_its_version_and_stays_what_it_was() -> None:
    cause = of_text("ValueError", "user 42 not found")
    assert re.fullmatch(r"v1:[0-9a-f]{16}", cause.fingerprint)
    # If one of these changes, so must the version: old jobs keep the old fingerprints.
    assert cause.fingerprint == "v1:f684b52adb7e4068"
    cause = cause_of(run("def f():\n  1/0\nf()"), handler="pay")
    assert cause.fingerprint == "v1:62b57fdfd22a8c04"
    assert cause_of(Grouped("x"), handler="pay").fingerprint == "v1:b8ad1ea74cd4289f"


def test_code_above_the_function_does_not_matter_and_the_statement_within_it_does() -> None:
    body = "def f(n):\n  if n: raise ValueError\n  raise ValueError\nf({})"
    first = cause_of(run(body.format(1)))
    assert cause_of(run("import os\n\n\n" + body.format(1))).fingerprint == first.fingerprint
    assert cause_of(run(body.format(0))).fingerprint != first.fingerprint
    assert first.title == "ValueError @ f"


def test_the_file_of_a_function_does_not_matter() -> None:
    source = "def f():\n  1/0\nf()"
    one = cause_of(run(source, "/srv/release-1/app/jobs.py"))
    assert cause_of(run(source, "C:\\app\\jobs.py", __name__="__main__")) == one
    for moved in (run(source, "/srv/app/other.py"), run(source, __package__="billing")):
        assert cause_of(moved).fingerprint == one.fingerprint


def test_the_handler_counts_unless_the_failure_is_about_something_outside() -> None:
    error = run("def f():\n  1/0\nf()")
    one, other = (cause_of(error, handler=name) for name in ("pay", "mail"))
    assert one.fingerprint != other.fingerprint
    shared = {cause_of(error, handler=name, outside=True) for name in ("pay", "mail")}
    assert len(shared) == 1
    assert of_text("E", "x", handler="a").fingerprint != of_text("E", "x", handler="b").fingerprint
    assert of_text("E", "x", handler="a", outside=True) == of_text("E", "x", outside=True)


@each_row("category", Category)
def test_the_handler_is_left_out_for_outages_limits_accounts_and_crashes(
    category: Category,
) -> None:
    error = run("def f():\n  raise ValueError\nf()")
    rules = [when(ValueError, category)] if category not in _NOT_BY_RULE else []
    given = category if category in _NOT_BY_RULE else None
    prints = {
        classify(error, rules=rules, handler=name, category=given).fingerprint for name in "ab"
    }
    shared = {"transient", "rate_limit", "quota", "auth", "crash"}
    assert len(prints) == (1 if category in shared else 2)


_NOT_BY_RULE = {Category.CRASH, Category.TIMEOUT, Category.UNKNOWN}


def test_without_source_the_normalised_message_counts() -> None:
    code = compile("def f(m):\n  raise ValueError(m)", "/nowhere/jobs.py", "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    found = [cause_of(caught(names["f"], m)) for m in ("order 7 is odd", "order 9 is odd", "empty")]
    assert found[0] == found[1]
    assert found[0].fingerprint != found[2].fingerprint
    exec(compile("def g(m):\n  raise ValueError(m)", "/nowhere/jobs.py", "exec"), names)
    assert cause_of(caught(names["g"], "empty")).fingerprint != found[2].fingerprint


@each_row(
    "one, other",
    [
        ("SELECT 1 FROM t WHERE name = 'ada'", "SELECT 2 FROM t WHERE name = 'bob''s'"),
        ("INSERT INTO t VALUES ('a', 'b', 3)", "INSERT INTO t VALUES ('c', 'd')"),
        ("Key (name)=(ada) already exists.", "Key (name)=(bob) already exists."),
    ],
)
def test_values_in_sql_do_not_split_a_group(one: str, other: str) -> None:
    assert of_text("E", one).fingerprint == of_text("E", other).fingerprint
    assert of_text("E", "no 'ada'").fingerprint != of_text("E", "no 'bob'").fingerprint


def test_the_type_and_the_detail_tell_causes_apart() -> None:
    source = "def f():\n  raise kind('x')\nf()"
    error = run(source, kind=ApiError)
    assert cause_of(error).fingerprint != cause_of(run(source, kind=KeyError)).fingerprint
    assert cause_of(error, detail="404").fingerprint != cause_of(error, detail="503").fingerprint
    assert cause_of(error, detail="404") == cause_of(error, detail="404")


@each_row(
    "file",
    [
        "/venv/lib/python3.11/site-packages/httpx/_client.py",
        "/usr/lib/python3/dist-packages/yaml/loader.py",
        "C:\\venv\\Lib\\site-packages\\x.py",
        json.__file__,
        redrive.classify.fingerprint.__file__,
        "<frozen importlib._bootstrap>",
        "<attrs generated init x>",
    ],
)
def test_lines_of_libraries_are_not_where_it_failed(file: str) -> None:
    library: dict[str, Any] = {}
    exec(compile("def get():\n\n  raise OSError", file, "exec"), library)
    source = "def a():\n  get()\ndef b():\n  get()\n{}()"
    one, other = (run(source.format(name), get=library["get"]) for name in "ab")
    assert cause_of(one).title == "OSError @ a"
    assert cause_of(one).fingerprint != cause_of(other).fingerprint
    alone = run("raise OSError('3 left')", file)
    assert cause_of(alone) == cause_of(OSError("3 left"))


def test_a_key_decides_alone() -> None:
    given = cause_of(Grouped("x"), detail="1").fingerprint
    for key in ("my group", "other", ""):
        error = run("def f():\n  raise error\nf()", error=ValueError("y"))
        error.redrive_group = key  # type: ignore[attr-defined]
        assert (cause_of(error).fingerprint == given) is (key == "my group")


WRAP = """
def low(n):
  if n: raise KeyError(n)
  raise KeyError(n)
def job(n):
  try:
    low(n)
  except KeyError as error:
    raise kind('job failed') {}
job({})
"""


@each_row("how, groups", [("from error", 2), ("", 2), ("from None", 1)])
def test_what_the_application_wrapped_still_tells_causes_apart(how: str, groups: int) -> None:
    errors = [run(WRAP.format(how, n), kind=ApiError) for n in (0, 1, 0, 1)]
    assert len({cause_of(error).fingerprint for error in errors}) == groups


def test_what_a_library_wrapped_does_not_split_a_group() -> None:
    library: dict[str, Any] = {"ApiError": ApiError}
    source = "def get(kind):\n  try: raise kind\n  except OSError as e: raise ApiError from e"
    exec(compile(source, "/x/site-packages/lib.py", "exec"), library)
    errors = [
        run("def f():\n  get(kind)\nf()", get=library["get"], kind=kind)
        for kind in (ConnectionResetError, TimeoutError)
    ]
    assert len({cause_of(error).fingerprint for error in errors}) == 1


def test_groups_of_exceptions_group_by_what_they_hold() -> None:
    def fail(line: int) -> None:
        if line:
            raise ValueError(line)
        raise ValueError(line)

    async def child(line: int) -> None:
        fail(line)

    async def job(*lines: int) -> None:
        async with asyncio.TaskGroup() as tasks:
            for line in lines:
                tasks.create_task(child(line))

    def of(*lines: int) -> str:
        return cause_of(caught(asyncio.run, job(*lines))).fingerprint

    assert of(0) == of(0, 0, 0)
    assert of(0, 1) == of(1, 0, 1)
    assert len({of(0), of(1), of(0, 1)}) == 3
    nested = ExceptionGroup("a", [OSError("1"), ExceptionGroup("b", [OSError("2")])])
    assert cause_of(nested) != cause_of(ExceptionGroup("a", [KeyError(1)]))


def test_a_loop_of_causes_and_an_endless_group_come_to_an_end() -> None:
    one, other = ValueError(), KeyError()
    one.__cause__, other.__cause__ = other, one
    assert cause_of(one).title == "ValueError"
    chain = ValueError("0")
    for n in range(1000):
        error = ValueError(str(n))
        error.__context__ = chain
        chain = error
    deep: Exception = ValueError()
    for _ in range(5000):
        deep = ExceptionGroup("deep", [deep])
    wide = ExceptionGroup("wide", [ValueError()] * 100_000)
    for error in (chain, deep, wide):
        assert cause_of(error).fingerprint.startswith("v1:")


def test_odd_code_and_odd_errors_have_a_cause() -> None:
    class Odd(Exception):
        @property
        def redrive_group(self) -> str:
            raise LookupError

        def __str__(self) -> str:
            raise LookupError

    assert cause_of(Odd()).title == "Odd: <Odd whose str() raised LookupError>"
    code = compile("raise ValueError", "/srv/\ud800/a.py", "exec")
    for names in ({"__package__": 7}, {"__name__": None}):
        cause_of(caught(exec, code, names)).title.encode()


def test_a_title_is_one_short_line_without_secrets_or_escapes() -> None:
    error = run("def charge(m):\n  raise TimeoutError(m)\ncharge(m)", m="api.stripe.com timed out")
    assert cause_of(error).title == "TimeoutError: api.stripe.com timed out @ charge"
    text = "\x1b[2J token=abc\nmy-secret " + "x" * 500
    error = run("def charge(m):\n  raise TimeoutError(m)\ncharge(m)", m=text)
    title = cause_of(error, secrets=["my-secret"]).title
    assert title.startswith("TimeoutError: \\x1b[* token=••• ••• xxx")
    assert title.endswith("xx… @ charge")
    assert len(title) == 120
    long = run(f"def {'f' * 300}(): 1/0\n{'f' * 300}()")
    assert cause_of(long).title == f"ZeroDivisionError: division by zero @ {'f' * 39}…"
    assert of_text("Crash", "").title == "Crash"


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_gives_a_title_that_may_be_printed(name: str, message: str) -> None:
    cause = of_text(name, message)
    assert len(cause.title) <= 120
    cause.title.encode()
    assert len(cause.title.splitlines()) <= 1
    assert isinstance(cause, Cause)


@each_row(
    "message, normal",
    [
        ("user 42 not found", "user <n> not found"),
        ("user 7f3a9b1c-1111-4222-8333-123456789abc not found", "user <n> not found"),
        ("user deadbeef not found", "user <n> not found"),
        ("user 01ARZ3NDEKTSV4RRFFQ69G5FAV not found", "user <n> not found"),
        ("no such charge: ch_3NqLkj2eZvKYlo2C", "no such charge: <n>"),
        ("1,234.5 of -7 at 0x7f22 (v1.2.3)", "<n> of <n> at <n> (<n>)"),
        ("ids [1, 2, 3] and [4,5]", "ids [<n>] and [<n>]"),
        ("BigQuery同期が10回失敗しました", "BigQuery同期が<n>回失敗しました"),
        (
            "at 2024-01-05T10:00:00.123+02:00 or 2024-01-05 10:00 or 12:30:45",
            "at <n> or <n> or <n>",
        ),
        ("after 1h 30m, 950ms", "after <n>"),
        ("api3.eu.example.com:443 and db.local and localhost:80", "<n> and <n> and <n>"),
        ("10.0.0.1:5432 or [fe80::1]:80 or ::ffff:1.2.3.4", "<n> or <n> or <n>"),
        ("line 3:14: error", "line <n>: error"),
        ("mail ada@example.com: see https://x.y/z?q=1", "mail <n>: see <n>"),
        ("redrive.errors.BadPayload in google.cloud.bigquery",) * 2,
        (
            "open '/etc/app.conf' or /tmp/ab/c",
            "open '/etc/app.conf' or <n>",
        ),
        ("KeyError: 'vat_id' can't be \"name\"",) * 2,
        ("got 'item 7' and \"" + "long words " * 5 + '"', "got '<s>' and \"<s>\""),
        (
            "NewConnectionError('<x at 0x7f>: refused [Errno 111]')",
            "NewConnectionError('<x at <n>>: refused [Errno <n>]')",
        ),
        (" many \n\t spaces ", "many spaces"),
        ("x" * 5000, "x" * 300),
    ],
)
def test_what_varies_is_taken_out_and_what_matters_stays(message: str, normal: str) -> None:
    assert normalise(message) == normal


@each_row(
    "message, title",
    [
        ("Connection refused: pay-7.internal:443", "Connection refused: pay-*.internal:443"),
        ("[Errno 111] Connection refused", "[Errno 111] Connection refused"),
        ("HTTP 503: request req_01HXAZ failed", "HTTP 503: request req_* failed"),
        ("user 7f3a9b1c-1111-4222-8333-123456789abc not found", "user * not found"),
        ("no charge ch_3NqLkj2eZvKYlo2C of order-4711", "no charge ch_* of order-*"),
        ("1,234.5 of -7 at 0x7f22 (v1.2.3)", "* of * at * (v*)"),
        ("ids [1, 2, 3] and [4,5]", "ids [*] and [*]"),
        ("BigQuery同期が10回失敗しました", "BigQuery同期が*回失敗しました"),
        ("at 2024-01-05T10:00:00.123+02:00 or 12:30:45", "at * or *"),
        ("from 10.0.0.1:5432 or ::ffff:1.2.3.4", "from * or *"),
        ("lost db3.local:54321", "lost db*.local:*"),
        ("mail ada@example.com bounced", "mail *@example.com bounced"),
        ("see https://x7.y.com/v1/z/01ARZ3NDEK?page.", "see https://x*.y.com/v*/z/*?*."),
        ("open '/etc/app.conf' or /tmp/ab/c.json", "open '/etc/app.conf' or /tmp/*"),
        ("KeyError: 'vat_id' isn't there", "KeyError: 'vat_id' isn't there"),
        (" many \n\t spaces ", "many spaces"),
        ("x" * 5000, "x" * 300),
    ],
)
def test_titles_have_stars_for_ids_and_keep_what_people_know(message: str, title: str) -> None:
    assert without_ids(message, ("503",)) == title


def test_a_title_keeps_the_status_and_the_code_of_the_failure() -> None:
    error = run("def f():\n  raise kind('503 from node 17')\nf()", kind=ApiError)
    error.status_code = 503  # type: ignore[attr-defined]
    failure = classify(error)
    assert failure.title == "ApiError: 503 from node * @ f"


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_has_a_title_that_is_bounded(message: str, keep: str) -> None:
    assert len(without_ids(message, (keep,))) <= 300


@each_row(
    "message, title",
    [
        ("429 Too Many Requests, 17 left", "429 Too Many Requests, * left"),
        ("HTTP 503 from pay-7", "HTTP 503 from pay-*"),
        ("failed with status code 404 (id 40)", "failed with status code 404 (id *)"),
        ("status: 500, job 500123", "status: 500, job *"),
        ("429 left of 503", "* left of *"),
    ],
)
def test_an_http_status_stays_in_a_title(message: str, title: str) -> None:
    assert without_ids(message) == title
    other = message.replace("429", "418")  # the fingerprint masks it as before
    assert of_text("Refused", message).fingerprint == of_text("Refused", other).fingerprint


@given(st.integers(0), st.uuids(), st.ip_addresses(), st.datetimes(), st.floats(0, 1e6))
def test_ids_numbers_addresses_and_times_never_split_a_group(
    number: int, ident: uuid.UUID, address: object, time: object, seconds: float
) -> None:
    message = f"job {number} ({ident.hex}, {ident}) on {address} at {time} took {seconds:.3f}s"
    assert normalise(message) == "job <n> (<n>) on <n> at <n> took <n>"
    assert without_ids(message) == "job * (*) on * at * took *"


@each_row("piece", [*"a1.'\"<:-/@ é\\", "a.", "1.", "::", "a'", "0:", "Jan ", "1s", "://"])
def test_a_megabyte_of_anything_is_normalised(piece: str) -> None:
    assert len(normalise((piece * 10**6)[: 10**6])) <= 300
    assert len(without_ids((piece * 10**6)[: 10**6])) <= 300


def test_a_script_and_the_program_that_imports_it_agree_on_a_cause() -> None:
    """A class is __main__.Limited in one and llm.Limited in the other."""

    def raised(module: str) -> BaseException:
        try:
            raise type("Limited", (Exception,), {"__module__": module})("slow down")
        except Exception as error:  # noqa: BLE001 - made above
            return error

    script, imported = raised("__main__"), raised("llm")
    assert cause_of(script) == cause_of(imported)
