"""C1, C3: what a person at a terminal sees, and how they are asked."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ptykit import on_terminal
from shopkit import Shop, dead_letter, name


def test_a_terminal_gets_tables_colours_and_the_next_command(shop: Shop) -> None:
    shown = on_terminal("dlq")
    assert b"\x1b[" in shown.raw
    title, *lines = shown.text.splitlines()
    assert title == "Dead letter queue"
    assert lines[0].split() == [
        "#",
        *("event", "or", "key"),
        "time",
        "handler",
        "error",
        "category",
        "retries",
        "group",
    ]
    assert "invoice-4" in lines[2]
    assert "❓ unknown" in lines[2]
    assert "KeyError: 'vat_id'" in lines[2]
    assert lines[-1] == f"next: redrive show {name(4)}"


def test_status_says_in_words_and_signs_what_it_says_in_colours(shop: Shop) -> None:
    shown = on_terminal("status", env={"NO_COLOR": "1"})
    assert b"\x1b" not in shown.raw
    assert "Dead letter queue  ✗ 4" in shown.text
    assert "Failed             ! 1" in shown.text
    lines = shown.text.splitlines()
    facts = next(place for place, line in enumerate(lines) if line.startswith("Failed  "))
    assert lines[facts - 1] == "", "a table and facts do not run into each other"


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_without_colours_not_one_escape_is_written(shop: Shop, env: dict[str, str]) -> None:
    for words in (
        ["status"],
        ["dlq"],
        ["show", name(1)],
        ["groups"],
        ["explain", "WEBHOOKS"],
    ):
        shown = on_terminal(*words, env=env)
        assert shown.code == 0
        assert b"\x1b" not in shown.raw


def test_a_narrow_terminal_shows_whole_ids_and_the_error_below(shop: Shop) -> None:
    text = on_terminal("dlq", width=80).text
    assert name(4) in text
    assert "\n   pdf.print   KeyError: 'vat_id'" in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("command", ["dlq", "failed", "list"])
@pytest.mark.parametrize("width", [60, 80, 100, 130])
def test_no_width_hides_the_handler_the_attempts_or_the_group(
    shop: Shop, command: str, width: int
) -> None:
    shown = on_terminal(command, width=width).text
    lines = shown.partition("next: ")[0].splitlines()
    assert max(len(line) for line in lines) <= width
    text = " ".join(lines)
    words = {
        "dlq": "retries pdf.print 2/9 G3",
        "failed": "retries pay.charge 0/9 G1",
        "list": "attempts pdf.print 3/10 G3",
    }
    for word in ["handler", "group", *words[command].split()]:
        assert word in text.split()


def test_show_says_the_next_command_once(shop: Shop) -> None:
    text = on_terminal("show", name(1)).text
    assert text.count(f"redrive retry {name(1)}") == 1
    assert "next:" not in text
    assert "life" not in text
    assert "retried" not in text
    assert "redrive list" in on_terminal("show", name(7)).text.splitlines()[-1]


@pytest.mark.parametrize("words", [["--plain", "dlq"], ["dlq", "--plain"], ["dlq", "--json"]])
def test_plain_and_json_are_the_same_on_a_terminal_as_in_a_pipe(
    shop: Shop, words: list[str]
) -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "redrive", *words], capture_output=True, check=True, timeout=60
    ).stdout
    raw = on_terminal(*words).raw.replace(b"\r\n", b"\n")
    assert raw.partition(b"next: ")[0] == piped


def test_a_pipe_gets_plain_text_and_no_hint(shop: Shop) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "redrive", "dlq"], capture_output=True, check=True, timeout=60
    )
    assert ended.stdout.startswith(
        b"#\tevent or key\ttime\thandler\terror\tcategory\tretries\tgroup\tid\n"
    )
    assert ended.stderr == b""


def test_a_list_in_a_pipe_loads_nothing_it_does_not_need(shop: Shop) -> None:
    """What is imported is waited for, at every call."""
    code = (
        "import sys; from redrive.cli import main; sys.argv = ['redrive', 'list', '--plain']\n"
        "try: main()\n"
        "except SystemExit: print(' '.join(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(ended.stderr.split())
    needless = {
        "rich",
        "asyncio",
        "tomllib",
        "difflib",
        "importlib.metadata",
        "redrive.cli.actions",
    }
    assert "redrive.cli.lists" in loaded
    assert not loaded & needless


def test_it_works_where_rich_is_not_installed(shop: Shop) -> None:
    shown = on_terminal("dlq", rich=False)
    assert shown.code == 0
    assert b"\x1b" not in shown.raw
    assert shown.raw.startswith(
        b"#\tevent or key\ttime\thandler\terror\tcategory\tretries\tgroup\tid\r\n"
    )
    asked = on_terminal("resolve", "G1", rich=False, typed=b"y\n")
    assert asked.code == 0
    assert b"would take\t2" in asked.raw


def test_yes_does_it_after_the_preview(shop: Shop) -> None:
    shown = on_terminal("retry", "--all", "--reason", "it is back", typed=b"y\n")
    assert shown.code == 0
    assert "Retry 6 jobs? [y/N]: y" in shown.text
    assert "5 of the 6 jobs" in shown.text
    assert "✓ R1 retries 6 jobs" in shown.text
    assert shown.text.index("By handler") < shown.text.index("Retry 6 jobs?")


@pytest.mark.parametrize(
    ("typed", "code"), [(b"n\n", 1), (b"\n", 1), (b"\x03", 130), (b"\x04", 130)]
)
def test_no_and_interrupts_change_nothing(shop: Shop, typed: bytes, code: int) -> None:
    shown = on_terminal("retry", "--all", typed=typed)
    assert shown.code == code
    assert "Traceback" not in shown.text
    assert shop.state_of(name(1)) == "dead"


@pytest.mark.parametrize(
    ("typed", "code", "run"),
    [(b"101\n", 0, -1), (b"y\n", 1, None), (b"100\n", 1, None)],
)
def test_above_a_hundred_the_number_must_be_typed(
    empty: Shop, typed: bytes, code: int, run: int | None
) -> None:
    """F114: a habit of typing y is not enough."""
    empty.add(*(dead_letter(number) for number in range(1, 102)))
    shown = on_terminal("retry", "G1", typed=typed)
    assert "Type 101 to retry them" in shown.text
    assert shown.code == code
    with empty.app() as app:
        assert app.get(name(1)).run == run


def test_the_next_command_names_the_store_that_was_named(shop: Shop) -> None:
    """C1: copied as it stands, it means the same store."""
    text = on_terminal("groups", "--store", shop.url).text
    assert re.search(r"^next: redrive group G\d+ --store redrive\.db$", text, re.MULTILINE), text
    assert "--store" not in on_terminal("groups").text
