"""What a person at a terminal sees, and how they are asked."""

from __future__ import annotations

import re

import pytest

from ptykit import on_terminal
from shopkit import Shop, dead_letter, name
from tablekit import each_row

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


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


def test_a_dumb_terminal_gets_not_one_escape(shop: Shop) -> None:
    shown = on_terminal("show", name(1), env={"TERM": "dumb"})
    assert (shown.code, b"\x1b" in shown.raw) == (0, False)


def test_a_narrow_terminal_shows_whole_ids_and_the_error_below(shop: Shop) -> None:
    text = COLOUR.sub("", shop.drawn("dlq", width=80))
    assert name(1) in text
    assert "\n   pdf.print   KeyError: 'vat_id'" in text


def test_no_width_hides_the_handler_the_attempts_or_the_group(shop: Shop) -> None:
    wanted = {
        "dlq": "retries pdf.print 2/9 G3",
        "failed": "retries pay.charge 0/9 G1",
        "list": "attempts pdf.print 3/10 G3",
    }
    for command, words in wanted.items():
        for width in (60, 80, 100, 130):
            text = COLOUR.sub("", shop.drawn(command, width=width))
            assert max(len(line) for line in text.splitlines()) <= width
            assert {"handler", "group", *words.split()} <= set(text.split()), (command, width)


def test_show_says_the_next_command_once(shop: Shop) -> None:
    text = on_terminal("show", name(1)).text
    assert text.count(f"redrive retry {name(1)}") == 1
    assert "next:" not in text
    assert "life" not in text
    assert "retried" not in text
    assert "redrive list" in on_terminal("show", name(7)).text.splitlines()[-1]


def test_plain_and_json_are_the_same_on_a_terminal_as_in_a_pipe(shop: Shop) -> None:
    for option in ("--plain", "--json"):
        raw = on_terminal("dlq", option).raw.replace(b"\r\n", b"\n")
        assert raw.partition(b"next: ")[0] == shop.run("dlq", option).stdout.encode()


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


@each_row("typed, code", [(b"\n", 1), (b"\x03", 130)])
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
    """A habit of typing y is not enough."""
    empty.add(*(dead_letter(number) for number in range(1, 102)))
    shown = on_terminal("retry", "G1", typed=typed)
    assert "Type 101 to retry them" in shown.text
    assert shown.code == code
    with empty.app() as app:
        assert app.get(name(1)).run == run


def test_the_next_command_names_the_store_that_was_named(shop: Shop) -> None:
    """Copied as it stands, it means the same store."""
    text = on_terminal("groups", "--store", shop.url).text
    assert re.search(r"^next: redrive group G\d+ --store redrive\.db$", text, re.MULTILINE), text
    assert "--store" not in on_terminal("groups").text
